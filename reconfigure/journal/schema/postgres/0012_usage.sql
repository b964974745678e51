-- +goose Up

-- See the SQLite one for what it is for.
CREATE TABLE lives (
    instance text   NOT NULL CHECK (instance <> ''),
    plan     bigint NOT NULL,
    node     text   NOT NULL CHECK (node <> ''),
    made     bigint NOT NULL,
    removed  bigint,
    known    json   NOT NULL,
    PRIMARY KEY (instance, plan)
);

CREATE INDEX lives_node ON lives (node) WHERE removed IS NULL;
CREATE INDEX lives_removed ON lives (removed);

CREATE TABLE job_runs (
    job       bigint NOT NULL CHECK (job > 0),
    submitted bigint NOT NULL,
    ended     bigint,
    kept      bigint NOT NULL,
    known     json   NOT NULL,
    PRIMARY KEY (job, submitted)
);

CREATE INDEX job_runs_ended ON job_runs (ended);

CREATE TABLE job_log (
    position bigint NOT NULL
);
INSERT INTO job_log VALUES (0);

CREATE TABLE job_requests (
    job     bigint NOT NULL,
    request bigint NOT NULL REFERENCES requests,
    PRIMARY KEY (job, request)
);

CREATE INDEX job_requests_request ON job_requests (request);
INSERT INTO job_requests (job, request)
    SELECT DISTINCT CAST(j.value ->> 'job_id' AS bigint), requests.id FROM requests,
        json_array_elements(CASE json_typeof(requests.jobs::json) WHEN 'array' THEN requests.jobs::json ELSE '[]'::json END) j;
