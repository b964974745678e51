-- +goose Up

-- Campaigns, the newest one last: their limits, and how far they are.
CREATE TABLE campaigns (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    known TEXT NOT NULL CHECK (json_valid(known))
) STRICT;

PRAGMA user_version = 11;
