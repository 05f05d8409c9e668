-- Packs of read-only calls that were finished when they were created. The calls of a pack come from one group and have
-- consecutive positions. Before one of them changes or is removed alone, all of them become rows of the table calls.
CREATE TABLE packs (
  position  INTEGER PRIMARY KEY, -- of its first call
  last      INTEGER NOT NULL,    -- of its last call
  namespace TEXT    NOT NULL,
  updated   INTEGER NOT NULL,
  epoch     INTEGER NOT NULL,
  members   BLOB    NOT NULL     -- each member has its own checksums
) STRICT;

CREATE TABLE packed (
  namespace TEXT    NOT NULL,
  call_id   TEXT    NOT NULL,
  position  INTEGER NOT NULL,
  PRIMARY KEY (namespace, call_id)
) STRICT, WITHOUT ROWID;
