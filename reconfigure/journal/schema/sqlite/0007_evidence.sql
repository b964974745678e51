-- +goose Up

-- What is kept of a node that failed, for whoever looks into it later: the instance may be gone by then. Kinds are not listed here: later versions add some.
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
