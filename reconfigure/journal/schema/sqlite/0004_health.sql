-- +goose Up

-- The health of the node groups that have failures. That of a group is read as a whole.
CREATE TABLE health (
    node_group TEXT PRIMARY KEY CHECK (node_group <> ''),
    known      TEXT NOT NULL CHECK (json_valid(known))
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 4;
