-- +goose Up

-- The checksum of what each node was configured with, and of the instance that was. It does not change with the map of
-- nodes: another instance has another checksum.
CREATE TABLE sums (
    node TEXT PRIMARY KEY CHECK (node <> ''),
    sum  TEXT NOT NULL CHECK (sum <> '')
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 13;
