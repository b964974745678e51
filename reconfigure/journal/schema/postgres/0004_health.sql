-- +goose Up

-- See the SQLite one for what it is for.
CREATE TABLE health (
    node_group text PRIMARY KEY CHECK (node_group <> ''),
    known      json NOT NULL
);
