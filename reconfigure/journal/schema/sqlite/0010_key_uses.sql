-- +goose Up

-- The calls of each key that the gate admits: how many it may make, and the newest refusals. A row does not grow.
CREATE TABLE key_uses (
    name  TEXT PRIMARY KEY CHECK (name <> ''),
    known TEXT NOT NULL CHECK (json_valid(known))
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 10;
