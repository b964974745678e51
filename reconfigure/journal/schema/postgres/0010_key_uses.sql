-- +goose Up

-- See the SQLite one for what it is for.
CREATE TABLE key_uses (
    name  text PRIMARY KEY CHECK (name <> ''),
    known json NOT NULL
);
