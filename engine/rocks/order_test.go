package rocks

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// orderGen makes keys of the zset_score family that have much in common, and mutates them into keys that are
// malformed, cut off or hold scores that are not numbers.
type orderGen struct{ *rand.Rand }

var orderScores = []float64{math.Inf(-1), -math.MaxFloat64, -1.5, -1, -math.SmallestNonzeroFloat64,
	math.Copysign(0, -1), 0,
	math.SmallestNonzeroFloat64, 1, math.Nextafter(1, 2), 1.5, 256, math.MaxFloat64, math.Inf(1), math.NaN()}

func (g orderGen) bytes(n int) []byte {
	b := make([]byte, g.IntN(n+1))
	for i := range b {
		b[i] = []byte{0, 1, 0x7f, 0x80, 0xfe, 0xff, 'a', 'b'}[g.IntN(8)]
	}
	return b
}

func (g orderGen) score() float64 {
	if g.IntN(2) == 0 {
		return orderScores[g.IntN(len(orderScores))]
	}
	return math.Float64frombits(g.Uint64())
}

func (g orderGen) key() []byte {
	slots := g.IntN(3) == 0
	nsKey := cf.AppendNSKey(nil, []string{"", "n", "n1", cf.DefaultNamespace}[g.IntN(4)], g.bytes(2), slots)
	key := cf.AppendSubkeyPrefix(nil, nsKey, slots, []uint64{1, 2, 255, 256, math.MaxUint64}[g.IntN(5)])
	return append(cf.AppendDouble(key, g.score()), g.bytes(4)...)
}

func (g orderGen) mutate(key []byte) []byte {
	key = slices.Clone(key)
	for range g.IntN(3) {
		switch at := g.IntN(len(key) + 1); g.IntN(4) {
		case 0:
			key = key[:at]
		case 1:
			key = slices.Insert(key, at, byte(g.Uint32()))
		case 2:
			key = append(key, g.bytes(3)...)
		default:
			if at < len(key) {
				key[at] += byte(g.IntN(3)) - 1
			}
		}
	}
	return key
}

// TestNativeOrderIsTheGoOrder: the comparator that RocksDB uses for zset_score orders keys as the definition in
// package cf does, and as bytes, whose comparator's name it bears.
func TestNativeOrderIsTheGoOrder(t *testing.T) {
	g := orderGen{rand.New(rand.NewPCG(8, 9))}
	signs := map[int]int{}
	for range 200_000 {
		a := g.key()
		b := g.key()
		if g.IntN(2) == 0 {
			b = g.mutate(a)
		}
		if g.IntN(4) == 0 {
			a = g.mutate(a)
		}
		want := cf.CompareZSetScore(a, b)
		signs[want]++
		if got := cmp.Compare(CompareZSetScore(a, b), 0); got != want || bytes.Compare(a, b) != want {
			t.Fatalf("%x\n%x\ncompare %d natively, %d in Go, %d as bytes", a, b, got, want, bytes.Compare(a, b))
		}
		if got := cmp.Compare(CompareZSetScore(b, a), 0); got != -want {
			t.Fatalf("%x\n%x\ncompare %d natively, %d the other way round", a, b, want, got)
		}
	}
	for _, sign := range []int{-1, 0, 1} {
		if signs[sign] < 1000 {
			t.Errorf("only %d of the pairs compare %d", signs[sign], sign)
		}
	}
}

// scoreDB opens a database with one family of zset_score keys, in small blocks, so that an index holds many
// separators.
func scoreDB(t testing.TB, dir string, native bool) *DB {
	t.Helper()
	d, err := Open(dir, []string{"default", "zset_score"}, &Options{
		Families: []FamilySpec{{Name: "default", Kind: Subkeys}, {Name: "zset_score", Kind: Subkeys, ScoreOrder: native}},
		// The smallest blocks that RocksDB makes.
		BlockSize: 64, BlockCacheSize: 8 << 20, WriteBufferSize: 64 << 20, MaxWriteBufferNumber: 4,
		TargetFileSizeBase: 1 << 20, MaxOpenFiles: -1, MaxBackgroundCompactions: -1, MaxBackgroundFlushes: -1,
		MaxBackgroundJobs: 2, Compression: "no", CompressionLevel: 32767, Level0SlowdownWritesTrigger: 20,
		Level0StopWritesTrigger: 40, Level0FileNumCompactionTrigger: 4, MaxBytesForLevelBase: 256 << 20,
		MaxBytesForLevelMultiplier: 10, RateLimitBytes: 1 << 40,
	})
	require.NoError(t, err)
	return d
}

// TestSeeksInFilesOfEitherComparator writes files with the native order and with RocksDB's own, whose indexes
// hold the separators and successors that each makes, and opens them with both. Every seek, from keys that are
// there and from mutated ones, must find what a sorted list does.
func TestSeeksInFilesOfEitherComparator(t *testing.T) {
	g := orderGen{rand.New(rand.NewPCG(10, 11))}
	for _, wrote := range []bool{true, false} {
		dir := t.TempDir() + "/db"
		before := LiveObjects()
		d := scoreDB(t, dir, wrote)
		seen := map[string]bool{}
		var keys [][]byte
		for range 3 { // several files and then a compaction
			for range 2000 {
				k := g.key()
				if g.IntN(10) == 0 {
					k = append(g.mutate(k), 'x')
				}
				if !seen[string(k)] {
					seen[string(k)] = true
					keys = append(keys, k)
				}
				put(t, d, 1, k, []byte("v"))
			}
			require.NoError(t, d.Flush(d.Family(1)))
		}
		slices.SortFunc(keys, cf.CompareZSetScore)
		for i, read := range []bool{wrote, !wrote, wrote} {
			if i > 0 {
				d = scoreDB(t, dir, read)
			}
			for range 3000 {
				target := keys[g.IntN(len(keys))]
				if g.IntN(3) > 0 {
					target = g.mutate(target)
				}
				at, _ := slices.BinarySearchFunc(keys, target, cf.CompareZSetScore)
				checkSeek(t, d, &Range{Lower: target, Limit: 2}, keys[at:])
				below := slices.Clone(keys[max(0, at-2):at])
				slices.Reverse(below)
				checkSeek(t, d, &Range{Upper: target, Flags: Reverse, Limit: 2}, below)
			}
			if i == 1 { // the other comparator's files, and both mixed
				require.NoError(t, d.CompactRange(d.Family(1), nil, nil))
			}
			d.Close(false)
		}
		if n := LiveObjects(); n != before {
			t.Errorf("%d native objects were left open", n-before)
		}
	}
}

func checkSeek(t *testing.T, d *DB, r *Range, want [][]byte) {
	t.Helper()
	if len(r.Upper) == 0 && r.Flags&Reverse != 0 || len(r.Lower) == 0 && r.Flags&Reverse == 0 {
		return // an empty bound is none
	}
	it := d.NewIter(d.Family(1), r, nil)
	defer it.Close()
	for i := range 2 {
		ok := it.Next()
		if ok != (i < len(want)) || ok && !bytes.Equal(it.Key(), want[i]) {
			t.Fatalf("%+v: entry %d is %x (%v), want %x", r, i, it.Key(), ok, want[:min(2, len(want))])
		}
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
}
