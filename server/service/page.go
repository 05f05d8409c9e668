package service

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
)

// A page token contains a position, and a hash of the principal and the filter of its list. The hash detects a token that belongs to
// another list. The token need not be secret: for each request, the server checks the principal and applies the filter again.

// A binding is the hash in a page token.
type binding [16]byte

// bind hashes parts. It includes the length of each part, so that different lists of parts give different hashes.
func bind(parts ...string) (b binding) {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	copy(b[:], h.Sum(nil))
	return b
}

// listBinding returns the binding for a page of ListCalls. It covers each field of the request that selects or orders calls.
func listBinding(p *access.Identity, req *tooldv1.ListCallsRequest) (binding, error) {
	filter := proto.Clone(req).(*tooldv1.ListCallsRequest)
	filter.PageToken, filter.PageSize, filter.ReadMask = "", 0, nil
	filter.Order = max(filter.GetOrder(), tooldv1.CallOrder_CALL_ORDER_NEWEST_FIRST) // Unspecified means newest first.
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(filter)
	return bind("calls", p.Namespace, p.Subject, strings.Join(p.Roles, ","), string(raw)), err
}

// sealToken returns the page token of a position, or "" for position 0.
func sealToken(position int64, b binding) string {
	if position == 0 {
		return ""
	}
	return seal(binary.AppendVarint(nil, position), b)
}

// sealPosition is like sealToken, for a list of calls. If the list is ordered by expiry, the token also contains the expiry.
func sealPosition(q *call.Query, b binding) string {
	if q.After == 0 || !q.ExpiresFirst {
		return sealToken(q.After, b)
	}
	return seal(binary.AppendVarint(binary.AppendVarint(nil, q.After), int64(q.AfterExpiry)), b)
}

// openPosition sets the position of a query to that of a page token.
func openPosition(token string, q *call.Query, b binding) (err error) {
	if !q.ExpiresFirst || token == "" {
		q.After, err = openToken(token, b)
		return err
	}
	raw, err := open(token, b)
	if err != nil {
		return err
	}
	position, n := binary.Varint(raw)
	expires, m := binary.Varint(raw[max(n, 0):])
	if n <= 0 || m <= 0 || n+m != len(raw) {
		return badToken()
	}
	q.After, q.AfterExpiry = position, call.Stamp(expires)
	return nil
}

func seal(position []byte, b binding) string {
	return base64.RawURLEncoding.EncodeToString(append(b[:], position...))
}

// openToken returns the position of a page token, or 0 for "".
func openToken(token string, b binding) (int64, error) {
	raw, err := open(token, b)
	if err != nil || token == "" {
		return 0, err
	}
	position, n := binary.Varint(raw)
	if n != len(raw) || position == 0 {
		return 0, badToken()
	}
	return position, nil
}

// open decodes a token that seal returned and checks its binding.
func open(token string, b binding) ([]byte, error) {
	if token == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= len(b) || subtle.ConstantTimeCompare(raw[:len(b)], b[:]) != 1 {
		return nil, badToken()
	}
	return raw[len(b):], nil
}

func badToken() error {
	return call.InvalidField("page_token", "is not of this filter and principal; send next_page_token back with the same request, or begin again without")
}
