-- Batches of calls. The state of each call is in its own row. A trimmed batch keeps its row without a record.
CREATE TABLE batches (
  namespace TEXT    NOT NULL,
  batch_id  TEXT    NOT NULL,
  created   INTEGER NOT NULL,
  ended     INTEGER,          -- NULL while the batch is open
  trimmed   INTEGER,
  crc       INTEGER NOT NULL, -- of namespace, batch_id, record
  record    BLOB    NOT NULL,
  PRIMARY KEY (namespace, batch_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX batches_open ON batches (namespace, batch_id) WHERE ended IS NULL;
CREATE INDEX batches_ended ON batches (ended) WHERE ended IS NOT NULL;
