package call

// A Part is a range of an artifact.
type Part struct {
	Bytes  []byte
	Size   int64 // current size of the whole artifact
	EOF    bool
	Offset int64 // offset of the first byte
	// MIMEType comes from the call's result. It is empty for a stream.
	MIMEType string
	// FirstLine is the number of the line in which Bytes begins, counted from 1. Lines is the number of lines in Bytes, including a
	// truncated last line. Both are 0 when the request was for a range of bytes.
	FirstLine, Lines int64
}

// A Search describes the lines of an artifact to find.
type Search struct {
	Pattern    string
	Regexp     bool // true: Pattern is an RE2 expression; false: it is literal text
	IgnoreCase bool
	After      int64 // the offset at which to begin, such as Found.Next of the previous search
	Limit      int   // maximum matches; 0 means 100
}

// Found is the result of a search.
type Found struct {
	Matches []Match
	Size    int64 // current size of the artifact
	Next    int64 // the offset at which another search continues
	EOF     bool  // the artifact is complete, and no bytes follow Next
}

// A Match is one matching line.
type Match struct {
	Line   int64  // from 1
	Offset int64  // offset of the match in the artifact
	Text   string // the line, or the text around the match when the line is long; invalid UTF-8 becomes U+FFFD
	Cut    bool
}
