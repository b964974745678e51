-- +goose Up

-- See the SQLite one for what the columns are for.
CREATE TABLE identity (
    id      integer PRIMARY KEY CHECK (id = 1),
    cluster text    NOT NULL CHECK (cluster <> ''),
    marked  integer NOT NULL
);
