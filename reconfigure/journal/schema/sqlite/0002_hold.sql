-- +goose Up
-- What some modes need besides the nodes. Requests of the first version had none of it.
ALTER TABLE requests ADD COLUMN options TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(options));

-- Of a request that waits until jobs have ended: the known verdicts. NULL while it does not wait.
ALTER TABLE requests ADD COLUMN settled TEXT CHECK (json_valid(settled));

PRAGMA user_version = 2;
