package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

type (
	column   []string
	nullable []string // Empty strings become NULL: most calls have no parent and no batch.
)

// A columnCodec encodes the arrays of a group. It is faster than the codec of pgx, because it uses no reflection for the elements. It
// passes all other values to the codec of pgx.
type columnCodec struct {
	pgtype.Codec
	element uint32
}

// registerColumns registers the columnCodec for the array types of a connection.
func registerColumns(m *pgtype.Map) {
	for array, element := range map[uint32]uint32{
		pgtype.Int8ArrayOID: pgtype.Int8OID, pgtype.TextArrayOID: pgtype.TextOID, pgtype.ByteaArrayOID: pgtype.ByteaOID,
	} {
		if t, ok := m.TypeForOID(array); ok {
			m.RegisterType(&pgtype.Type{Name: t.Name, OID: array, Codec: columnCodec{t.Codec, element}})
		}
	}
}

func (c columnCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	switch value.(type) {
	case []int64, []*int64, [][]byte, column, nullable:
		if format == pgtype.BinaryFormatCode {
			return c
		}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// Encode encodes an array in the format of the server's array_send.
func (c columnCodec) Encode(value any, b []byte) ([]byte, error) {
	switch v := value.(type) {
	case []int64:
		b = c.begin(b, len(v))
		for _, n := range v {
			b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(n))
		}
	case []*int64:
		b = c.begin(b, len(v))
		for _, n := range v {
			if n == nil {
				b = append(b, null...)
				continue
			}
			b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(*n))
		}
	case [][]byte:
		size := 64
		for _, e := range v {
			size += 4 + len(e)
		}
		b = c.begin(slices.Grow(b, size), len(v)) // Grow the buffer once: records make up most bytes of a group.
		for _, e := range v {
			b = appendBytes(b, e, e == nil)
		}
	case column:
		b = c.begin(b, len(v))
		for _, e := range v {
			b = appendBytes(b, e, false)
		}
	case nullable:
		b = c.begin(b, len(v))
		for _, e := range v {
			b = appendBytes(b, e, e == "")
		}
	}
	return b, nil
}

// begin appends the header of a one-dimensional array.
func (c columnCodec) begin(b []byte, n int) []byte {
	if n == 0 {
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
		return binary.BigEndian.AppendUint32(b, c.element)
	}
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 1)
	b = binary.BigEndian.AppendUint32(b, c.element)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return append(b, 0, 0, 0, 1)
}

const null = "\xff\xff\xff\xff" // NULL is encoded with this value in place of the length.

func appendBytes[T string | []byte](b []byte, e T, isNull bool) []byte {
	if isNull {
		return append(b, null...)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(e))), e...)
}
