-- +goose Up

-- A plan is a planning round that started operations. It was called a batch.
ALTER TABLE batches RENAME TO plans;

-- For which requests a plan started operations. A request is in several plans where one was interrupted, or could not
-- do all.
ALTER TABLE carried RENAME TO plan_requests;
ALTER TABLE plan_requests RENAME COLUMN batch TO plan;
DROP INDEX carried_batch;
CREATE INDEX plan_requests_plan ON plan_requests (plan);

ALTER TABLE events RENAME COLUMN batch TO plan;
DROP INDEX events_batch;
CREATE INDEX events_plan ON events (plan, node);

ALTER TABLE evidence RENAME COLUMN batch TO plan;
DROP INDEX evidence_batch;
CREATE INDEX evidence_plan ON evidence (plan);

ALTER TABLE requests RENAME COLUMN newest_batch TO newest_plan;

-- Of a request without an outcome: the verdicts that there are already, and what the rest waits for. NULL: nothing is
-- known.
ALTER TABLE requests RENAME COLUMN settled TO progress;

-- Who has the lease, or had it last, and how often it was acquired.
ALTER TABLE lead RENAME TO lease;
ALTER TABLE lease RENAME COLUMN leader TO holder;

-- How often anybody but the holder of the lease has written: who waits for that reads one row.
CREATE TABLE changes (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    count INTEGER NOT NULL
) STRICT;
INSERT INTO changes (id, count) VALUES (1, 0);

PRAGMA user_version = 8;
