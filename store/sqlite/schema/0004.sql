-- Which call of a parallel group claimed a document last.
ALTER TABLE documents ADD COLUMN claim_group TEXT NOT NULL DEFAULT '';
ALTER TABLE documents ADD COLUMN claim_call TEXT NOT NULL DEFAULT '';

-- What is to be done because of calls that have committed.
CREATE TABLE actions (
  position  INTEGER PRIMARY KEY,
  namespace TEXT    NOT NULL,
  id        TEXT    NOT NULL,
  call_id   TEXT    NOT NULL,
  state     TEXT    NOT NULL, -- PENDING, DEAD
  phase     TEXT    NOT NULL,
  ends      TEXT,             -- the batch or run at whose end it is done, or its queue
  due       INTEGER,          -- NULL: not before that end, or never
  created   INTEGER NOT NULL,
  crc       INTEGER NOT NULL, -- over namespace, id, record
  record    BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX actions_id ON actions (namespace, id);
CREATE INDEX actions_due ON actions (due) WHERE state = 'PENDING' AND due IS NOT NULL;
CREATE INDEX actions_ends ON actions (phase, ends) WHERE state = 'PENDING' AND ends IS NOT NULL;
CREATE INDEX actions_dead ON actions (namespace, position) WHERE state = 'DEAD';
