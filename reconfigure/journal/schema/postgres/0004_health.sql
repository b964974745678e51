-- +goose Up

-- As the fourth version of the SQLite one.
CREATE TABLE health (
    node_group text PRIMARY KEY CHECK (node_group <> ''),
    known      json NOT NULL
);
