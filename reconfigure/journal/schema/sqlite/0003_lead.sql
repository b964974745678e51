-- +goose Up

-- The process that has the lead, or had it last, and how often it was acquired: a lower number is that of an earlier
-- leader.
CREATE TABLE lead (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    epoch  INTEGER NOT NULL,
    leader TEXT    NOT NULL
) STRICT;
INSERT INTO lead (id, epoch, leader) VALUES (1, 0, '');

-- A row while the worker must begin nothing.
CREATE TABLE pause (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    since  INTEGER NOT NULL,
    caller TEXT    NOT NULL,
    reason TEXT    NOT NULL
) STRICT;

PRAGMA user_version = 3;
