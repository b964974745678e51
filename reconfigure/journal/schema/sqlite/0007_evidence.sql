-- +goose Up

-- The evidence of failed nodes: what was read from an instance before it was removed. Kinds are not listed here: later
-- versions add some.
CREATE TABLE evidence (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    time  INTEGER NOT NULL,
    batch INTEGER NOT NULL REFERENCES batches,
    node  TEXT    NOT NULL CHECK (node <> ''),
    phase TEXT    NOT NULL CHECK (phase <> ''),
    kind  TEXT    NOT NULL CHECK (kind <> ''),
    text  TEXT    NOT NULL
) STRICT;

-- Every index ends in the row's id.
CREATE INDEX evidence_batch ON evidence (batch);
CREATE INDEX evidence_node ON evidence (node);

PRAGMA user_version = 7;
