package daemon

import (
	"os"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/toold-dev/toold/daemon/config"

	linelog "github.com/toold-dev/toold/plugins/log"
	"github.com/toold-dev/toold/plugins/redact"
)

// loggers write to standard error. The level can change while the daemon runs.
type loggers struct {
	*zap.Logger
	lines *zap.Logger // log lines of calls, which are written together at each sync
	level zap.AtomicLevel
}

// newLoggers returns loggers that redact secrets in every line. With nil secrets they redact nothing.
func newLoggers(cfg *config.Config, secrets *redact.Live) (loggers, error) {
	level, err := zap.ParseAtomicLevel(cfg.Log.Level)
	if err != nil {
		return loggers{}, config.Errorf("log.level: %w", err)
	}
	encoder := linelog.NewEncoder()
	if cfg.Log.Format == "console" || cfg.Log.Format == "" && isTerminal(os.Stderr) {
		encoding := zap.NewDevelopmentEncoderConfig()
		encoding.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	out := zapcore.Lock(os.Stderr)
	if secrets != nil {
		out = secrets.Log(out)
	}
	return loggers{
		Logger: zap.New(zapcore.NewCore(encoder, out, level)),
		lines:  zap.New(zapcore.NewCore(encoder, &collected{out: out}, level)),
		level:  level,
	}, nil
}

// collected buffers log lines until the next sync, or until the buffer is large. Writing each line of a busy daemon separately was measured
// to cost 2 µs for each call.
type collected struct {
	out zapcore.WriteSyncer
	mu  sync.Mutex
	b   []byte
}

func (c *collected) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.b = append(c.b, b...); len(c.b) < 64<<10 {
		return len(b), nil
	}
	return len(b), c.flushLocked()
}

func (c *collected) Sync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flushLocked()
}

func (c *collected) flushLocked() error {
	if len(c.b) == 0 {
		return nil
	}
	_, err := c.out.Write(c.b)
	c.b = c.b[:0]
	return err
}
