-- +goose Up

-- A plan has a row when operations start for it. It was called a batch.
ALTER TABLE batches RENAME TO plans;

-- The requests for which a plan started operations. A request is in several plans where one was interrupted, or could
-- not do all.
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

ALTER TABLE requests DROP COLUMN newest_batch;

-- Of a request without an outcome: the known verdicts and the deferrals. NULL: there are none.
ALTER TABLE requests RENAME COLUMN settled TO progress;

-- The process that has the lease, or had it last, and how often it was acquired.
ALTER TABLE lead RENAME TO lease;
ALTER TABLE lease RENAME COLUMN leader TO holder;

-- The number of writes by others than the holder of the lease: the holder reads this one row while it waits.
CREATE TABLE changes (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    count INTEGER NOT NULL
) STRICT;
INSERT INTO changes (id, count) VALUES (1, 0);

PRAGMA user_version = 8;
