-- +goose Up

-- The timeline reads the lives of some nodes, of a host or of an image, and the failures of a time.
CREATE INDEX lives_made ON lives (node, made);
CREATE INDEX lives_host ON lives ((known ->> 'host'), made);
CREATE INDEX lives_image ON lives ((known ->> 'image'), made);
CREATE INDEX events_failed ON events (node, time) WHERE level = 'failed';

PRAGMA user_version = 14;
