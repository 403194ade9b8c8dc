package rdb

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb/internal/raw"
)

// moduleType is how a module type of nine characters is named.
func moduleType(name string, version uint64) string {
	return string(raw.AppendLength(nil, raw.ModuleID(name, version)))
}

func double(f float64) string { return "\x04" + le64(math.Float64bits(f)) }

// tdigestValue is a t-digest of two centroids as RedisBloom writes it.
var tdigestValue = "\x07" + str("t") + moduleType("TDIS-TYPE", 0) + double(100) + double(1) + double(9) +
	"\x01\x40\x64\x01\x02\x01\x00\x01\x03" + double(3) + double(0) + double(2) + double(8) + double(1) + double(2) +
	"\x00"

// jsonValue is a JSON document as RedisJSON 2 writes it.
var jsonValue = "\x07" + str("j") + moduleType("ReJSON-RL", 3) + "\x05" + str(`{"a":1}`) + "\x00"

// cuckooValue is a cuckoo filter of two filters, of one and two buckets, as RedisBloom writes it.
var cuckooValue = "\x07" + str("c") + moduleType("MBbloomCF", 4) + "\x02\x02\x02\x01\x02\x03\x02\x01\x02\x02\x02\x14" +
	"\x02\x02" + "\x02\x01\x05" + str("\x09\x08") + "\x02\x02\x05" + str("\x00\x00\x07\x00") + "\x00"

// TestModules reads values of modules, and passes over those that are not known.
func TestModules(t *testing.T) {
	file := rdbFile(12, "\xf7"+moduleType("ft_index0", 2)+"\x02\x02\x05"+str("index")+"\x01\x07\x00",
		jsonValue, tdigestValue, cuckooValue, "\x07"+str("c3")+moduleType("MBbloomCF", 3)+"\x02\x01\x00",
		"\x07"+str("b")+moduleType("MBbloom--", 4)+"\x02\x01\x05"+str("bits")+"\x00",
		"\x07"+str("o")+moduleType("graphdata", 9)+double(1)+"\x03abcd\x01\x05\x00", "\x00"+str("s")+str("v"))
	f, err := NewFile(strings.NewReader(file), int64(len(file)), 1<<20)
	require.NoError(t, err)
	f.SkipModules()
	var got []string
	err = f.Each(1<<20, func(i *Item) error {
		line := fmt.Sprintf("%s %s", i.Key, i.Skipped)
		if i.Value != nil {
			line = fmt.Sprintf("%s %s %s", i.Key, i.Value.Kind, i.Value.String)
			if d := i.Value.TDigest; d != nil {
				line += fmt.Sprint(d.Compression, d.Min, d.Max, d.Means, d.Weights)
			}
			if c := i.Value.Cuckoo; c != nil {
				line += fmt.Sprintf("%+v", *c)
			}
		}
		got = append(got, line)
		return nil
	})
	want := []string{" data of the module ft_index0 that belong to no key", `j ReJSON-RL {"a":1}`,
		"t TDIS-TYPE 100 1 9 [2 8] [1 2]",
		"c MBbloomCF {Items:3 Deleted:1 BucketSize:2 MaxIterations:20 Expansion:2 Filters:[[9 8] [0 0 7 0]]}",
		"c3 a value of the module type MBbloomCF, encoding 3",
		"b a bloom filter of RedisBloom: its bits are of another hash function than those of a filter here",
		"o a value of the module type graphdata, encoding 9", "s string v"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestValkeyMore(t *testing.T) {
	items := "\x16" + str("h") + "\x03" + str("a") + str("1") + le64(1000) + str("b") + str("2") + le64(math.MaxUint64) +
		str("c") + str("3") + le64(0) + "\xff"
	head := "VALKEY080"
	got, err := readFile(strings.NewReader(head+items+le64(0)), -1, 1<<20)
	if want := "0 \"h\" hash \"a\"=\"1\"@1000 \"b\"=\"2\"@0 \"c\"=\"3\"@1\n"; got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, file := range []string{"VALKEY081\xff", "VALKEY079\xff", "VALKEY0800", head + "\x17", head + "\xf3"} {
		if _, err := readFile(strings.NewReader(file+le64(0)), -1, 1<<20); err == nil {
			t.Errorf("%q is read", file)
		}
	}
}

// TestParts reads large values in parts, in all of which together there is what the whole value has.
func TestParts(t *testing.T) {
	const n = 5000
	list, set, zset, hash, expiring := "\x01"+str("l"), "\x02"+str("s"), "\x05"+str("z"), "\x04"+str("h"), "\x18"+str("e")
	for _, s := range []*string{&list, &set, &zset, &hash} {
		*s += string(raw.AppendLength(nil, n))
	}
	expiring += le64(1000) + string(raw.AppendLength(nil, n))
	quick := "\x12" + str("q") + string(raw.AppendLength(nil, n))
	w := NewStreamWriter(nil)
	for i := range n {
		e := str(fmt.Sprintf("element-%d", i))
		list, set = list+e, set+e
		zset += e + le64(math.Float64bits(float64(i)))
		hash += e + e
		expiring += "\x02" + e + e
		quick += "\x02" + str(listpack(fmt.Sprintf("element-%d", i)))
		w.Add(id(uint64(i+1)), [][]byte{[]byte("f"), []byte("v")})
	}
	b, _ := w.End(&StreamValue{Last: id(n + 1), EntriesAdded: n})
	file := rdbFile(12, list, set, zset, hash, expiring, quick, string(b[:1])+str("x")+string(b[1:]), "\x00"+str("end")+
		str("v"))
	f, err := NewFile(strings.NewReader(file), int64(len(file)), 1<<20)
	require.NoError(t, err)
	counts, parts, last := map[string]int{}, map[string]int{}, ""
	var latest Item
	err = f.Each(16<<10, func(i *Item) error {
		if i.Part != parts[string(i.Key)] || i.Part > 0 && (string(latest.Key) != string(i.Key) || !latest.More) {
			t.Errorf("%s: part %d after %d of %s", i.Key, i.Part, latest.Part, latest.Key)
		}
		latest = *i
		parts[string(i.Key)]++
		v := i.Value
		switch {
		case v.Stream != nil:
			counts[string(i.Key)] += len(v.Stream.Entries)
			if !i.More && v.Stream.Last != id(n+1) {
				t.Error("the last part has no last id")
			}
		case v.Kind == Hash:
			counts[string(i.Key)] += len(v.Elems) / 2
			if i.Key[0] == 'e' && len(v.Expires) != len(v.Elems)/2 {
				t.Error("expiries are missing")
			}
		default:
			counts[string(i.Key)] += len(v.Elems)
			if v.Kind == ZSet && len(v.Scores) != len(v.Elems) {
				t.Error("scores are missing")
			}
		}
		last = string(v.String)
		return nil
	})
	if err != nil || last != "v" {
		t.Fatal(last, err)
	}
	for key, got := range counts {
		if key != "end" && (got != n || parts[key] < 3) {
			t.Errorf("%s: %d elements in %d parts", key, got, parts[key])
		}
	}
	stop := errors.New("stop")
	f, _ = NewFile(strings.NewReader(file), int64(len(file)), 1<<20)
	if err := f.Each(16<<10, func(*Item) error { return stop }); err != stop {
		t.Error(err)
	}
}

// TestPreamble reads a file that begins an append-only file.
func TestPreamble(t *testing.T) {
	file := rdbFile(11, "\x00"+str("a")+str("v")) + "*1\r\n$4\r\nPING\r\n"
	f, err := NewFile(strings.NewReader(file), int64(len(file)), 1<<20)
	require.NoError(t, err)
	f.Preamble()
	require.NoError(t, f.Each(1<<20, func(*Item) error { return nil }))
	if rest, err := io.ReadAll(f.Rest()); string(rest) != "*1\r\n$4\r\nPING\r\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestAppendValue writes values and reads them again.
func TestAppendValue(t *testing.T) {
	elems := func(s ...string) (b [][]byte) {
		for _, s := range s {
			b = append(b, []byte(s))
		}
		return b
	}
	for _, v := range []*Value{
		{Kind: String, String: []byte("v")},
		{Kind: List, Elems: elems("a", "12", "a")},
		{Kind: Set, Elems: elems("a", "12")},
		{Kind: ZSet, Elems: elems("a", "12"), Scores: []float64{1, math.Inf(1)}},
		{Kind: Hash, Elems: elems("a", "1", "b", "2")},
		{Kind: Hash, Elems: elems("a", "1", "b", "2"), Expires: []uint64{0, 1000}},
		{Kind: JSON, String: []byte(`{"a":[1]}`)},
		{Kind: TDigest, TDigest: &TDigestValue{Compression: 100, Min: 1, Max: 9, Means: []float64{1, 9},
			Weights: []float64{2, 3}}},
		{Kind: TDigest, TDigest: &TDigestValue{Compression: 50}},
		{Kind: Cuckoo, Cuckoo: &CuckooValue{Items: 3, Deleted: 1 << 40, BucketSize: 2, MaxIterations: 500, Expansion: 4,
			Filters: elems("\x01\x02", "\x00\x00\x03\x00\x00\x00\xff\x00")}},
		{Kind: Stream, Stream: &StreamValue{Entries: []StreamEntry{{ID: id(5), Fields: elems("f", "v")}}, Last: id(7),
			EntriesAdded: 3, MaxDeleted: id(4)}},
	} {
		b, _ := AppendValue(nil, v)
		got, err := Decode(b, 1<<20)
		if err != nil {
			t.Errorf("%s: %v", v.Kind, err)
			continue
		}
		if again, _ := AppendValue(nil, got); string(again) != string(b) || got.Kind != v.Kind {
			t.Errorf("%s: %q became %q", v.Kind, b, again)
		}
	}
}

func id(ms uint64) cf.StreamID { return cf.StreamID{Ms: ms} }
