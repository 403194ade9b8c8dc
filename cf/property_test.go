package cf

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// gen makes random inputs for the property tests; its seed is fixed, so failures repeat.
type gen struct{ *rand.Rand }

func newGen() gen { return gen{rand.New(rand.NewPCG(7, 11))} }

// bytes returns up to n bytes, with many of the values that matter to bytewise order.
func (g gen) bytes(n int) []byte {
	b := make([]byte, g.IntN(n+1))
	for i := range b {
		b[i] = []byte{0, 1, 0x7f, 0x80, 0xfe, 0xff, 'a', byte(g.Uint32())}[g.IntN(8)]
	}
	return b
}

// u64 returns numbers of all magnitudes.
func (g gen) u64() uint64 {
	switch g.IntN(8) {
	case 0:
		return 0
	case 1:
		return math.MaxUint64
	}
	return g.Uint64() >> g.IntN(64)
}

func (g gen) namespace() string {
	if g.IntN(3) == 0 {
		return DefaultNamespace
	}
	return string(g.bytes(255))
}

var specialFloats = []float64{math.Inf(-1), -math.MaxFloat64, -1e308, -1, -math.SmallestNonzeroFloat64,
	math.Copysign(0, -1), 0,
	math.SmallestNonzeroFloat64, 2.2250738585072014e-308, 0.1, 1, math.Nextafter(1, 2), 1e15, math.MaxFloat64, math.Inf(1)}

// float returns any double but NaN.
func (g gen) float() float64 {
	for {
		f := math.Float64frombits(g.Uint64())
		if g.IntN(2) == 0 {
			f = specialFloats[g.IntN(len(specialFloats))]
		}
		if !math.IsNaN(f) {
			return f
		}
	}
}

func (g gen) id() StreamID { return StreamID{g.u64(), g.u64()} }

const rounds = 2000

func TestMetaRoundTrip(t *testing.T) {
	g := newGen()
	for range rounds {
		m := Meta{Type: Type(g.IntN(16)), Narrow: g.IntN(2) == 0, Expire: g.u64()}
		if !m.Type.SingleRecord() {
			m.Version, m.Size = g.u64(), g.u64()
		}
		if m.Narrow {
			m.Expire = uint64(uint32(m.Expire)) * 1000
			m.Size = uint64(uint32(m.Size))
		}
		tail := g.bytes(40)
		enc := append(m.Append(nil), tail...)
		got, gotTail, err := DecodeMeta(enc)
		if err != nil || got != m || !bytes.Equal(gotTail, tail) {
			t.Fatalf("%+v %x decodes to %+v %x, %v", m, tail, got, gotTail, err)
		}
		for n := range len(enc) - len(tail) {
			if _, _, err := DecodeMeta(enc[:n]); err == nil {
				t.Fatalf("%+v: the first %d bytes decode", m, n)
			}
		}
	}
}

func TestKeyRoundTrip(t *testing.T) {
	g := newGen()
	for range rounds {
		ns, user, sub := g.namespace(), g.bytes(300), g.bytes(40)
		version, slots := g.u64(), g.IntN(2) == 0
		nsKey := AppendNSKey(nil, ns, user, slots)
		gotNS, gotUser, err := SplitNSKey(nsKey, slots)
		if err != nil || string(gotNS) != ns || !bytes.Equal(gotUser, user) {
			t.Fatalf("SplitNSKey(%q) = %q, %q, %v", nsKey, gotNS, gotUser, err)
		}
		key := append(AppendSubkeyPrefix(nil, nsKey, slots, version), sub...)
		s, err := ParseSubkey(key, slots)
		if err != nil || string(s.Namespace) != ns || !bytes.Equal(s.UserKey, user) || s.Version != version ||
			!bytes.Equal(s.Sub, sub) {
			t.Fatalf("ParseSubkey(%q) = %+v, %v", key, s, err)
		}
		back, err := AppendNSKeyOf([]byte("x"), key, slots)
		if err != nil || string(back) != "x"+string(nsKey) {
			t.Fatalf("AppendNSKeyOf(%q) = %q, %v", key, back, err)
		}
		for n := range len(key) - len(sub) {
			if _, err := ParseSubkey(key[:n], slots); err == nil {
				t.Fatalf("%q: the first %d bytes parse", key, n)
			}
		}
	}
}

func TestSuccessor(t *testing.T) {
	g := newGen()
	for range rounds {
		prefix, rest := g.bytes(6), g.bytes(6)
		succ, ok := AppendSuccessor([]byte("x"), prefix)
		if want := bytes.Count(prefix, []byte{0xff}) < len(prefix); ok != want {
			t.Fatalf("successor of %x: %v", prefix, ok)
		}
		if succ = succ[1:]; !ok {
			continue
		}
		if bytes.Compare(append(slices.Clone(prefix), rest...), succ) >= 0 || bytes.HasPrefix(succ, prefix) {
			t.Fatalf("successor of %x is %x", prefix, succ)
		}
		if k := g.bytes(8); bytes.Compare(k, prefix) > 0 && bytes.Compare(k, succ) < 0 && !bytes.HasPrefix(k, prefix) {
			t.Fatalf("%x lies between %x and its successor %x", k, prefix, succ)
		}
	}
}

func TestDoubleOrder(t *testing.T) {
	for i := 1; i < len(specialFloats); i++ {
		a, b := AppendDouble(nil, specialFloats[i-1]), AppendDouble(nil, specialFloats[i])
		if bytes.Compare(a, b) >= 0 { // -0 sorts before +0
			t.Errorf("%v does not sort before %v", specialFloats[i-1], specialFloats[i])
		}
	}
	g := newGen()
	for range 10 * rounds {
		x, y := g.float(), g.float()
		a, b := AppendDouble(nil, x), AppendDouble(nil, y)
		want := cmp.Compare(x, y)
		if x == 0 && y == 0 {
			want = cmp.Compare(math.Copysign(1, x), math.Copysign(1, y))
		}
		if got := bytes.Compare(a, b); got != want {
			t.Fatalf("%v and %v compare %d, want %d", x, y, got, want)
		}
		back, err := ParseDouble(a)
		if err != nil || math.Float64bits(back) != math.Float64bits(x) {
			t.Fatalf("%v comes back as %v, %v", x, back, err)
		}
	}
}

// scoreKey makes keys of the zset_score family that are alike in parts, and now and then malformed.
func (g gen) scoreKey() []byte {
	slots := g.IntN(4) == 0
	nsKey := AppendNSKey(nil, []string{"", "a", "ab", DefaultNamespace}[g.IntN(4)], g.bytes(2), slots)
	key := AppendSubkeyPrefix(nil, nsKey, slots, uint64(g.IntN(3)))
	switch g.IntN(8) {
	case 0:
		key = append(key, g.bytes(12)...) // maybe no score, maybe not a number
	case 1:
		key = AppendDouble(key, math.Float64frombits(0x7ff0000000000000|g.Uint64()))
	default:
		key = AppendDouble(key, g.float())
	}
	key = append(key, g.bytes(3)...)
	if g.IntN(10) == 0 {
		key = key[:g.IntN(len(key)+1)]
	}
	if g.IntN(20) == 0 {
		return g.bytes(30)
	}
	return key
}

// TestCompareZSetScoreIsBytewise: the order may bear the name of RocksDB's bytewise comparator.
func TestCompareZSetScoreIsBytewise(t *testing.T) {
	g := newGen()
	for range 50 * rounds {
		a, b := g.scoreKey(), g.scoreKey()
		if got, want := CompareZSetScore(a, b), bytes.Compare(a, b); got != want {
			t.Fatalf("%x\n%x\ncompare %d, as bytes %d", a, b, got, want)
		}
		if CompareZSetScore(a, a) != 0 {
			t.Fatalf("%x is not equal to itself", a)
		}
	}
}

// TestCompareZSetScoreByScore: among members of one sorted set the order is that of (score, member).
func TestCompareZSetScoreByScore(t *testing.T) {
	g := newGen()
	prefix := AppendSubkeyPrefix(nil, AppendNSKey(nil, "ns", []byte("z"), false), false, 1)
	for range 10 * rounds {
		x, y, m, n := g.float(), g.float(), g.bytes(3), g.bytes(3)
		if x == 0 && y == 0 {
			continue // -0 and +0 are different keys: TestDoubleOrder
		}
		want := cmp.Or(cmp.Compare(x, y), bytes.Compare(m, n))
		a := append(AppendDouble(slices.Clone(prefix), x), m...)
		b := append(AppendDouble(slices.Clone(prefix), y), n...)
		if got := CompareZSetScore(a, b); got != want {
			t.Fatalf("(%v, %x) and (%v, %x) compare %d, want %d", x, m, y, n, got, want)
		}
		score, member, err := SplitScoreSub(a[len(prefix):])
		if err != nil || score != x || !bytes.Equal(member, m) {
			t.Fatalf("(%v, %x) splits into (%v, %x), %v", x, m, score, member, err)
		}
	}
}

// same reports an error unless what was decoded is what was encoded.
func same[T comparable](t *testing.T, got, want T, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Fatalf("%+v comes back as %+v, %v", want, got, err)
	}
}

func TestTypeCodecsRoundTrip(t *testing.T) {
	g := newGen()
	for range rounds {
		head, end := g.u64(), g.u64()
		h, e, err := DecodeListTail(AppendListTail(nil, head, end))
		same(t, [2]uint64{h, e}, [2]uint64{head, end}, err)

		n := g.u64()
		u, err := ParseU64Sub(AppendU64Sub(nil, n))
		same(t, u, n, err)

		off, err := ParseBitmapSub(AppendBitmapSub(nil, n))
		same(t, off, n/BitmapFragment*BitmapFragment, err)

		seg := g.IntN(HLLSegments)
		s, err := ParseHLLSub(AppendHLLSub(nil, seg))
		same(t, s, seg, err)

		bloom := BloomMeta{uint16(n), uint16(n >> 16), uint32(n >> 32), g.float(), uint32(g.u64())}
		bm, err := DecodeBloomMeta(bloom.Append(nil))
		same(t, bm, bloom, err)

		f, err := ParseBloomSub(AppendBloomSub(nil, uint16(n)))
		same(t, f, uint16(n), err)

		doc := g.bytes(20)
		format := JSONFormat(g.IntN(2))
		jf, jd, err := SplitJSONTail(append(AppendJSONTail(nil, format), doc...))
		same(t, jf, format, err)
		same(t, string(jd), string(doc), err)

		meta := StreamMeta{g.id(), g.id(), g.id(), g.id(), g.id(), g.u64(), g.u64()}
		sm, err := DecodeStreamMeta(meta.Append(nil))
		same(t, sm, meta, err)
		old := meta
		old.Groups = 0
		sm, err = DecodeStreamMeta(meta.Append(nil)[:88])
		same(t, sm, old, err)

		group := StreamGroupValue{g.u64(), g.u64(), g.id(), int64(g.u64()), g.u64()}
		sg, err := DecodeStreamGroup(group.Append(nil))
		same(t, sg, group, err)

		consumer := StreamConsumerValue{g.u64(), g.u64(), g.u64()}
		sc, err := DecodeStreamConsumer(consumer.Append(nil))
		same(t, sc, consumer, err)

		pending := StreamPendingValue{g.u64(), g.u64(), g.bytes(20)}
		sp, err := DecodeStreamPending(pending.Append(nil))
		same(t, sp.DeliveryTime, pending.DeliveryTime, err)
		same(t, sp.DeliveryCount, pending.DeliveryCount, err)
		same(t, string(sp.Consumer), string(pending.Consumer), err)
	}
}

func TestStreamSubRoundTrip(t *testing.T) {
	g := newGen()
	for range rounds {
		id, group, consumer := g.id(), g.bytes(10), g.bytes(10)
		entry, lastMs := id, StreamID{Ms: math.MaxUint64, Seq: id.Seq}
		entry.Ms = min(entry.Ms, MaxStreamMs)
		tests := []struct {
			sub  []byte
			want StreamSub
		}{
			{AppendStreamEntrySub(nil, entry), StreamSub{Kind: StreamEntry, ID: entry}},
			{AppendStreamGroupSub(nil, StreamGroup, group), StreamSub{Kind: StreamGroup, Group: group}},
			{AppendStreamConsumerSub(nil, group, consumer), StreamSub{Kind: StreamConsumer, Group: group, Consumer: consumer}},
			{AppendStreamPendingSub(nil, group, id), StreamSub{Kind: StreamPending, Group: group, ID: id}},
			{AppendStreamProducerSub(nil, StreamProducer, group), StreamSub{Kind: StreamProducer, Producer: group}},
			{AppendStreamIIDSub(nil, group, consumer), StreamSub{Kind: StreamIID, Producer: group, IID: consumer}},
			{AppendStreamQueuedSub(nil, group, id.Seq), StreamSub{Kind: StreamQueued, Producer: group, Place: id.Seq}},
			{AppendStreamKindSub(nil, StreamIdempotence), StreamSub{Kind: StreamIdempotence}},
			{AppendStreamEntrySub(nil, lastMs), StreamSub{Kind: StreamEntry, ID: lastMs}},
		}
		for i, tt := range tests {
			s, err := ParseStreamSub(tt.sub)
			if err != nil || s.Kind != tt.want.Kind || s.ID != tt.want.ID || !bytes.Equal(s.Group, tt.want.Group) ||
				!bytes.Equal(s.Consumer, tt.want.Consumer) || !bytes.Equal(s.Producer, tt.want.Producer) ||
				!bytes.Equal(s.IID, tt.want.IID) || s.Place != tt.want.Place {
				t.Fatalf("%x parses to %+v, %v, want %+v", tt.sub, s, err, tt.want)
			}
			for n := range tt.sub {
				if i == 0 && n < 16 || i > 0 {
					if s, err := ParseStreamSub(tt.sub[:n]); err == nil {
						t.Fatalf("the first %d bytes of %x parse to %+v", n, tt.sub, s)
					}
				}
			}
			if i > 0 && bytes.Compare(tests[0].sub, tt.sub) >= 0 {
				t.Fatalf("entry %x does not sort before %x", tests[0].sub, tt.sub)
			}
		}
		other := g.id()
		if got, want := id.Compare(other), bytes.Compare(id.Append(nil), other.Append(nil)); got != want ||
			id.Compare(id) != 0 {
			t.Fatalf("%v and %v compare %d, as bytes %d", id, other, got, want)
		}
	}
}

func TestStreamEntryRoundTrip(t *testing.T) {
	g := newGen()
	for range rounds {
		var fields [][]byte
		var enc []byte
		for range g.IntN(6) {
			f := g.bytes(300)
			fields = append(fields, f)
			enc = AppendStreamString(enc, f)
		}
		got, err := DecodeStreamEntry(nil, enc)
		if err != nil || !slices.EqualFunc(got, fields, bytes.Equal) {
			t.Fatalf("%x decodes to %x, %v", enc, got, err)
		}
	}
}

func TestSearchRoundTrip(t *testing.T) {
	g := newGen()
	for range rounds {
		ns, index, field, user, to := g.namespace(), g.bytes(10), g.bytes(10), g.bytes(10), g.bytes(10)
		for kind := SearchIndexMeta; kind <= SearchFieldData; kind++ {
			key := AppendSearchPrefix(nil, ns, kind, index)
			if kind >= SearchFieldMeta {
				key = AppendSearchField(nil, ns, kind, index, field)
			}
			var data []byte
			if kind == SearchFieldData {
				data = AppendSearchTag(nil, to, user)
				key = append(key, data...)
			}
			k, err := ParseSearchKey(key)
			if err != nil || string(k.Namespace) != ns || k.Kind != kind || !bytes.Equal(k.Index, index) ||
				kind >= SearchFieldMeta && !bytes.Equal(k.Field, field) || !bytes.Equal(k.Data, data) {
				t.Fatalf("%x parses to %+v, %v", key, k, err)
			}
		}
		tag, u, err := ParseSearchTag(AppendSearchTag(nil, to, user))
		same(t, [2]string{string(tag), string(u)}, [2]string{string(to), string(user)}, err)
		x := g.float()
		f, u, err := ParseSearchNumeric(AppendSearchNumeric(nil, x, user))
		same(t, f, x, err)
		same(t, string(u), string(user), err)
		level := uint16(g.u64())
		gr, err := ParseSearchGraph(AppendSearchNode(nil, level, user))
		if err != nil || gr.Level != level || gr.Edge || !bytes.Equal(gr.From, user) || gr.To != nil {
			t.Fatalf("node: %+v, %v", gr, err)
		}
		gr, err = ParseSearchGraph(AppendSearchEdge(nil, level, user, to))
		if err != nil || gr.Level != level || !gr.Edge || !bytes.Equal(gr.From, user) || !bytes.Equal(gr.To, to) {
			t.Fatalf("edge: %+v, %v", gr, err)
		}

		on := []Type{TypeHash, TypeJSON}[g.IntN(2)]
		gotOn, err := DecodeSearchIndex(AppendSearchIndex(nil, on))
		same(t, gotOn, on, err)
		prefixes := [][]byte{user, to, index}[:g.IntN(4)]
		gotPrefixes, err := DecodeSearchPrefixes(nil, AppendSearchPrefixes(nil, prefixes))
		if err != nil || !slices.EqualFunc(gotPrefixes, prefixes, bytes.Equal) {
			t.Fatalf("prefixes %x, %v", gotPrefixes, err)
		}
		for _, want := range []SearchField{
			{Type: SearchTag, NoIndex: g.IntN(2) == 0, Separator: byte(level), CaseSensitive: g.IntN(2) == 0},
			{Type: SearchNumeric, NoIndex: g.IntN(2) == 0},
			{Type: SearchVector, Vector: SearchVectorParams{1, level, 2, uint32(g.u64()), uint16(g.u64()),
				uint32(g.u64()), uint32(g.u64()), x, 3}},
		} {
			got, err := DecodeSearchField(want.Append(nil))
			same(t, got, want, err)
		}
		vector := []float64{x, g.float(), g.float()}[:g.IntN(4)]
		n, v, err := DecodeSearchNodeValue(nil, AppendSearchNodeValue(nil, level, vector))
		if err != nil || n != level || !slices.Equal(v, vector) {
			t.Fatalf("node value %d %v, %v", n, v, err)
		}
	}
}
