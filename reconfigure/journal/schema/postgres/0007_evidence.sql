-- +goose Up

-- See the SQLite one for what it is for.
CREATE TABLE evidence (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time  bigint NOT NULL,
    batch bigint NOT NULL REFERENCES batches,
    node  text   NOT NULL CHECK (node <> ''),
    phase text   NOT NULL CHECK (phase <> ''),
    kind  text   NOT NULL CHECK (kind <> ''),
    text  text   NOT NULL
);

CREATE INDEX evidence_batch ON evidence (batch, id);
CREATE INDEX evidence_node ON evidence (node, id);
