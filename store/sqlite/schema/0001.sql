-- The journal of toold. Times are in nanoseconds since 1970. Each crc is the CRC-32C of the row's key and content, so that
-- reads detect a broken row and refuse that row only.

CREATE TABLE meta (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  store_id TEXT    NOT NULL,
  epoch    INTEGER NOT NULL, -- number of daemon starts
  clock    INTEGER NOT NULL, -- newest time used; after a restart the clock starts here
  position INTEGER NOT NULL, -- newest position assigned; each is assigned once
  file     TEXT    NOT NULL, -- device and inode of this database
  clean    INTEGER NOT NULL  -- 1 when the last daemon closed it cleanly
) STRICT;

-- A call that was written once, with its whole log, is one row. The columns repeat the values that queries select by.
CREATE TABLE calls (
  position      INTEGER PRIMARY KEY, -- of its creation in the feed; the order of calls
  namespace     TEXT    NOT NULL,
  call_id       TEXT    NOT NULL,
  status        TEXT    NOT NULL,
  revision      INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL, -- newer than in the record when events came alone
  created       INTEGER NOT NULL,
  updated       INTEGER NOT NULL,
  ended         INTEGER,          -- also NULL when it was created finished: see updated
  epoch         INTEGER NOT NULL, -- of its creation
  tool          TEXT    NOT NULL,
  caller        TEXT    NOT NULL,
  run_id        TEXT,
  thread_id     TEXT,
  parent_call   TEXT,
  batch_id      TEXT,
  crc           INTEGER NOT NULL, -- of namespace, call_id, status, revision, record
  record        BLOB    NOT NULL,
  events_last   INTEGER,          -- the events that the call was created with
  events_crc    INTEGER,
  events        BLOB
) STRICT;

-- Most calls are read-only calls that succeed. Such a call is in the first of these indexes only.
CREATE UNIQUE INDEX calls_id ON calls (namespace, call_id);
CREATE INDEX calls_status ON calls (status, namespace) WHERE status <> 'SUCCEEDED';
CREATE INDEX calls_waiting ON calls (namespace, thread_id) WHERE status = 'SUSPENDED' AND thread_id IS NOT NULL;
CREATE INDEX calls_parent ON calls (namespace, parent_call) WHERE parent_call IS NOT NULL;
CREATE INDEX calls_batch ON calls (namespace, batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX calls_ended ON calls (ended) WHERE ended IS NOT NULL;

-- The calls of a namespace, a caller, a run or a thread. A row has one bit for each of the 64 positions of a block, so
-- that a group of calls writes one row. A bit may remain after its call was trimmed.
CREATE TABLE members (
  namespace TEXT    NOT NULL,
  kind      TEXT    NOT NULL, -- namespace, caller, run, thread
  name      TEXT    NOT NULL, -- empty for the namespace
  block     INTEGER NOT NULL, -- position / 64
  bits      INTEGER NOT NULL,
  PRIMARY KEY (namespace, kind, name, block)
) STRICT, WITHOUT ROWID;

CREATE INDEX members_block ON members (block);

-- The bit numbers 0 to 63, for joins.
CREATE TABLE bit (n INTEGER PRIMARY KEY) STRICT;
INSERT INTO bit WITH RECURSIVE b (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM b WHERE n < 63) SELECT n FROM b;

-- The events of changes after the creation, in the order of all changes.
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  call     INTEGER NOT NULL, -- position of the call
  epoch    INTEGER NOT NULL,
  first    INTEGER NOT NULL,
  last     INTEGER NOT NULL,
  crc      INTEGER NOT NULL, -- of call, first, last, events
  events   BLOB    NOT NULL
) STRICT;

CREATE INDEX events_call ON events (call, last);

-- An index of suspensions. Their tickets are in the records of their calls.
CREATE TABLE suspensions (
  namespace TEXT    NOT NULL,
  id        TEXT    NOT NULL,
  call      INTEGER NOT NULL,
  action    TEXT    NOT NULL,
  open      INTEGER NOT NULL,
  expires   INTEGER,
  PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX suspensions_open ON suspensions (namespace, action, call) WHERE open = 1;
CREATE INDEX suspensions_expires ON suspensions (expires) WHERE open = 1 AND expires IS NOT NULL;

-- Decisions are never removed, so their ids stay used.
CREATE TABLE decisions (
  namespace TEXT    NOT NULL,
  id        TEXT    NOT NULL,
  crc       INTEGER NOT NULL,
  decision  BLOB    NOT NULL,
  PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

-- A deleted document keeps its row, so that its next revision is higher.
CREATE TABLE documents (
  namespace TEXT    NOT NULL,
  scope     TEXT    NOT NULL,
  scope_id  TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  revision  INTEGER NOT NULL,
  deleted   INTEGER NOT NULL,
  changed   INTEGER NOT NULL,
  crc       INTEGER NOT NULL,
  value     TEXT    NOT NULL,
  PRIMARY KEY (namespace, scope, scope_id, key)
) STRICT;

CREATE TABLE runs (
  namespace TEXT    NOT NULL,
  id        TEXT    NOT NULL,
  state     TEXT    NOT NULL,
  reason    TEXT    NOT NULL,
  call_id   TEXT    NOT NULL,
  changed   INTEGER NOT NULL,
  PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_state ON runs (state);

-- The records of plugins.
CREATE TABLE records (
  position  INTEGER PRIMARY KEY,
  namespace TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  call_id   TEXT    NOT NULL,
  created   INTEGER NOT NULL,
  crc       INTEGER NOT NULL,
  bytes     BLOB    NOT NULL
) STRICT;

CREATE INDEX records_kind ON records (namespace, kind);

-- A tombstone replaces a trimmed call, so that its id never runs again.
CREATE TABLE tombstones (
  namespace TEXT    NOT NULL,
  call_id   TEXT    NOT NULL,
  digest    TEXT    NOT NULL, -- of the request
  ended     INTEGER NOT NULL,
  trimmed   INTEGER NOT NULL,
  PRIMARY KEY (namespace, call_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_trimmed ON tombstones (trimmed);
