package cf

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
)

// decoders run every decoder of the package on bytes from outside. Each returns the decoder's error and, when
// there is none, what its encoder makes of the result and which part of the input that must equal.
var decoders = map[string]func(b []byte) (again, part []byte, err error){
	"DecodeMeta": func(b []byte) ([]byte, []byte, error) {
		m, tail, err := DecodeMeta(b)
		if err != nil {
			return nil, nil, err
		}
		b = bytes.Clone(b)
		b[0] &= wideFlag | 0x0f // the bits between flag and type are not used
		return append(m.Append(nil), tail...), b, nil
	},
	"SplitNSKey":       func(b []byte) ([]byte, []byte, error) { return againNSKey(b, false) },
	"SplitNSKey slots": func(b []byte) ([]byte, []byte, error) { return againNSKey(b, true) },
	"ParseSubkey":      func(b []byte) ([]byte, []byte, error) { return againSubkey(b, false) },
	"ParseSubkey slot": func(b []byte) ([]byte, []byte, error) { return againSubkey(b, true) },
	"ParseDouble": func(b []byte) ([]byte, []byte, error) {
		f, err := ParseDouble(b)
		if err != nil || math.IsNaN(f) {
			return nil, nil, err
		}
		return AppendDouble(nil, f), b[:ScoreLen], nil
	},
	"SplitScoreSub": func(b []byte) ([]byte, []byte, error) {
		f, member, err := SplitScoreSub(b)
		if err != nil || math.IsNaN(f) {
			return nil, nil, err
		}
		return append(AppendDouble(nil, f), member...), b, nil
	},
	"DecodeListTail": func(b []byte) ([]byte, []byte, error) {
		head, end, err := DecodeListTail(b)
		if err != nil {
			return nil, nil, err
		}
		return AppendListTail(nil, head, end), b[:16], nil
	},
	"ParseU64Sub": func(b []byte) ([]byte, []byte, error) {
		n, err := ParseU64Sub(b)
		if err != nil {
			return nil, nil, err
		}
		return AppendU64Sub(nil, n), b, nil
	},
	"ParseBitmapSub": func(b []byte) ([]byte, []byte, error) {
		n, err := ParseBitmapSub(b)
		return AppendBitmapSub(nil, n), b, err
	},
	"ParseHLLSub": func(b []byte) ([]byte, []byte, error) {
		n, err := ParseHLLSub(b)
		return AppendHLLSub(nil, n), b, err
	},
	"DecodeHLLTail": func(b []byte) ([]byte, []byte, error) {
		e, err := DecodeHLLTail(b)
		if err != nil {
			return nil, nil, err
		}
		return AppendHLLTail(nil, e), b[:1], nil
	},
	"DecodeBloomMeta": func(b []byte) ([]byte, []byte, error) {
		m, err := DecodeBloomMeta(b)
		if err != nil || math.IsNaN(m.ErrorRate) {
			return nil, nil, err
		}
		return m.Append(nil), b[:bloomTail], nil
	},
	"ParseBloomSub": func(b []byte) ([]byte, []byte, error) {
		n, err := ParseBloomSub(b)
		return AppendBloomSub(nil, n), b, err
	},
	"DecodeCuckooMeta": func(b []byte) ([]byte, []byte, error) {
		m, err := DecodeCuckooMeta(b)
		if err != nil {
			return nil, nil, err
		}
		return m.Append(nil), b[:cuckooTail], nil
	},
	"ParseCuckooSub": func(b []byte) ([]byte, []byte, error) {
		filter, page, err := ParseCuckooSub(b)
		return AppendCuckooSub(nil, filter, page), b, err
	},
	"SplitJSONTail": func(b []byte) ([]byte, []byte, error) {
		f, doc, err := SplitJSONTail(b)
		return append(AppendJSONTail(nil, f), doc...), b, err
	},
	"DecodeStreamMeta": func(b []byte) ([]byte, []byte, error) {
		m, err := DecodeStreamMeta(b)
		if err != nil {
			return nil, nil, err
		}
		n := min(len(b), streamTail) / 8 * 8
		return m.Append(nil)[:n], b[:n], nil
	},
	"ParseStreamSub": func(b []byte) ([]byte, []byte, error) {
		s, err := ParseStreamSub(b)
		switch s.Kind {
		case StreamGroup:
			return AppendStreamGroupSub(nil, StreamGroup, s.Group), b, err
		case StreamConsumer:
			return AppendStreamConsumerSub(nil, s.Group, s.Consumer), b, err
		case StreamPending:
			return AppendStreamPendingSub(nil, s.Group, s.ID), b, err
		case StreamProducer:
			return AppendStreamProducerSub(nil, StreamProducer, s.Producer), b, err
		case StreamIID:
			return AppendStreamIIDSub(nil, s.Producer, s.IID), b, err
		case StreamQueued:
			return AppendStreamQueuedSub(nil, s.Producer, s.Place), b, err
		case StreamIdempotence:
			return AppendStreamKindSub(nil, StreamIdempotence), b, err
		}
		return AppendStreamEntrySub(nil, s.ID), b, err
	},
	"DecodeStreamGroup": func(b []byte) ([]byte, []byte, error) {
		v, err := DecodeStreamGroup(b)
		if err != nil {
			return nil, nil, err
		}
		return v.Append(nil), b[:streamGroupLen], nil
	},
	"DecodeStreamIdempotence": func(b []byte) ([]byte, []byte, error) {
		v, err := DecodeStreamIdempotence(b)
		return v.Append(nil), b, err
	},
	"DecodeStreamProducer": func(b []byte) ([]byte, []byte, error) {
		v, err := DecodeStreamProducer(b)
		if err != nil {
			return nil, nil, err
		}
		return v.Append(nil), b[:streamProducerLen], nil
	},
	"DecodeStreamIID": func(b []byte) ([]byte, []byte, error) {
		v, err := DecodeStreamIID(b)
		return v.Append(nil), b, err
	},
	"DecodeStreamQueued": func(b []byte) ([]byte, []byte, error) {
		v, err := DecodeStreamQueued(b)
		return v.Append(nil), b, err
	},
	"DecodeStreamConsumer": func(b []byte) ([]byte, []byte, error) {
		v, err := DecodeStreamConsumer(b)
		if err != nil {
			return nil, nil, err
		}
		return v.Append(nil), b[:streamConsumerLen], nil
	},
	"DecodeStreamPending": func(b []byte) ([]byte, []byte, error) {
		v, err := DecodeStreamPending(b)
		return v.Append(nil), b, err
	},
	"DecodeStreamEntry": func(b []byte) (again, part []byte, err error) {
		fields, err := DecodeStreamEntry(nil, b)
		for _, f := range fields {
			again = AppendStreamString(again, f)
		}
		return again, b, err
	},
	"ParseSearchKey": func(b []byte) ([]byte, []byte, error) {
		k, err := ParseSearchKey(b)
		if err != nil {
			return nil, nil, err
		}
		if k.Kind < SearchFieldMeta {
			return AppendSearchPrefix(nil, string(k.Namespace), k.Kind, k.Index), b, nil
		}
		return append(AppendSearchField(nil, string(k.Namespace), k.Kind, k.Index, k.Field), k.Data...), b, nil
	},
	"ParseSearchTag": func(b []byte) ([]byte, []byte, error) {
		tag, user, err := ParseSearchTag(b)
		return AppendSearchTag(nil, tag, user), b, err
	},
	"ParseSearchNumeric": func(b []byte) ([]byte, []byte, error) {
		f, user, err := ParseSearchNumeric(b)
		if err != nil || math.IsNaN(f) {
			return nil, nil, err
		}
		return AppendSearchNumeric(nil, f, user), b, nil
	},
	"ParseSearchGraph": func(b []byte) ([]byte, []byte, error) {
		g, err := ParseSearchGraph(b)
		if g.Edge {
			return AppendSearchEdge(nil, g.Level, g.From, g.To), b, err
		}
		return AppendSearchNode(nil, g.Level, g.From), b, err
	},
	"DecodeSearchIndex": func(b []byte) ([]byte, []byte, error) {
		on, err := DecodeSearchIndex(b)
		if err != nil {
			return nil, nil, err
		}
		return AppendSearchIndex(nil, on), b[:2], nil
	},
	"DecodeSearchPrefixes": func(b []byte) ([]byte, []byte, error) {
		p, err := DecodeSearchPrefixes(nil, b)
		return AppendSearchPrefixes(nil, p), b, err
	},
	"DecodeSearchField": func(b []byte) ([]byte, []byte, error) {
		f, err := DecodeSearchField(b)
		if err != nil || math.IsNaN(f.Vector.Epsilon) {
			return nil, nil, err
		}
		return f.Append(nil), b, nil
	},
	"DecodeSearchNodeValue": func(b []byte) ([]byte, []byte, error) {
		n, v, err := DecodeSearchNodeValue(nil, b)
		if slices.ContainsFunc(v, math.IsNaN) {
			return nil, nil, err
		}
		return AppendSearchNodeValue(nil, n, v), b, err
	},
	"ParseLogData": func(b []byte) ([]byte, []byte, error) {
		id, err := ParseLogData(b)
		if err != nil || id == nil {
			return nil, nil, err
		}
		return AppendLogReplicationID(nil, string(id)), b, nil
	},
}

func againNSKey(b []byte, slots bool) ([]byte, []byte, error) {
	ns, user, err := SplitNSKey(b, slots)
	if err != nil {
		return nil, nil, err
	}
	again := AppendNSPrefix(nil, string(ns))
	if slots {
		again = append(again, b[len(again):len(again)+2]...) // the slot of bytes from outside may be wrong
	}
	return append(again, user...), b, nil
}

func againSubkey(b []byte, slots bool) ([]byte, []byte, error) {
	s, err := ParseSubkey(b, slots)
	nsKey, nsErr := AppendNSKeyOf(nil, b, slots)
	if (err == nil) != (nsErr == nil) {
		return nil, nil, errors.New("ParseSubkey and AppendNSKeyOf disagree")
	}
	if err != nil {
		return nil, nil, err
	}
	return append(AppendSubkeyPrefix(nil, nsKey, slots, s.Version), s.Sub...), b, nil
}

// checkDecoders: no decoder panics, every error wraps ErrCorrupt, what is accepted is encoded to the same bytes.
func checkDecoders(t *testing.T, b []byte) {
	t.Helper()
	in := bytes.Clone(b)
	for name, decode := range decoders {
		again, part, err := decode(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s(%x): %v", name, b, err)
			}
			continue
		}
		if !bytes.Equal(again, part) {
			t.Errorf("%s(%x) is encoded again as %x, want %x", name, b, again, part)
		}
		if !bytes.Equal(b, in) {
			t.Fatalf("%s(%x) changed its input to %x", name, in, b)
		}
	}
}

func FuzzDecoders(f *testing.F) {
	ns := AppendNSKey(nil, DefaultNamespace, []byte("key"), false)
	f.Add([]byte(nil))
	f.Add(ns)
	f.Add(append(AppendSubkeyPrefix(nil, ns, false, 1), AppendDouble(nil, 1.5)...))
	f.Add(append((&Meta{Type: TypeList, Version: 1, Size: 2}).Append(nil), AppendListTail(nil, 1, 2)...))
	f.Add((&Meta{Type: TypeHash, Narrow: true, Expire: 1000, Version: 1, Size: 2}).Append(nil))
	f.Add((&StreamMeta{Groups: 1}).Append(nil))
	f.Add(AppendStreamConsumerSub(nil, []byte("g"), []byte("c")))
	f.Add(AppendStreamPendingSub(nil, []byte("g"), StreamID{1, 2}))
	f.Add((&StreamPendingValue{1, 2, []byte("c")}).Append(nil))
	f.Add(AppendStreamString(AppendStreamString(nil, []byte("f")), []byte("v")))
	f.Add(AppendSearchField(nil, "ns", SearchFieldMeta, []byte("i"), []byte("f")))
	f.Add(AppendSearchEdge(nil, 1, []byte("a"), []byte("b")))
	f.Add((&SearchField{Type: SearchVector}).Append(nil))
	f.Add([]byte("3 12 a b left right"))
	f.Add([]byte("10240"))
	f.Fuzz(checkDecoders)
}

// FuzzCompareZSetScore: the order equals that of the bytes on any two strings.
func FuzzCompareZSetScore(f *testing.F) {
	ns := AppendNSKey(nil, "ns", []byte("z"), false)
	key := func(score float64, member string) []byte {
		return append(AppendDouble(AppendSubkeyPrefix(nil, ns, false, 1), score), member...)
	}
	f.Add(key(-1, "a"), key(1, "a"))
	f.Add(key(math.Copysign(0, -1), "a"), key(0, "a"))
	f.Add(key(1, "a"), key(1, "b"))
	f.Add(ns, []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if got, want := CompareZSetScore(a, b), bytes.Compare(a, b); got != want {
			t.Errorf("%x and %x compare %d, as bytes %d", a, b, got, want)
		}
		if got, want := CompareZSetScore(b, a), bytes.Compare(b, a); got != want {
			t.Errorf("%x and %x compare %d, as bytes %d", b, a, got, want)
		}
	})
}

// TestDecodersOnDamage runs the decoders on sound encodings cut short and with single bytes changed.
func TestDecodersOnDamage(t *testing.T) {
	g := newGen()
	for range rounds / 10 {
		nsKey := AppendNSKey(nil, "ns", g.bytes(5), false)
		for _, b := range [][]byte{
			append((&Meta{Type: Type(g.IntN(16)), Narrow: g.IntN(2) == 0}).Append(nil), g.bytes(20)...),
			append(AppendSubkeyPrefix(nil, nsKey, false, g.u64()), g.bytes(20)...),
			(&StreamMeta{EntriesAdded: g.u64()}).Append(nil),
			AppendStreamConsumerSub(nil, g.bytes(3), g.bytes(3)),
			(&StreamPendingValue{Consumer: g.bytes(5)}).Append(nil),
			AppendStreamString(nil, g.bytes(200)),
			append(AppendSearchField(nil, "ns", SearchFieldData, g.bytes(3), g.bytes(3)),
				AppendSearchTag(nil, g.bytes(3), g.bytes(3))...),
			AppendSearchEdge(nil, 1, g.bytes(3), g.bytes(3)),
		} {
			checkDecoders(t, b)
			if len(b) == 0 {
				continue
			}
			checkDecoders(t, b[:g.IntN(len(b))])
			b[g.IntN(len(b))] ^= byte(1 << g.IntN(8))
			checkDecoders(t, b)
		}
	}
}
