-- The last claim of a document: the parallel group and its call.
ALTER TABLE documents ADD COLUMN claim_group TEXT NOT NULL DEFAULT '';
ALTER TABLE documents ADD COLUMN claim_call TEXT NOT NULL DEFAULT '';

-- Actions to carry out because of committed calls.
CREATE TABLE actions (
  position  INTEGER PRIMARY KEY,
  namespace TEXT    NOT NULL,
  id        TEXT    NOT NULL,
  call_id   TEXT    NOT NULL,
  state     TEXT    NOT NULL, -- PENDING, DEAD
  phase     TEXT    NOT NULL,
  ends      TEXT,             -- the batch or run whose end makes it due, or its queue
  due       INTEGER,          -- NULL: not due before that end, or never due
  created   INTEGER NOT NULL,
  crc       INTEGER NOT NULL, -- of namespace, id, record
  record    BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX actions_id ON actions (namespace, id);
CREATE INDEX actions_due ON actions (due) WHERE state = 'PENDING' AND due IS NOT NULL;
CREATE INDEX actions_ends ON actions (phase, ends) WHERE state = 'PENDING' AND ends IS NOT NULL;
CREATE INDEX actions_dead ON actions (namespace, position) WHERE state = 'DEAD';
