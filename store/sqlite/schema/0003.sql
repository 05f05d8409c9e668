-- Settings that people change while the daemon runs and that gates read: remembered rules and permission modes.
CREATE TABLE policies (
  namespace TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  scope     TEXT    NOT NULL,
  scope_id  TEXT    NOT NULL,
  changed   INTEGER NOT NULL,
  expires   INTEGER,          -- from then on, trim may remove it
  crc       INTEGER NOT NULL, -- of namespace, kind, key, value
  value     BLOB    NOT NULL,
  PRIMARY KEY (namespace, kind, key)
) STRICT, WITHOUT ROWID;
