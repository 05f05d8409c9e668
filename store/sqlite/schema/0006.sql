-- Which calls came together. What became of them is in their own rows; a trimmed batch keeps its row without a record.
CREATE TABLE batches (
  namespace TEXT    NOT NULL,
  batch_id  TEXT    NOT NULL,
  created   INTEGER NOT NULL,
  ended     INTEGER,          -- NULL while there is something to do
  trimmed   INTEGER,
  crc       INTEGER NOT NULL, -- over namespace, batch_id, record
  record    BLOB    NOT NULL,
  PRIMARY KEY (namespace, batch_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX batches_open ON batches (namespace, batch_id) WHERE ended IS NULL;
CREATE INDEX batches_ended ON batches (ended) WHERE ended IS NOT NULL;
