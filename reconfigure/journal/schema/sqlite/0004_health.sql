-- +goose Up

-- How the node groups fare that do not fare well. What is known of one is read as a whole.
CREATE TABLE health (
    node_group TEXT PRIMARY KEY CHECK (node_group <> ''),
    known      TEXT NOT NULL CHECK (json_valid(known))
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 4;
