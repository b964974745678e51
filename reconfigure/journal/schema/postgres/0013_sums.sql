-- +goose Up

-- See the SQLite one for what it is for.
CREATE TABLE sums (
    node text PRIMARY KEY CHECK (node <> ''),
    sum  text NOT NULL CHECK (sum <> '')
);
