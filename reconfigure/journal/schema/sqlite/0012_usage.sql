-- +goose Up

-- The instances, also those that are gone. A row has no event's number, since an instance may outlive its events.
CREATE TABLE lives (
    instance TEXT    NOT NULL CHECK (instance <> ''),
    plan     INTEGER NOT NULL,
    node     TEXT    NOT NULL CHECK (node <> ''),
    made     INTEGER NOT NULL,
    removed  INTEGER,
    known    TEXT    NOT NULL CHECK (json_valid(known)),
    PRIMARY KEY (instance, plan)
) STRICT, WITHOUT ROWID;

CREATE INDEX lives_node ON lives (node) WHERE removed IS NULL;
CREATE INDEX lives_removed ON lives (removed);

-- The runs of jobs, as Slurm had them last. The time kept is when that was, for runs whose end never becomes known.
CREATE TABLE job_runs (
    job       INTEGER NOT NULL CHECK (job > 0),
    submitted INTEGER NOT NULL,
    ended     INTEGER,
    kept      INTEGER NOT NULL,
    known     TEXT    NOT NULL CHECK (json_valid(known)),
    PRIMARY KEY (job, submitted)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_runs_ended ON job_runs (ended);

-- How far Slurm's list of ended jobs was read, in bytes.
CREATE TABLE job_log (
    position INTEGER NOT NULL
) STRICT;
INSERT INTO job_log VALUES (0);

-- Which requests name a job.
CREATE TABLE job_requests (
    job     INTEGER NOT NULL,
    request INTEGER NOT NULL REFERENCES requests,
    PRIMARY KEY (job, request)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_requests_request ON job_requests (request);
INSERT OR IGNORE INTO job_requests (job, request)
    SELECT json_extract(j.value, '$.job_id'), requests.id FROM requests, json_each(requests.jobs) j
    WHERE json_type(requests.jobs) = 'array';

PRAGMA user_version = 12;
