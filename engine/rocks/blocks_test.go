package rocks

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// tableNumber reads a number from the properties of the table files of a family.
func tableNumber(t *testing.T, d *DB, f *Family, name string) int {
	t.Helper()
	text := d.FamilyProperty(f, "rocksdb.aggregated-table-properties")
	m := regexp.MustCompile(regexp.QuoteMeta(name) + `=(\d+);`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %q in %q", name, text)
	}
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// blocksDB opens a database of two families with what change makes of the options, until the end of the test.
func blocksDB(t *testing.T, change func(o *Options)) *DB {
	t.Helper()
	o := &Options{
		Families:       []FamilySpec{{Name: "default", Kind: Subkeys}, {Name: "metadata", Kind: Meta}},
		BlockCacheSize: 8 << 20, WriteBufferSize: 64 << 20, MaxWriteBufferNumber: 4, TargetFileSizeBase: 64 << 20,
		MaxOpenFiles: -1, MaxBackgroundCompactions: -1, MaxBackgroundFlushes: -1, MaxBackgroundJobs: 2,
		Compression: "no", CompressionLevel: 32767,
		Level0SlowdownWritesTrigger: 20, Level0StopWritesTrigger: 40, Level0FileNumCompactionTrigger: 4,
		MaxBytesForLevelBase: 256 << 20, MaxBytesForLevelMultiplier: 10, RateLimitBytes: 1 << 40,
	}
	change(o)
	d, err := Open(t.TempDir()+"/db", []string{"default", "metadata"}, o)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close(false) })
	return d
}

// TestBlockSizes counts the blocks of 512 records of 1,000 bytes.
func TestBlockSizes(t *testing.T) {
	const records = 512
	for _, c := range []struct {
		size           int
		meta, elements int // records in a block, about
	}{
		{0, 4, 16},
		{8 << 10, 8, 8},
	} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			d := blocksDB(t, func(o *Options) { o.BlockSize = c.size })
			for id, each := range map[cf.ID]int{cf.Metadata: c.meta, cf.Default: c.elements} {
				for i := range records {
					put(t, d, id, fmt.Appendf(nil, "%08d", i), bytes.Repeat([]byte{byte(i)}, 1000))
				}
				f := d.Family(int(id))
				require.NoError(t, d.Flush(f))
				if n := tableNumber(t, d, f, "# data blocks"); n < records/each || n > records/each*5/4 {
					t.Errorf("%s: %d blocks of %d records, not of %d", f.Name, n, records/n, each)
				}
			}
		})
	}
}

// TestDictionaries compresses records that are alike with each other and not within themselves.
func TestDictionaries(t *testing.T) {
	noise := rand.NewChaCha8([32]byte{})
	shared := make([]byte, 1000)
	noise.Read(shared)
	sizes := map[int]int{}
	for _, dict := range []int{0, 16 << 10} {
		d := blocksDB(t, func(o *Options) {
			o.BlockSize = 512 // a record each
			o.Compression = "zstd"
			o.CompressionMaxDictBytes, o.CompressionZstdMaxTrainBytes = dict, 100*dict
		})
		f := d.Family(int(cf.Metadata))
		for i := range 1024 {
			put(t, d, cf.Metadata, fmt.Appendf(nil, "%08d", i), shared)
		}
		require.NoError(t, d.Flush(f))
		sizes[dict] = tableNumber(t, d, f, "data block size")
		for i := range 1024 {
			v, found, err := d.Get(f, fmt.Appendf(nil, "%08d", i), nil)
			if err != nil || !found || !bytes.Equal(v, shared) {
				t.Fatalf("record %d: %d bytes, %v, %v", i, len(v), found, err)
			}
		}
	}
	if sizes[16<<10]*2 > sizes[0] {
		t.Errorf("bytes by size of the dictionary: %d", sizes)
	}
}
