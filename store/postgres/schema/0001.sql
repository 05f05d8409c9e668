-- The journal of toold. Times are in nanoseconds since 1970. Each crc is the CRC-32C of the row's key and content, so that
-- reads detect a broken row and refuse that row only. Names that clients choose are bytes: they may contain values that text
-- may not, and their order must not change with a library of the server.

CREATE TABLE meta (
  id       integer PRIMARY KEY CHECK (id = 1),
  store_id text    NOT NULL,
  epoch    bigint  NOT NULL, -- number of daemon starts; writes with an older epoch are refused
  clock    bigint  NOT NULL, -- newest time used; after a restart the clock starts here
  position bigint  NOT NULL, -- newest position assigned; each is assigned once
  groups   bigint  NOT NULL, -- number of transactions; shows whether a transaction with a lost answer is stored
  place    text    NOT NULL, -- server, timeline, database and schema of this journal
  clean    boolean NOT NULL  -- the last daemon closed it cleanly
);

-- The columns repeat the values that queries select by. A call that was written once, with its whole log, is one row.
-- Columns that change during a call have no index here, and pages keep free space for updates. So an update changes no index.
CREATE TABLE calls (
  position      bigint PRIMARY KEY, -- of its creation in the feed; the order of calls
  namespace     bytea  NOT NULL,
  call_id       bytea  NOT NULL,
  status        text   COLLATE "C" NOT NULL,
  revision      bigint NOT NULL,
  last_sequence bigint NOT NULL, -- newer than in the record when events came alone
  created       bigint NOT NULL,
  updated       bigint NOT NULL,
  ended         bigint,
  epoch         bigint NOT NULL, -- of its creation
  tool          bytea  NOT NULL,
  caller        bytea  NOT NULL,
  run_id        bytea,
  thread_id     bytea,
  parent_call   bytea,
  batch_id      bytea,
  crc           bigint NOT NULL, -- of namespace, call_id, status, revision, record
  record        bytea  NOT NULL,
  events_last   bigint,          -- the events that the call was created with
  events_crc    bigint,
  events        bytea
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX calls_id ON calls (call_id, namespace);
CREATE INDEX calls_namespace ON calls (namespace, position);
CREATE INDEX calls_caller ON calls (namespace, caller, position);
CREATE INDEX calls_run ON calls (namespace, run_id, position) WHERE run_id IS NOT NULL;
CREATE INDEX calls_thread ON calls (namespace, thread_id, position) WHERE thread_id IS NOT NULL;
CREATE INDEX calls_parent ON calls (namespace, parent_call, position) WHERE parent_call IS NOT NULL;
CREATE INDEX calls_batch ON calls (namespace, batch_id, position) WHERE batch_id IS NOT NULL;

-- An index of calls by status, without the calls that succeeded.
CREATE TABLE statuses (
  status    text   COLLATE "C" NOT NULL,
  namespace bytea  NOT NULL,
  position  bigint NOT NULL,
  thread_id bytea,
  PRIMARY KEY (status, namespace, position)
);

CREATE INDEX statuses_waiting ON statuses (namespace, thread_id) WHERE status = 'SUSPENDED' AND thread_id IS NOT NULL;

-- An index of finished calls by the time of their end.
CREATE TABLE ended (
  ended    bigint NOT NULL,
  position bigint NOT NULL,
  PRIMARY KEY (ended, position)
);

-- The events of changes after the creation, in the order of all changes.
CREATE TABLE events (
  position bigint PRIMARY KEY,
  call     bigint NOT NULL, -- position of the call
  epoch    bigint NOT NULL,
  first    bigint NOT NULL,
  last     bigint NOT NULL,
  crc      bigint NOT NULL, -- of call, first, last, events
  events   bytea  NOT NULL
);

CREATE INDEX events_call ON events (call, last);

-- An index of suspensions. Their tickets are in the records of their calls.
CREATE TABLE suspensions (
  namespace bytea   NOT NULL,
  id        bytea   NOT NULL,
  call      bigint  NOT NULL,
  action    bytea   NOT NULL,
  open      boolean NOT NULL,
  expires   bigint,
  PRIMARY KEY (namespace, id)
);

CREATE INDEX suspensions_open ON suspensions (namespace, action, call) WHERE open;
CREATE INDEX suspensions_call ON suspensions (call);
CREATE INDEX suspensions_expires ON suspensions (expires) WHERE open AND expires IS NOT NULL;

-- Decisions are never removed, so their ids stay used.
CREATE TABLE decisions (
  namespace bytea  NOT NULL,
  id        bytea  NOT NULL,
  crc       bigint NOT NULL,
  decision  bytea  NOT NULL,
  PRIMARY KEY (namespace, id)
);

-- A deleted document keeps its row, so that its next revision is higher.
CREATE TABLE documents (
  namespace   bytea   NOT NULL,
  scope       text    COLLATE "C" NOT NULL,
  scope_id    bytea   NOT NULL,
  key         bytea   NOT NULL,
  revision    bigint  NOT NULL,
  deleted     boolean NOT NULL,
  changed     bigint  NOT NULL,
  crc         bigint  NOT NULL,
  value       bytea   NOT NULL,
  claim_group bytea   NOT NULL, -- parallel group of the last claim
  claim_call  bytea   NOT NULL, -- call of the last claim
  PRIMARY KEY (namespace, scope, scope_id, key)
);

CREATE TABLE runs (
  namespace bytea  NOT NULL,
  id        bytea  NOT NULL,
  owner     bytea  NOT NULL,
  state     text   COLLATE "C" NOT NULL,
  reason    bytea  NOT NULL,
  call_id   bytea  NOT NULL,
  changed   bigint NOT NULL,
  PRIMARY KEY (namespace, id)
);

CREATE INDEX runs_blocked ON runs (namespace, id) WHERE state = 'BLOCKED';

-- The records of plugins.
CREATE TABLE records (
  position  bigint PRIMARY KEY,
  namespace bytea  NOT NULL,
  kind      bytea  NOT NULL,
  key       bytea  NOT NULL,
  call_id   bytea  NOT NULL,
  created   bigint NOT NULL,
  crc       bigint NOT NULL,
  bytes     bytea  NOT NULL
);

CREATE INDEX records_kind ON records (namespace, kind, position);

-- A tombstone replaces a trimmed call, so that its id never runs again.
CREATE TABLE tombstones (
  namespace bytea  NOT NULL,
  call_id   bytea  NOT NULL,
  digest    bytea  NOT NULL, -- of the request
  ended     bigint NOT NULL,
  trimmed   bigint NOT NULL,
  PRIMARY KEY (namespace, call_id)
);

CREATE INDEX tombstones_trimmed ON tombstones (trimmed);

-- Settings that people change while the daemon runs and that gates read: remembered rules and permission modes.
CREATE TABLE policies (
  namespace bytea  NOT NULL,
  kind      bytea  NOT NULL,
  key       bytea  NOT NULL,
  scope     text   COLLATE "C" NOT NULL,
  scope_id  bytea  NOT NULL,
  changed   bigint NOT NULL,
  expires   bigint,          -- from then on, trim may remove it
  crc       bigint NOT NULL, -- of namespace, kind, key, scope, scope_id, value
  value     bytea  NOT NULL,
  PRIMARY KEY (namespace, kind, key)
);

-- Actions to carry out because of committed calls.
CREATE TABLE actions (
  position  bigint NOT NULL PRIMARY KEY,
  namespace bytea  NOT NULL,
  id        bytea  NOT NULL,
  call_id   bytea  NOT NULL,
  state     text   COLLATE "C" NOT NULL, -- PENDING, DEAD
  phase     text   COLLATE "C" NOT NULL,
  ends      bytea,           -- the batch or run whose end makes it due, or its queue
  due       bigint,          -- NULL: not due before that end, or never due
  created   bigint NOT NULL,
  crc       bigint NOT NULL, -- of namespace, id, record
  record    bytea  NOT NULL
);

CREATE UNIQUE INDEX actions_id ON actions (namespace, id);
CREATE INDEX actions_due ON actions (due) WHERE state = 'PENDING' AND due IS NOT NULL;
CREATE INDEX actions_ends ON actions (phase, ends, position) WHERE state = 'PENDING' AND ends IS NOT NULL;
CREATE INDEX actions_dead ON actions (namespace, position) WHERE state = 'DEAD';

-- Batches of calls. The state of each call is in its own row. A trimmed batch keeps its row without a record.
CREATE TABLE batches (
  namespace bytea  NOT NULL,
  batch_id  bytea  NOT NULL,
  created   bigint NOT NULL,
  ended     bigint,          -- NULL while the batch is open
  trimmed   bigint,
  crc       bigint NOT NULL, -- of namespace, batch_id, record
  record    bytea  NOT NULL,
  PRIMARY KEY (namespace, batch_id)
);

CREATE INDEX batches_open ON batches (namespace, batch_id) WHERE ended IS NULL;
CREATE INDEX batches_ended ON batches (ended) WHERE ended IS NOT NULL;
