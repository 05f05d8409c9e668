package web

import (
	"bytes"
	"net/url"
	"strings"

	htmltomarkdown "github.com/JohannesKaufmann/html-to-markdown/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxMarkup is the maximum size in bytes of the markup that is converted. Scripts and styles do not count.
	maxMarkup = 2 << 20
	// maxDepth limits the nesting of elements, because the time of parsers and converters grows with the square of the depth.
	maxDepth = 256
	// maxIndent limits the nesting of lists and quotations, because each level indents every line inside it further.
	maxIndent = 12
)

// convert converts a page to Markdown or text. When the conversion to Markdown fails, it returns text.
func convert(source, from, format string) (title, content, got string) {
	title, markup, text := strip(source)
	if format == asText {
		return title, text, asText
	}
	base, _ := url.Parse(from)
	md, err := htmltomarkdown.ConvertString(markup, converter.WithDomain(base.Scheme+"://"+base.Host))
	if err != nil {
		return title, text, asText
	}
	return title, md, asMarkdown
}

// dropped are the elements whose content is not shown to readers.
var dropped = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Svg: true, atom.Iframe: true, atom.Object: true,
}

// blocks are the elements that start a new line of text.
var blocks = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Br: true, atom.Li: true, atom.Tr: true, atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true,
	atom.Section: true, atom.Article: true, atom.Header: true, atom.Footer: true, atom.Table: true, atom.Ul: true, atom.Ol: true, atom.Pre: true, atom.Blockquote: true, atom.Hr: true,
	atom.Dt: true, atom.Dd: true, atom.Nav: true, atom.Main: true, atom.Aside: true, atom.Figure: true, atom.Option: true, atom.Title: true,
}

// strip returns the title, the markup and the text of a page. It omits elements that readers do not see. It cuts markup that is too long
// and removes levels of markup that is nested too deep. It reads the page once, in time proportional to its length.
func strip(source string) (title, markup, text string) {
	in := html.NewTokenizer(strings.NewReader(source))
	s := stripper{}
	for {
		kind := in.Next()
		if kind == html.ErrorToken || s.markup.Len() > maxMarkup {
			break
		}
		s.token(in, kind)
	}
	return strings.Join(strings.Fields(s.title.String()), " "), s.markup.String(), tidy(s.text.String())
}

type stripper struct {
	title, markup, text bytes.Buffer
	skip                atom.Atom // the dropped element that is being skipped
	nested              int       // number of open elements with the same name inside the skipped element
	inTitle             bool
	depth               int
	indent              int // number of open elements that indent their lines
}

var indents = map[atom.Atom]bool{atom.Ul: true, atom.Ol: true, atom.Menu: true, atom.Blockquote: true, atom.Li: true}

func (s *stripper) token(in *html.Tokenizer, kind html.TokenType) {
	raw := in.Raw()
	switch kind {
	case html.TextToken:
		written := string(raw)
		plain := html.UnescapeString(written)
		switch {
		case s.inTitle:
			s.title.WriteString(plain)
		case s.skip == 0:
			s.markup.WriteString(written)
			s.text.WriteString(plain)
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		raw = bytes.Clone(raw)
		name, _ := in.TagName()
		s.start(atom.Lookup(name), raw, kind == html.SelfClosingTagToken)
	case html.EndTagToken:
		raw = bytes.Clone(raw)
		name, _ := in.TagName()
		s.end(atom.Lookup(name), raw)
	}
}

func (s *stripper) start(name atom.Atom, raw []byte, closed bool) {
	s.inTitle = s.inTitle || name == atom.Title && s.title.Len() == 0 && s.skip != atom.Svg
	if s.skip != 0 {
		if name == s.skip && !closed {
			s.nested++
		}
		return
	}
	if dropped[name] {
		if !closed {
			s.skip = name
		}
		return
	}
	if blocks[name] {
		s.text.WriteByte('\n')
	}
	if indents[name] && !closed {
		s.indent++
	}
	if s.depth++; s.depth <= maxDepth && (!indents[name] || s.indent <= maxIndent) {
		s.markup.Write(raw)
	}
	if closed || voids[name] {
		s.depth--
	}
}

func (s *stripper) end(name atom.Atom, raw []byte) {
	if name == atom.Title {
		s.inTitle = false
	}
	if s.skip != 0 {
		if name != s.skip && name != atom.Body {
			return
		}
		if s.nested--; s.nested < 0 {
			s.skip, s.nested = 0, 0
		}
		return
	}
	if blocks[name] {
		s.text.WriteByte('\n')
	}
	if s.depth > 0 { // An end tag is ignored when no element is open.
		if s.depth <= maxDepth && (!indents[name] || s.indent <= maxIndent) {
			s.markup.Write(raw)
		}
		s.depth--
		if indents[name] && s.indent > 0 {
			s.indent--
		}
	}
}

// voids are the elements that have no end tag.
var voids = map[atom.Atom]bool{
	atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true, atom.Hr: true, atom.Img: true, atom.Input: true, atom.Link: true, atom.Meta: true,
	atom.Source: true, atom.Track: true, atom.Wbr: true,
}

// tidy collapses runs of spaces to one space, and runs of empty lines to one empty line.
func tidy(text string) string {
	var b strings.Builder
	empty := 0
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" {
			empty++
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
			if empty > 1 {
				b.WriteString("\n")
			}
		}
		empty = 0
		b.WriteString(line)
	}
	return b.String()
}
