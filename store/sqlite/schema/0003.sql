-- What people set while the daemon runs and gates look at: remembered rules and permission modes.
CREATE TABLE policies (
  namespace TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  scope     TEXT    NOT NULL,
  scope_id  TEXT    NOT NULL,
  changed   INTEGER NOT NULL,
  expires   INTEGER,          -- it may be forgotten then
  crc       INTEGER NOT NULL, -- over namespace, kind, key, value
  value     BLOB    NOT NULL,
  PRIMARY KEY (namespace, kind, key)
) STRICT, WITHOUT ROWID;
