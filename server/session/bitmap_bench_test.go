package session_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config/memplan"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// pieces is the number of fragments of a bitmap of 512 MiB, and the number of strings of 1 KiB for comparison.
const pieces = 1 << 19

// BenchmarkBits compares SETBIT and GETBIT at random offsets of one bitmap of 512 MiB with SET and GET of random keys
// of 512 MiB of strings of 1 KiB. The two kinds of commands take turns, so that other load on the host affects both.
// ns/bit and ns/string are the CPU time of the whole process for one command, flushes and compactions included; ratio
// is ns/bit divided by ns/string. About half of the SETBITs change nothing; the others cost one read more than a SET.
func BenchmarkBits(b *testing.B) {
	// The caches of a server that has 24 GB of memory.
	cfg := servertest.Config(b)
	mem := memplan.New(memplan.Memory{Bytes: 24 << 30},
		memplan.Settings{Buffers: int(cfg.Int("rocksdb.max_write_buffer_number"))})
	o := options.Engine(cfg, mem, nil)
	o.Dir = b.TempDir()
	db := enginetest.OpenWith(b, o)
	fillPieces(b, db)
	s := server.New(cfg, db, nil)
	text := strings.Repeat("v", cf.BitmapFragment)
	warm(b, s)
	name := func(n uint64) string { return fmt.Sprintf("key:%012d", n) }
	offset := func(n uint64) string { return strconv.FormatUint(n*8192+rand.Uint64N(8192), 10) }
	for _, p := range []struct {
		name          string
		strings, bits func(n uint64) string
	}{
		{"read", func(n uint64) string { return servertest.Encode("GET", name(n)) },
			func(n uint64) string { return servertest.Encode("GETBIT", "bm", offset(n)) }},
		{"write", func(n uint64) string { return servertest.Encode("SET", name(n), text) },
			func(n uint64) string { return servertest.Encode("SETBIT", "bm", offset(n), strconv.Itoa(rand.IntN(2))) }},
	} {
		for _, clients := range []int{1, 50} {
			for _, depth := range []int{1, 16} {
				b.Run(fmt.Sprintf("%s/clients=%d/P=%d", p.name, clients, depth), func(b *testing.B) {
					conns := make([]*session.Loop, clients)
					for i := range conns {
						conns[i] = sunk(b, s, int64(i+1))
					}
					const turns = 6
					var took [2]time.Duration
					per := b.N/turns/clients/depth + 1 // number of pipelines of a client in a turn
					for turn := range turns * 2 {
						f := []func(uint64) string{p.strings, p.bits}[turn%2]
						took[turn%2] += allAtOnce(conns, per, depth, f)
					}
					n := float64(turns * per * depth * clients)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(took[0].Nanoseconds())/n, "ns/string")
					b.ReportMetric(float64(took[1].Nanoseconds())/n, "ns/bit")
					b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
				})
			}
		}
	}
}

// allAtOnce lets every client run pipelines of a command with random fragments or keys, and returns the CPU time that
// they took.
func allAtOnce(conns []*session.Loop, pipelines, depth int, command func(n uint64) string) time.Duration {
	var wg sync.WaitGroup
	begin := enginetest.ProcessCPU()
	for _, c := range conns {
		wg.Go(func() {
			for range pipelines {
				var b strings.Builder
				for range depth {
					b.WriteString(command(rand.Uint64N(pieces)))
				}
				c.Feed(b.String())
			}
		})
	}
	wg.Wait()
	return enginetest.ProcessCPU() - begin
}

// warm reads so many bits that the record cache has grown to the size that the bitmap needs.
func warm(b *testing.B, s *server.Server) {
	c := sunk(b, s, 1<<20)
	for range 6 * pieces / 64 {
		var p strings.Builder
		for range 64 {
			p.WriteString(servertest.Encode("GETBIT", "bm", strconv.FormatUint(rand.Uint64N(pieces*8192), 10)))
		}
		c.Feed(p.String())
	}
}

// sunk returns a connection without a client, whose replies are discarded.
func sunk(b *testing.B, s *server.Server, id int64) *session.Loop {
	here, there := wiretest.SocketPair(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(io.Discard, there)
	}()
	b.Cleanup(func() { here.Close(); <-done })
	return session.NewLoop(s.Sessions(), here, id)
}

// fillPieces makes the bitmap bm and the strings, all of random bytes.
func fillPieces(b *testing.B, db *engine.DB) {
	b.Helper()
	bm, chunk := []byte("bm"), make([]byte, cf.BitmapFragment)
	src := rand.NewChaCha8([32]byte{})
	for from := 0; from < pieces; from += 1024 {
		require.NoError(b, db.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
			rec, err := tx.Load(bm, cf.TypeBitmap)
			if err != nil {
				return err
			}
			for i := from; i < from+1024; i++ {
				src.Read(chunk)
				tx.Put(cf.Default, tx.Subkey(&rec, cf.AppendBitmapSub(nil, uint64(i)*cf.BitmapFragment)), chunk)
				if _, err := str.Set(tx, fmt.Appendf(nil, "key:%012d", i), chunk, str.SetOptions{}); err != nil {
					return err
				}
			}
			rec.Size = pieces * cf.BitmapFragment
			tx.Save(&rec, nil)
			return nil
		}))
	}
}
