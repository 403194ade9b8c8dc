package rdb

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// Builders of the forms that this package reads and does not write.

const (
	hugeBudget  = 1 << 40
	ziplistHead = 4 + 4 + 2
)

func join(parts ...string) string { return strings.Join(parts, "") }

// str is a string with a length before it.
func str(s string) string { return string(raw.AppendLength(nil, uint64(len(s)))) + s }

func le16(n int) string { return string(binary.LittleEndian.AppendUint16(nil, uint16(n))) }
func le32(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }
func le64(n uint64) string {
	return string(binary.LittleEndian.AppendUint64(nil, n))
}

// listpack builds one of strings and, as int, numbers.
func listpack(elems ...any) string {
	var b []byte
	for _, e := range elems {
		switch e := e.(type) {
		case int:
			b = raw.AppendListpackInt(b, int64(e))
		case string:
			b = raw.AppendListpackString(b, []byte(e))
		}
	}
	return join(le32(len(b)+7), le16(min(len(elems), 65535)), string(b), "\xff")
}

// ziplist builds one of strings and, as int, numbers.
func ziplist(elems ...any) string {
	var b []byte
	prev, tail := 0, ziplistHead
	for _, e := range elems {
		at := len(b)
		tail = ziplistHead + at
		if prev < 254 {
			b = append(b, byte(prev))
		} else {
			b = binary.LittleEndian.AppendUint32(append(b, 254), uint32(prev))
		}
		switch e := e.(type) {
		case int:
			switch n := int64(e); {
			case n >= 0 && n <= 12:
				b = append(b, 0xf1+byte(n))
			case n == int64(int8(n)):
				b = append(b, 0xfe, byte(n))
			case n == int64(int16(n)):
				b = append(append(b, 0xc0), le16(e)...)
			case n == n<<40>>40:
				b = append(append(b, 0xf0), le32(e)[:3]...)
			case n == int64(int32(n)):
				b = append(append(b, 0xd0), le32(e)...)
			default:
				b = append(append(b, 0xe0), le64(uint64(e))...)
			}
		case string:
			switch n := len(e); {
			case n < 1<<6:
				b = append(b, byte(n))
			case n < 1<<14:
				b = append(b, 0x40|byte(n>>8), byte(n))
			default:
				b = binary.BigEndian.AppendUint32(append(b, 0x80), uint32(n))
			}
			b = append(b, e...)
		}
		prev = len(b) - at
	}
	return join(le32(len(b)+11), le32(tail), le16(min(len(elems), 65535)), string(b), "\xff")
}

func intset(width int, n ...int) string {
	b := join(le32(width), le32(len(n)))
	for _, v := range n {
		b += le64(uint64(v))[:width]
	}
	return b
}

// append writes a value in the forms that this package has for it.
func (v *Value) append(dst []byte) (body []byte, version uint16) {
	switch v.Kind {
	case String:
		return AppendString(AppendHead(dst, String, 0), v.String), PlainVersion
	case Stream:
		w := NewStreamWriter(dst)
		for _, e := range v.Stream.Entries {
			w.Add(e.ID, e.Fields)
		}
		return w.End(v.Stream)
	}
	if v.Expires != nil {
		first := uint64(math.MaxUint64)
		for _, at := range v.Expires {
			if at != 0 {
				first = min(first, at)
			}
		}
		dst = AppendExpiringHead(dst, first, uint64(len(v.Expires)))
		for i, at := range v.Expires {
			dst = AppendExpiry(dst, first, at)
			dst = AppendString(AppendString(dst, v.Elems[2*i]), v.Elems[2*i+1])
		}
		return dst, ExpiringVersion
	}
	n := len(v.Elems)
	if v.Kind == Hash {
		n /= 2
	}
	dst = AppendHead(dst, v.Kind, uint64(n))
	for i, e := range v.Elems {
		dst = AppendString(dst, e)
		if v.Kind == ZSet {
			dst = AppendScore(dst, v.Scores[i])
		}
	}
	return dst, PlainVersion
}

// randomString is short or long, a number or bytes.
func randomString(r *rand.Rand) []byte {
	switch r.IntN(4) {
	case 0:
		return []byte([]string{"0", "-1", "127", "128", "-128", "-129", "32767", "32768", "-32768", "2147483647",
			"2147483648", "-2147483648", "007", "+1", "-0", "1.5",
			"9223372036854775807", "-9223372036854775808"}[r.IntN(18)])
	case 1:
		b := make([]byte, []int{0, 1, 63, 64, 127, 128, 300, 4095, 4096, 16383, 16384, 70000}[r.IntN(12)])
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	b := make([]byte, r.IntN(20))
	for i := range b {
		b[i] = "abc\x00\xff"[r.IntN(5)]
	}
	return b
}

func randomID(r *rand.Rand) cf.StreamID {
	return cf.StreamID{Ms: r.Uint64N(1 << (1 + r.Uint64N(62))), Seq: r.Uint64N(1 << (1 + r.Uint64N(62)))}
}

// randomValue makes a value of a kind that the encoder can write.
func randomValue(r *rand.Rand, k Kind) *Value {
	v := &Value{Kind: k}
	seen := map[string]bool{}
	fresh := func() []byte {
		for {
			if s := randomString(r); !seen[string(s)] {
				seen[string(s)] = true
				return s
			}
		}
	}
	n := 1 + r.IntN([]int{2, 20, 300}[r.IntN(3)])
	switch k {
	case String:
		v.String = randomString(r)
	case List:
		for range n {
			v.Elems = append(v.Elems, randomString(r))
		}
	case Set:
		for range n {
			v.Elems = append(v.Elems, fresh())
		}
	case Hash:
		for range n {
			v.Elems = append(v.Elems, fresh(), randomString(r))
		}
		if r.IntN(2) == 0 {
			v.Expires = make([]uint64, n)
			for i := range v.Expires {
				v.Expires[i] = r.Uint64N(2) * r.Uint64N(1<<62)
			}
			v.Expires[0] = 1 + r.Uint64N(1<<62)
		}
	case ZSet:
		for range n {
			v.Elems = append(v.Elems, fresh())
			v.Scores = append(v.Scores, []float64{0, 1, -1.5, 1e300, r.NormFloat64()}[r.IntN(5)])
		}
	case Stream:
		v.Stream = randomStream(r, n-1)
	}
	return v
}

func randomStream(r *rand.Rand, n int) *StreamValue {
	s := &StreamValue{EntriesAdded: uint64(n)}
	id := randomID(r)
	id.Ms /= 4
	var usual [][]byte
	for range 1 + r.IntN(5) {
		usual = append(usual, randomString(r), nil)
	}
	for range n {
		if r.IntN(3) == 0 {
			id.Ms += 1 + r.Uint64N(1000)
			id.Seq = r.Uint64N(3)
		} else {
			id.Seq += 1 + r.Uint64N(3)
		}
		e := StreamEntry{ID: id}
		if r.IntN(3) == 0 {
			for range 1 + r.IntN(4) {
				e.Fields = append(e.Fields, randomString(r), randomString(r))
			}
		} else {
			for i, f := range usual {
				if i%2 == 1 {
					f = randomString(r)
				}
				e.Fields = append(e.Fields, f)
			}
		}
		s.Entries = append(s.Entries, e)
		s.Last = id
	}
	if r.IntN(2) == 0 {
		return s
	}
	s.Last.Ms += r.Uint64N(3)
	s.MaxDeleted = randomID(r)
	s.EntriesAdded += r.Uint64N(100)
	for i := range r.IntN(4) {
		g := StreamGroup{Name: []byte{byte('a' + i)}, Last: randomID(r), EntriesRead: r.Int64N(100) - 1}
		for j := range r.IntN(4) {
			seen := r.Uint64N(1 << 42)
			g.Consumers = append(g.Consumers, StreamConsumer{Name: []byte{byte('0' + j)}, Seen: seen, Active: seen})
		}
		pending := cf.StreamID{Ms: 1}
		for range min(len(g.Consumers), 1) * r.IntN(50) {
			pending.Seq += 1 + r.Uint64N(9)
			g.Pending = append(g.Pending, StreamPending{ID: pending, Delivered: r.Uint64N(1 << 42),
				Deliveries: r.Uint64N(1 << 20), Consumer: r.IntN(len(g.Consumers))})
		}
		s.Groups = append(s.Groups, g)
	}
	return s
}
