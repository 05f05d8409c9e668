package ledger

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// content is the hash of a message. Equal messages have equal hashes, whichever method returned them.
type content [16]byte

func contentOf(m proto.Message) content {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("a message that was received cannot be written: " + err.Error()) // This cannot happen with messages from gRPC.
	}
	sum := sha256.Sum256(bytes)
	return content(sum[:16])
}

// contentOfEvent leaves out output bytes, because only live events carry them; the ledger compares them by offset. It also leaves out the
// description of a question, because only principals that may answer see all of it.
func contentOfEvent(e *tooldv1.CallEvent) content {
	switch {
	case e.GetOutput() != nil:
		e = proto.CloneOf(e)
		e.GetOutput().Data = nil
	case e.GetSuspended() != nil:
		e = proto.CloneOf(e)
		e.GetSuspended().GetSuspension().Description = nil
	}
	return contentOf(e)
}

// contentOfTicket hashes the parts of a question that must not change while it is open and are the same for every reader.
func contentOfTicket(s *tooldv1.Suspension) content {
	bare := proto.CloneOf(s)
	bare.Votes, bare.Description = nil, nil
	return contentOf(bare)
}

// epochOf reads the epoch of a call's cursor, and returns 0 when it has none. Clients treat cursors as opaque. The tests parse them to
// check that reused event numbers belong to a new epoch.
func epochOf(cursor string) int64 {
	parts := strings.Split(cursor, ".")
	if len(parts) != 3 || parts[0] != "c1" {
		return 0
	}
	epoch, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0
	}
	return epoch
}

// kindOf names the kind of an event for people.
func kindOf(e *tooldv1.CallEvent) string {
	m := e.ProtoReflect()
	if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("event")); field != nil {
		return string(field.Name())
	}
	return "an unknown event"
}
