-- +goose Up
-- The journal. Times are nanoseconds since 1970-01-01 00:00 UTC. Numbers are never given twice (AUTOINCREMENT), not even after old rows are deleted.

-- A row for each request. Its outcome is in the same row, so there cannot be two. Modes and codes are not listed here:
-- later versions add some.
CREATE TABLE requests (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    mode      TEXT    NOT NULL CHECK (mode <> ''),
    nodes     TEXT    NOT NULL,                                   -- a hostlist; empty: the whole cluster
    reason    TEXT    NOT NULL,
    caller    TEXT    NOT NULL,
    jobs      TEXT    NOT NULL CHECK (json_valid(jobs)),
    submitted INTEGER NOT NULL,
    finished  INTEGER,                                            -- NULL, as the three below, until there is an outcome
    code      TEXT    CHECK (code <> ''),
    error     TEXT,
    verdicts  TEXT    CHECK (json_valid(verdicts)),
    CHECK ((finished IS NULL) = (code IS NULL) AND (finished IS NULL) = (error IS NULL) AND (finished IS NULL) = (verdicts IS NULL))
) STRICT;

-- Finds the pending requests without a scan of the finished ones.
CREATE INDEX requests_waiting ON requests (id) WHERE finished IS NULL;

-- +goose StatementBegin
CREATE TRIGGER requests_keep_their_outcome BEFORE UPDATE ON requests WHEN old.finished IS NOT NULL
BEGIN
    SELECT raise(ABORT, 'an outcome is final');
END;
-- +goose StatementEnd

CREATE TABLE batches (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    begun INTEGER NOT NULL
) STRICT;

-- The requests of a batch. A request is in several batches where a worker died and the next one repeated it.
CREATE TABLE carried (
    request INTEGER NOT NULL REFERENCES requests,
    batch   INTEGER NOT NULL REFERENCES batches,
    PRIMARY KEY (request, batch)
) STRICT, WITHOUT ROWID;

CREATE INDEX carried_batch ON carried (batch);

CREATE TABLE events (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    time    INTEGER NOT NULL,
    batch   INTEGER NOT NULL REFERENCES batches,
    node    TEXT    NOT NULL,                                     -- empty: the whole batch
    phase   TEXT    NOT NULL CHECK (phase <> ''),
    level   TEXT    NOT NULL CHECK (level IN ('begun', 'done', 'failed', 'note')),
    message TEXT    NOT NULL
) STRICT;

-- Every index ends in the row's id: these two find the new events of a batch's nodes, and a node's newest event,
-- without a scan.
CREATE INDEX events_batch ON events (batch, node);
CREATE INDEX events_node ON events (node);

PRAGMA user_version = 1;
