-- +goose Up

-- See the SQLite one for what it is for.
ALTER TABLE batches RENAME TO plans;

ALTER TABLE carried RENAME TO plan_requests;
ALTER TABLE plan_requests RENAME COLUMN batch TO plan;
ALTER INDEX carried_batch RENAME TO plan_requests_plan;

ALTER TABLE events RENAME COLUMN batch TO plan;
ALTER INDEX events_batch RENAME TO events_plan;

ALTER TABLE evidence RENAME COLUMN batch TO plan;
ALTER INDEX evidence_batch RENAME TO evidence_plan;

ALTER TABLE requests DROP COLUMN newest_batch;
ALTER TABLE requests RENAME COLUMN settled TO progress;

ALTER TABLE lead RENAME TO lease;
ALTER TABLE lease RENAME COLUMN leader TO holder;

CREATE TABLE changes (
    id    integer PRIMARY KEY CHECK (id = 1),
    count bigint  NOT NULL
);
INSERT INTO changes (id, count) VALUES (1, 0);
