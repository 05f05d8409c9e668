package log

import (
	"bytes"
	"strconv"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// NewEncoder returns an encoder for log entries. For ordinary entries it is zap's JSON encoder for production, with times in RFC 3339 and
// durations in seconds. It encodes the lines of this package itself, with the same bytes as zap but faster: encoding them through zap took
// one fortieth of the time of a read-only call.
func NewEncoder() zapcore.Encoder {
	cfg := zap.NewProductionEncoderConfig()
	cfg.TimeKey, cfg.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	return &encoder{zapcore.NewJSONEncoder(cfg), buffer.NewPool()}
}

// An encoder never holds fields of Logger.With: to add such fields, zap first calls [zapcore.Encoder.Clone], which returns zap's own encoder.
type encoder struct {
	zapcore.Encoder
	room buffer.Pool
}

func (e *encoder) Clone() zapcore.Encoder { return e.Encoder.Clone() }

// EncodeEntry implements [zapcore.Encoder].
func (e *encoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	if len(fields) != 1 || entry.Time.IsZero() || entry.LoggerName != "" || entry.Caller.Defined || entry.Stack != "" {
		return e.Encoder.EncodeEntry(entry, fields)
	}
	l, ok := fields[0].Interface.(*line)
	if !ok || !l.plain() {
		return e.Encoder.EncodeEntry(entry, fields)
	}
	text := e.room.Get()
	b := append(text.Bytes(), `{"level":"`...)
	b = append(append(b, entry.Level.String()...), `","time":"`...)
	b = append(entry.Time.AppendFormat(b, time.RFC3339Nano), `","msg":"`...)
	b = append(append(b, entry.Message...), '"')
	text.AppendBytes(append(l.append(b), "}\n"...)) // no copy is needed when the buffer was large enough
	return text, nil
}

// plain reports whether no name in the line needs escaping.
func (l *line) plain() bool {
	for _, f := range l.names() {
		for i := range len(f.value) {
			if c := f.value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
				return false
			}
		}
	}
	return true
}

// append appends to b the same fields that MarshalLogObject adds.
func (l *line) append(b []byte) []byte {
	for _, f := range l.names() {
		if f.value != "" {
			b = append(appendKey(b, f.key), '"')
			b = append(append(b, f.value...), '"')
		}
	}
	for _, f := range l.counts() {
		if f.value != 0 {
			b = strconv.AppendInt(appendKey(b, f.key), f.value, 10)
		}
	}
	for _, f := range l.clocks() {
		if f.value != 0 {
			b = appendSeconds(appendKey(b, f.key), f.value)
		}
	}
	for _, f := range l.flags() {
		if f.value {
			b = append(appendKey(b, f.key), "true"...)
		}
	}
	return b
}

func appendKey(b []byte, key string) []byte {
	return append(append(append(b, `,"`...), key...), `":`...)
}

// exactDuration is the limit below which a float64 represents the seconds of a duration exactly to the nanosecond. Below it, the shortest
// text of the float64 is the decimal number.
const exactDuration = time.Duration(1e15)

func appendSeconds(b []byte, d time.Duration) []byte {
	if d < 0 || d >= exactDuration {
		return strconv.AppendFloat(b, float64(d)/float64(time.Second), 'f', -1, 64)
	}
	b = strconv.AppendInt(b, int64(d/time.Second), 10)
	rest := int64(d % time.Second)
	if rest == 0 {
		return b
	}
	b = strconv.AppendInt(append(b, '.'), int64(time.Second)+rest, 10) // The added second gives a leading 1, which keeps the zeros at the beginning of the fraction.
	n := len(b) - len("1000000000")
	b = append(b[:n], b[n+1:]...)
	return bytes.TrimRight(b, "0")
}
