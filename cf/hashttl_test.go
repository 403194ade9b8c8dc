package cf

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// TestHashTTLGolden holds the bytes against the layout that Kvrocks documents: mode, persist, lower, upper behind the
// head, an expiry in front of every value.
func TestHashTTLGolden(t *testing.T) {
	ttl := HashTTL{Persist: 2, Lower: 0x0190_0000_0001, Upper: 0x0190_0000_00ff}
	const tail = "01" + "0000000000000002" + "0000019000000001" + "00000190000000ff"
	for _, c := range []struct {
		name string
		meta Meta
		want string
	}{
		{"64-bit form", Meta{Type: TypeHash, Expire: 1, Version: 0x1122, Size: 5}, "82" + "0000000000000001" +
			"0000000000001122" + "0000000000000005" + tail},
		{"old form", Meta{Type: TypeHash, Narrow: true, Expire: 7000, Version: 0x1122, Size: 5}, "02" + "00000007" +
			"0000000000001122" + "00000005" + tail},
	} {
		got := AppendHashTail(c.meta.Append(nil), ttl)
		if hex.EncodeToString(got) != c.want {
			t.Errorf("%s: %x, want %s", c.name, got, c.want)
		}
		if len(got) > MaxHead {
			t.Errorf("%s: %d bytes, MaxHead is %d", c.name, len(got), MaxHead)
		}
		m, rest, err := DecodeMeta(got)
		if err != nil || m != c.meta {
			t.Errorf("%s: decodes to %+v, %v", c.name, m, err)
		}
		back, on, err := DecodeHashTail(rest)
		if err != nil || !on || back != ttl {
			t.Errorf("%s: tail %+v %v, %v", c.name, back, on, err)
		}
	}
	value := AppendHashValue(nil, 0x0190_0000_0001, []byte("v\x00"))
	if want := "0000019000000001" + "7600"; hex.EncodeToString(value) != want {
		t.Errorf("value %x, want %s", value, want)
	}
	if value := AppendHashValue(nil, 0, nil); hex.EncodeToString(value) != "0000000000000000" {
		t.Errorf("empty value without an expiry: %x", value)
	}
	if string(LogHashTTL) != "2 13 1" {
		t.Errorf("log data %q", LogHashTTL)
	}
}

func TestHashTTLRoundTrip(t *testing.T) {
	g := newGen()
	for range rounds {
		ttl := HashTTL{Persist: g.u64(), Lower: g.u64(), Upper: g.u64()}
		back, on, err := DecodeHashTail(AppendHashTail(nil, ttl))
		if err != nil || !on || back != ttl {
			t.Fatalf("%+v decodes to %+v %v, %v", ttl, back, on, err)
		}
		want, expire := g.bytes(30), g.u64()
		e, value, err := DecodeHashValue(AppendHashValue(nil, expire, want))
		if err != nil || e != expire || !bytes.Equal(value, want) {
			t.Fatalf("%d %x decodes to %d %x, %v", expire, want, e, value, err)
		}
	}
}

func TestHashTailRefuses(t *testing.T) {
	whole := AppendHashTail(nil, HashTTL{Persist: 1})
	for n := 1; n < len(whole); n++ {
		if _, _, err := DecodeHashTail(whole[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if _, on, err := DecodeHashTail(nil); on || err != nil {
		t.Errorf("a plain hash: %v %v", on, err)
	}
	for _, bad := range [][]byte{{0}, append([]byte{0}, whole[1:]...), append([]byte{2}, whole[1:]...),
		append(bytes.Clone(whole), 0)} {
		if _, _, err := DecodeHashTail(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", bad, err)
		}
	}
	for n := range HashValueHead {
		if _, _, err := DecodeHashValue(make([]byte, n)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a value of %d bytes: %v", n, err)
		}
	}
}

// TestHashEnd: a hash whose fields all expire is a live key until the last of them has.
func TestHashEnd(t *testing.T) {
	const now = 1000
	for _, c := range []struct {
		name   string
		expire uint64
		size   uint64
		ttl    HashTTL
		end    uint64
		live   bool
	}{
		{"a field without an expiry", 0, 2, HashTTL{Persist: 1, Lower: 1, Upper: 1}, 0, true},
		{"none, in the future", 0, 2, HashTTL{Lower: 1, Upper: now + 1}, now + 1, true},
		{"none, now", 0, 2, HashTTL{Lower: 1, Upper: now}, now, true},
		{"none, passed", 0, 2, HashTTL{Lower: 1, Upper: now - 1}, now - 1, false},
		{"the key expires first", now - 1, 2, HashTTL{Lower: 1, Upper: now + 1}, now - 1, false},
		{"the key expires last", now + 5, 2, HashTTL{Lower: 1, Upper: now - 1}, now - 1, false},
		{"no bound is known", 0, 2, HashTTL{}, 0, true},
		{"empty", 0, 0, HashTTL{}, 0, false},
	} {
		raw := AppendHashTail((&Meta{Type: TypeHash, Expire: c.expire, Size: c.size}).Append(nil), c.ttl)
		m, _, err := DecodeMeta(raw)
		if err != nil || m.End() != c.end || m.Live(now) != c.live {
			t.Errorf("%s: end %d, want %d; live %v, want %v; %v", c.name, m.End(), c.end, m.Live(now), c.live, err)
		}
	}
	// Other types may have a tail that looks like one.
	raw := AppendHashTail((&Meta{Type: TypeSet, Size: 1}).Append(nil), HashTTL{Upper: 1})
	if m, _, _ := DecodeMeta(raw); m.FieldsEnd() != 0 {
		t.Errorf("a set ends at %d", m.FieldsEnd())
	}
}

func FuzzHashTTL(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{0})
	f.Add(AppendHashTail(nil, HashTTL{1, 2, 3}))
	f.Add(AppendHashValue(nil, 5, []byte("value")))
	f.Fuzz(func(t *testing.T, b []byte) {
		ttl, on, err := DecodeHashTail(b)
		switch {
		case err != nil && !errors.Is(err, ErrCorrupt):
			t.Errorf("tail %x: %v", b, err)
		case err == nil && on != (len(b) > 0):
			t.Errorf("tail %x is on: %v", b, on)
		case err == nil && on && !bytes.Equal(AppendHashTail(nil, ttl), b):
			t.Errorf("tail %x is encoded again as %x", b, AppendHashTail(nil, ttl))
		}
		expire, value, err := DecodeHashValue(b)
		if err != nil && !errors.Is(err, ErrCorrupt) || err == nil && !bytes.Equal(AppendHashValue(nil, expire, value), b) {
			t.Errorf("value %x: %d %x, %v", b, expire, value, err)
		}
		m, _, err := DecodeMeta(append((&Meta{Type: TypeHash, Size: 1}).Append(nil), b...))
		if err != nil || m.FieldsEnd() != 0 && (!on || ttl.Persist != 0 || m.FieldsEnd() != min(ttl.Upper, 1<<48-1)) {
			t.Errorf("metadata with tail %x: end %d, %v", b, m.FieldsEnd(), err)
		}
	})
}
