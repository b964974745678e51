-- +goose Up

-- The random id by which the cluster's instances and ports are known in the cloud, and whether those that were made
-- before there were ids have it.
CREATE TABLE identity (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    cluster TEXT    NOT NULL CHECK (cluster <> ''),
    marked  INTEGER NOT NULL
) STRICT;

PRAGMA user_version = 9;
