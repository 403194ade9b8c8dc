//go:build amd64 || arm64

package rocks

import (
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// TestCRC32C compares our crc32c, which RocksDB uses in place of its own, with Go's.
func TestCRC32C(t *testing.T) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	// RFC 3720, B.4
	if got := crc32c(0, make([]byte, 32), false); got != 0x8a9136aa {
		t.Errorf("the sum of 32 zeros is %08x", got)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 70000)
	for i := range buf {
		buf[i] = byte(rng.Uint32())
	}
	for i := range 2000 {
		from, n := rng.IntN(64), i
		if i >= 200 {
			n = rng.IntN(len(buf) - from)
		}
		b := buf[from : from+n]
		cut := rng.IntN(n + 1)
		want := crc32.Checksum(b, castagnoli)
		for _, table := range []bool{false, true} {
			if got := crc32c(0, b, table); got != want {
				t.Fatalf("%d bytes (table %v): %08x, want %08x", n, table, got, want)
			}
			if got := crc32c(crc32c(0, b[:cut], table), b[cut:], table); got != want {
				t.Fatalf("%d bytes after %d (table %v): %08x, want %08x", n-cut, cut, table, got, want)
			}
		}
		if got := crc32cCombine(crc32c(0, b[:cut], false), crc32c(0, b[cut:], false), n-cut); got != want {
			t.Fatalf("combined of %d and %d bytes: %08x, want %08x", cut, n-cut, got, want)
		}
	}
}

// TestCRC32COfRocksDBIsLeftOut looks into RocksDB's LOG, where it says what its crc32c can do.
func TestCRC32COfRocksDBIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, []string{"default"}, memtableOptions(false))
	require.NoError(t, err)
	require.NoError(t, d.Close(true))
	log := require.File(t, dir+"/LOG")
	if !strings.Contains(string(log), "by basalt") {
		t.Error("RocksDB does not use our crc32c")
	}
}
