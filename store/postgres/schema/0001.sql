-- The journal of toold. Times are nanoseconds since 1970. Every crc is CRC-32C over the row's key and its bytes, so a
-- broken row is known for one and refused alone. Words that others chose are bytes: they may hold what text may not, and
-- their order must not change with a library of the server.

CREATE TABLE meta (
  id       integer PRIMARY KEY CHECK (id = 1),
  store_id text    NOT NULL,
  epoch    bigint  NOT NULL, -- counts the starts of a daemon; who writes under an older one is fenced
  clock    bigint  NOT NULL, -- the newest time that was used: the clock goes on from here
  position bigint  NOT NULL, -- the newest position that was given; none is given twice
  groups   bigint  NOT NULL, -- counts transactions: says whether one whose answer was lost is there
  place    text    NOT NULL, -- server, database and schema that this is
  clean    boolean NOT NULL  -- the last daemon closed it in order
);

-- What queries select by is repeated in columns. A call that was written once, with its whole log, is this one row. What
-- changes while a call goes on has no index here, and a page keeps room for it: so a change makes no entry in any index.
CREATE TABLE calls (
  position      bigint PRIMARY KEY, -- of its creation in the feed: the order of calls
  namespace     bytea  NOT NULL,
  call_id       bytea  NOT NULL,
  status        text   COLLATE "C" NOT NULL,
  revision      bigint NOT NULL,
  last_sequence bigint NOT NULL, -- newer than the record's when events came alone
  created       bigint NOT NULL,
  updated       bigint NOT NULL,
  ended         bigint,
  epoch         bigint NOT NULL, -- in which it was created
  tool          bytea  NOT NULL,
  caller        bytea  NOT NULL,
  run_id        bytea,
  thread_id     bytea,
  parent_call   bytea,
  batch_id      bytea,
  crc           bigint NOT NULL, -- over namespace, call_id, status, revision, record
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

-- The calls that did not, or not yet, succeed.
CREATE TABLE statuses (
  status    text   COLLATE "C" NOT NULL,
  namespace bytea  NOT NULL,
  position  bigint NOT NULL,
  thread_id bytea,
  PRIMARY KEY (status, namespace, position)
);

CREATE INDEX statuses_waiting ON statuses (namespace, thread_id) WHERE status = 'SUSPENDED' AND thread_id IS NOT NULL;

-- The calls that ended, by when.
CREATE TABLE ended (
  ended    bigint NOT NULL,
  position bigint NOT NULL,
  PRIMARY KEY (ended, position)
);

-- The events that later changes brought, in the order of all changes.
CREATE TABLE events (
  position bigint PRIMARY KEY,
  call     bigint NOT NULL, -- position of the call
  epoch    bigint NOT NULL,
  first    bigint NOT NULL,
  last     bigint NOT NULL,
  crc      bigint NOT NULL, -- over call, first, last, events
  events   bytea  NOT NULL
);

CREATE INDEX events_call ON events (call, last);

-- The tickets are in the records of their calls; this finds them.
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

-- Decisions stay for ever: so do their ids.
CREATE TABLE decisions (
  namespace bytea  NOT NULL,
  id        bytea  NOT NULL,
  crc       bigint NOT NULL,
  decision  bytea  NOT NULL,
  PRIMARY KEY (namespace, id)
);

-- A deleted document keeps its row, so that its revision goes on counting.
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
  claim_group bytea   NOT NULL, -- the group of calls of which
  claim_call  bytea   NOT NULL, -- this one claimed it last
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

-- What plugins keep.
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

-- What is left of a trimmed call, so that its id is never run again.
CREATE TABLE tombstones (
  namespace bytea  NOT NULL,
  call_id   bytea  NOT NULL,
  digest    bytea  NOT NULL, -- of the request
  ended     bigint NOT NULL,
  trimmed   bigint NOT NULL,
  PRIMARY KEY (namespace, call_id)
);

CREATE INDEX tombstones_trimmed ON tombstones (trimmed);

-- What people set while the daemon runs and gates look at: remembered rules and permission modes.
CREATE TABLE policies (
  namespace bytea  NOT NULL,
  kind      bytea  NOT NULL,
  key       bytea  NOT NULL,
  scope     text   COLLATE "C" NOT NULL,
  scope_id  bytea  NOT NULL,
  changed   bigint NOT NULL,
  expires   bigint,          -- it may be forgotten then
  crc       bigint NOT NULL, -- over namespace, kind, key, scope, scope_id, value
  value     bytea  NOT NULL,
  PRIMARY KEY (namespace, kind, key)
);

-- What is to be done because of calls that have committed.
CREATE TABLE actions (
  position  bigint NOT NULL PRIMARY KEY,
  namespace bytea  NOT NULL,
  id        bytea  NOT NULL,
  call_id   bytea  NOT NULL,
  state     text   COLLATE "C" NOT NULL, -- PENDING, DEAD
  phase     text   COLLATE "C" NOT NULL,
  ends      bytea,           -- the batch or run at whose end it is done, or its queue
  due       bigint,          -- NULL: not before that end, or never
  created   bigint NOT NULL,
  crc       bigint NOT NULL, -- over namespace, id, record
  record    bytea  NOT NULL
);

CREATE UNIQUE INDEX actions_id ON actions (namespace, id);
CREATE INDEX actions_due ON actions (due) WHERE state = 'PENDING' AND due IS NOT NULL;
CREATE INDEX actions_ends ON actions (phase, ends, position) WHERE state = 'PENDING' AND ends IS NOT NULL;
CREATE INDEX actions_dead ON actions (namespace, position) WHERE state = 'DEAD';

-- Which calls came together. What became of them is in their own rows; a trimmed batch keeps its row without a record.
CREATE TABLE batches (
  namespace bytea  NOT NULL,
  batch_id  bytea  NOT NULL,
  created   bigint NOT NULL,
  ended     bigint,          -- NULL while there is something to do
  trimmed   bigint,
  crc       bigint NOT NULL, -- over namespace, batch_id, record
  record    bytea  NOT NULL,
  PRIMARY KEY (namespace, batch_id)
);

CREATE INDEX batches_open ON batches (namespace, batch_id) WHERE ended IS NULL;
CREATE INDEX batches_ended ON batches (ended) WHERE ended IS NOT NULL;
