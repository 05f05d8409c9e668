package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// ErrPassword means that a URL contains a password, which command lines, logs and configurations would show.
	ErrPassword = errors.New("the URL must not contain a password: set it with PGPASSWORD, PGPASSFILE or passfile=")
	// ErrUnsafe means that the server may lose acknowledged data because of its settings, or that it is too old.
	ErrUnsafe = errors.New("the server may lose acknowledged data")
)

// oldestServer is the first release with idle_session_timeout.
const oldestServer = 14

const connectTime = 5 * time.Second

// A target is the schema of a journal and the configuration of its connections.
type target struct {
	config *pgx.ConnConfig
	schema string
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// CheckURL checks a URL without connecting to its server.
func CheckURL(text string) error {
	_, err := parse(text, time.Second)
	return err
}

func parse(text string, sessionTimeout time.Duration) (*target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("want a URL such as postgres://role@host/database") // Do not quote the text, because it may contain a secret.
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return nil, ErrPassword
	}
	if strings.Contains(u.RawQuery+u.Path+u.Fragment, "@") { // pgx would use the text before the @ as user and password.
		return nil, errors.New("write each @ after the host as %40")
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	t := &target{config: config, schema: "toold"}
	p := config.RuntimeParams
	if named := p["search_path"]; named != "" {
		t.schema = named
	}
	if !schemaName.MatchString(t.schema) {
		return nil, fmt.Errorf("search_path: %q is not the name of one schema: a-z, 0-9 and _", t.schema)
	}
	host, _ := os.Hostname()
	p["search_path"] = t.schema
	p["application_name"] = fmt.Sprintf("toold %.32s %d", host, os.Getpid())
	p["client_encoding"] = "UTF8"
	p["jit"] = "off"                           // Compiling takes longer than any statement of toold.
	p["enable_seqscan"] = "off"                // There is an index for each statement, and the statistics of a small table mislead the planner.
	p["enable_hashjoin"] = "off"               // as for enable_seqscan
	p["enable_mergejoin"] = "off"              // as for enable_seqscan
	p["plan_cache_mode"] = "force_custom_plan" // Otherwise a plan that was made for an empty table would still be used when the table has grown.
	p["lock_timeout"] = "10s"                  // An exceeded timeout shows a problem: no other session has a reason to lock a table of toold.
	p["idle_in_transaction_session_timeout"] = millis(sessionTimeout)
	p["statement_timeout"], p["idle_session_timeout"] = "0", "0" // Remove limits that the role or the database may have for interactive users.
	p["default_transaction_read_only"], p["default_transaction_isolation"] = "off", "read committed"
	p["tcp_keepalives_idle"], p["tcp_keepalives_interval"], p["tcp_keepalives_count"] = "5", "2", "3"
	return t, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// String names the target in errors and logs.
func (t *target) String() string {
	return fmt.Sprintf("schema %s of database %s on %s", t.schema, t.config.Database, t.config.Host)
}

// connect opens a connection and checks that the server is safe to write to. edit may change the parameters of the database session.
func (t *target) connect(ctx context.Context, edit func(map[string]string)) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	config := t.config.Copy()
	if edit != nil {
		edit(config.RuntimeParams)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, wrapError(err)
	}
	registerColumns(conn.TypeMap())
	if err := inspect(ctx, conn); err != nil {
		closeConn(conn)
		return nil, err
	}
	return conn, nil
}

// readers opens the pool of reading connections.
func (t *target) readers(ctx context.Context, most int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.ConnConfig = t.config.Copy()
	p := config.ConnConfig.RuntimeParams
	p["default_transaction_read_only"] = "on"
	p["enable_bitmapscan"] = "off" // A list reads an index in order and stops after a page. With old statistics, the planner reads and sorts all calls instead.
	p["enable_sort"] = "off"       // as for enable_bitmapscan
	config.MaxConns = int32(min(most, 1000))
	config.AfterConnect = inspect
	return pgxpool.NewWithConfig(ctx, config)
}

// selectSettings reads the settings that inspect checks. It also turns off transaction_timeout, a setting that releases before 17 do not
// have.
const selectSettings = `SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
	current_setting('server_version_num')::int / 10000, pg_is_in_recovery(),
	(SELECT count(set_config(name, '0', false)) FROM pg_settings WHERE name = 'transaction_timeout')`

// inspect returns an error for a server that is read-only or too old. It also returns an error when a setting of the server, the database
// or the role can lose committed data.
func inspect(ctx context.Context, conn *pgx.Conn) error {
	var fsync, pages, commit string
	var version, lifted int
	var recovers bool
	if err := conn.QueryRow(ctx, selectSettings).Scan(&fsync, &pages, &commit, &version, &recovers, &lifted); err != nil {
		return wrapError(err)
	}
	switch {
	case recovers:
		return wrapError(errReadOnly)
	case version < oldestServer:
		return fmt.Errorf("%w: it is release %d; the oldest supported one is %d", ErrUnsafe, version, oldestServer)
	}
	return safe(fsync, pages, commit)
}

func safe(fsync, pages, commit string) error {
	var off []string
	for name, value := range map[string]string{"fsync": fsync, "full_page_writes": pages, "synchronous_commit": commit} {
		if value == "off" {
			off = append(off, name+" is off")
		}
	}
	if len(off) > 0 {
		return fmt.Errorf("%w: %s", ErrUnsafe, strings.Join(off, ", "))
	}
	return nil
}

// lockKey returns the key of the advisory lock of a schema: a class for toold, and a hash of the schema's name.
func (t *target) lockKey() (class, id int32) {
	return 0x746f6f6c, int32(crc32.ChecksumIEEE([]byte(t.schema)))
}
