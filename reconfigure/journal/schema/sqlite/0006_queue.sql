-- +goose Up

-- The first batch that may have done something for a request, NULL: none has. A batch that could not plan it has not.
ALTER TABLE requests ADD COLUMN touched INTEGER;
UPDATE requests SET touched = (SELECT min(batch) FROM carried WHERE request = requests.id) WHERE finished IS NULL;

-- The newest batch when the request was written: later batches could have begun it. A number, since the clocks of
-- several hosts differ.
ALTER TABLE requests ADD COLUMN newest_batch INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 6;
