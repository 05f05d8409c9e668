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

// page is the part of a text that read returns. The size of the page does not depend on the length of the file or of a line.
type page struct {
	window
	content  strings.Builder // original text with LF line ends
	numbered strings.Builder
	shown    int // number of lines
	seen     int // number of lines read so far
	cut      int
	lossy    bool
	atEnd    bool
	crlf, lf int
	cost     int
	sum      hash.Hash
}

// read reads a file to its end, because edits need the hash of the whole file. The parameters whole and most are numbers of bytes. In a
// file larger than whole, read stops when the window is full, or after most bytes. When whole is 0, read computes no hash.
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
			return nil // err is io.EOF here, which ends the page.
		}
	}
}

// readers is a pool of buffers. For a short file, allocating a buffer would be most of the work.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 64<<10) }}

func borrowReader(in io.Reader) *bufio.Reader {
	r := readers.Get().(*bufio.Reader) //nolint:forcetypeassert // nothing else is in the pool
	r.Reset(in)
	return r
}

// returnReader returns a buffer to the pool. The caller must no longer use slices of the buffer.
func returnReader(r *bufio.Reader) {
	r.Reset(nil)
	readers.Put(r)
}

// nextLine reads the next line. It returns the beginning of the line, which contains everything that may be shown, and the length of the
// whole line with its line end. The parameter most is a limit in bytes: in a longer line, nextLine stops early.
func nextLine(in *bufio.Reader, most int64) (start []byte, length int, err error) {
	const keep = utf8.UTFMax*maxLineLength + 1
	for {
		part, err := in.ReadSlice('\n')
		if room := keep - len(start); room > 0 {
			start = append(start, part[:min(room, len(part))]...)
		}
		length += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) || int64(length) > most {
			if length > len(start) { // When a line was too long for start, its line end is added.
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
