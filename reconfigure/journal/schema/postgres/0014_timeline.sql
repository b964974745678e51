-- +goose Up

-- See the SQLite one for what it is for.
CREATE INDEX lives_made ON lives (node, made);
CREATE INDEX lives_host ON lives ((known ->> 'host'), made);
CREATE INDEX lives_image ON lives ((known ->> 'image'), made);
CREATE INDEX events_failed ON events (node, time) WHERE level = 'failed';
