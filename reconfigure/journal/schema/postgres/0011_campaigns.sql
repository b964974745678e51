-- +goose Up

-- See the SQLite one for what it is for.
CREATE TABLE campaigns (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    known json   NOT NULL
);
