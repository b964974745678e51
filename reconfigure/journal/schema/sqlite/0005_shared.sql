-- +goose Up

-- Terraform's map of nodes, as one JSON object.
CREATE TABLE desired (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    nodes TEXT    NOT NULL CHECK (json_valid(nodes))
) STRICT;

-- The host keys that an address may answer with, as a JSON array; an empty one where they were deleted.
CREATE TABLE host_keys (
    address TEXT PRIMARY KEY CHECK (address <> ''),
    keys    TEXT NOT NULL CHECK (json_valid(keys))
) STRICT, WITHOUT ROWID;

-- The newest declaration that any control host has worked with.
CREATE TABLE declaration (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    host    TEXT    NOT NULL,
    sum     TEXT    NOT NULL,
    changed INTEGER NOT NULL
) STRICT;

PRAGMA user_version = 5;
