-- Read-only calls that ended as they were created, in one row for each few of a group: their positions follow each other.
-- To change one, or to forget one alone, they become rows of calls again.
CREATE TABLE packs (
  position  INTEGER PRIMARY KEY, -- of its first call
  last      INTEGER NOT NULL,    -- of its last
  namespace TEXT    NOT NULL,
  updated   INTEGER NOT NULL,
  epoch     INTEGER NOT NULL,
  members   BLOB    NOT NULL     -- each has checksums of its own
) STRICT;

CREATE TABLE packed (
  namespace TEXT    NOT NULL,
  call_id   TEXT    NOT NULL,
  position  INTEGER NOT NULL,
  PRIMARY KEY (namespace, call_id)
) STRICT, WITHOUT ROWID;
