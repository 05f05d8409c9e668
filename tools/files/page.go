package files

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

var errNUL = errors.New("NUL byte in text")

// page is what read shows of a text. It keeps what is shown and nothing else, however long the file or a line is.
type page struct {
	window
	content  strings.Builder // as the file has it, with LF
	numbered strings.Builder
	shown    int // lines
	seen     int // lines, to where the reading stopped
	cut      int
	lossy    bool
	atEnd    bool
	crlf, lf int
	cost     int
	sum      hash.Hash
}

// read reads to the end of files of at most whole bytes, which can be edited and must be known by their hash; of a
// bigger one it reads until the window is full, and never more than most. With whole 0 nothing is hashed.
func (p *page) read(in io.Reader, whole, most int64) error {
	if whole > 0 {
		p.sum = sha256.New()
		in = io.TeeReader(in, p.sum)
	}
	counted := &counter{r: in}
	lines := borrowReader(counted)
	defer returnReader(lines)
	for full := false; ; {
		if p.seen+1 >= p.first+p.count || p.cost > textBudget {
			full = true
		}
		if counted.n > most || full && counted.n > whole {
			return nil
		}
		line, length, err := nextLine(lines, most-counted.n)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if length > 0 {
			p.seen++
			if p.seen >= p.first && !full {
				if err := p.show(line, length); err != nil {
					return err
				}
			}
			switch ending(line) {
			case "\r\n":
				p.crlf++
			case "\n":
				p.lf++
			}
		}
		if err != nil {
			p.atEnd = true
			return nil // io.EOF, the only error that comes here, is the end of the page
		}
	}
}

// readers are buffers that no call uses: a new one for each would be most of what a short file costs.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

func borrowReader(in io.Reader) *bufio.Reader {
	r := readers.Get().(*bufio.Reader) //nolint:forcetypeassert // nothing else is in the pool
	r.Reset(in)
	return r
}

// returnReader gives a buffer back. Nothing that was read may point into it any more.
func returnReader(r *bufio.Reader) {
	r.Reset(nil)
	readers.Put(r)
}

// nextLine returns the beginning of the next line, which holds all that may be shown of it, and the whole line's length
// with its ending. It gives up within a line that is longer than most.
func nextLine(in *bufio.Reader, most int64) (start []byte, length int, err error) {
	const keep = utf8.UTFMax*maxLineLength + 1
	for {
		part, err := in.ReadSlice('\n')
		if room := keep - len(start); room > 0 {
			start = append(start, part[:min(room, len(part))]...)
		}
		length += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) || int64(length) > most {
			if length > len(start) { // so that the ending of a long line is seen
				start = append(start, ending(part)...)
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return start, length, err
		}
	}
}

func ending(line []byte) string {
	switch {
	case bytes.HasSuffix(line, []byte("\r\n")):
		return "\r\n"
	case bytes.HasSuffix(line, []byte("\n")):
		return "\n"
	}
	return ""
}

func (p *page) show(line []byte, length int) error {
	if bytes.IndexByte(line, 0) >= 0 {
		return errNUL
	}
	whole := length == len(line)
	if p.seen == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	text := strings.TrimSuffix(string(line), ending(line))
	if !whole || utf8.RuneCountInString(text) > maxLineLength {
		text = firstRunes(text, maxLineLength)
		whole = false
	}
	if !utf8.ValidString(text) {
		p.lossy = true
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	p.cost += encodedLength(text) + 2
	p.shown++
	if p.shown > 1 {
		p.numbered.WriteByte('\n')
	}
	p.content.WriteString(text + "\n")
	fmt.Fprintf(&p.numbered, "%6d\t%s", p.seen, text)
	if !whole {
		p.cut++
		fmt.Fprintf(&p.numbered, "… [line cut: %d bytes]", length)
	}
	return nil
}

func (p *page) endings() string {
	switch {
	case p.crlf > 0 && p.lf > 0:
		return "mixed"
	case p.crlf > 0:
		return "crlf"
	case p.lf > 0:
		return "lf"
	}
	return ""
}

// firstRunes returns the first n characters of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}
