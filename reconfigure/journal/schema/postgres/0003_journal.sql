-- +goose Up

-- The same as the third version of the SQLite journal, which says what the columns are for. From here on, a version
-- means the same for both.

CREATE TABLE requests (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode      text   NOT NULL CHECK (mode <> ''),
    nodes     text   NOT NULL,
    reason    text   NOT NULL,
    caller    text   NOT NULL,
    jobs      json   NOT NULL,
    submitted bigint NOT NULL,
    finished  bigint,
    code      text   CHECK (code <> ''),
    error     text,
    verdicts  json,
    options   json   NOT NULL,
    settled   json,
    CHECK ((finished IS NULL) = (code IS NULL) AND (finished IS NULL) = (error IS NULL) AND (finished IS NULL) = (verdicts IS NULL))
);

CREATE INDEX requests_waiting ON requests (id) WHERE finished IS NULL;

-- +goose StatementBegin
CREATE FUNCTION an_outcome_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an outcome is final';
END $$;
-- +goose StatementEnd

CREATE TRIGGER requests_keep_their_outcome BEFORE UPDATE ON requests
    FOR EACH ROW WHEN (old.finished IS NOT NULL) EXECUTE FUNCTION an_outcome_is_final();

CREATE TABLE batches (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    begun bigint NOT NULL
);

CREATE TABLE carried (
    request bigint NOT NULL REFERENCES requests,
    batch   bigint NOT NULL REFERENCES batches,
    PRIMARY KEY (request, batch)
);

CREATE INDEX carried_batch ON carried (batch);

CREATE TABLE events (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time    bigint NOT NULL,
    batch   bigint NOT NULL REFERENCES batches,
    node    text   NOT NULL,
    phase   text   NOT NULL CHECK (phase <> ''),
    level   text   NOT NULL CHECK (level IN ('begun', 'done', 'failed', 'note')),
    message text   NOT NULL
);

-- PostgreSQL does not add the row's id to an index.
CREATE INDEX events_batch ON events (batch, node, id);
CREATE INDEX events_node ON events (node, id);

CREATE TABLE lead (
    id     integer PRIMARY KEY CHECK (id = 1),
    epoch  bigint  NOT NULL,
    leader text    NOT NULL
);
INSERT INTO lead (id, epoch, leader) VALUES (1, 0, '');

CREATE TABLE pause (
    id     integer PRIMARY KEY CHECK (id = 1),
    since  bigint  NOT NULL,
    caller text    NOT NULL,
    reason text    NOT NULL
);
