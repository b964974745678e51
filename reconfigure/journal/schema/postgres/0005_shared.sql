-- +goose Up

-- See the SQLite one for what the columns are for.
CREATE TABLE desired (
    id    integer PRIMARY KEY CHECK (id = 1),
    nodes json    NOT NULL
);

CREATE TABLE host_keys (
    address text PRIMARY KEY CHECK (address <> ''),
    keys    json NOT NULL
);

CREATE TABLE declaration (
    id      integer PRIMARY KEY CHECK (id = 1),
    host    text    NOT NULL,
    sum     text    NOT NULL,
    changed bigint  NOT NULL
);
