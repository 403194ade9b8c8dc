package migrate

import (
	"strconv"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// A key that changes all the time while a copy of it is under way is copied once more, not once for each group of
// changes that comes.
func TestHotKey(t *testing.T) {
	for name, start := range map[string]func(*testing.T) string{
		"redis":  func(t *testing.T) string { return startRedis(t) },
		"basalt": func(t *testing.T) string { return servertest.Start(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			from, to := start(t), servertest.Start(t).Addr()
			source, target := dialTest(t, from), dialTest(t, to)
			c := &copier{from: connectTest(t, from), to: connectTest(t, to),
				databases: func(db int) (int, bool) { return db, true }}
			run := &copyRun{copier: c}
			run.start(t.Context())
			defer run.stop()
			offset := func() int64 {
				t.Helper()
				n, err := c.from.offset()
				require.NoError(t, err)
				return n
			}
			caughtUp := func() {
				t.Helper()
				want := offset()
				servertest.Eventually(t, "the copy catches up", func() bool {
					s, err := run.status()
					return err == nil && s.streaming && s.offset >= want
				})
			}
			caughtUp()
			source.do("SET", "first", "v") // a new Redis has counted nothing so far
			caughtUp()
			before := c.copied.Load()
			target.do("CLIENT", "PAUSE", "600000", "WRITE")
			source.do("RPUSH", "hot", "first")
			servertest.Eventually(t, "a copy begins", func() bool { return c.copied.Load() > before })
			const n = 5000 // several groups
			waits := make([]func() error, 0, n)
			for i := range n {
				wait := source.start([]string{"RPUSH", "hot", strconv.Itoa(i)})
				waits = append(waits, func() error { _, err := wait(); return err })
			}
			for _, wait := range waits {
				require.NoError(t, wait())
			}
			want := offset()
			servertest.Eventually(t, "the changes are read", func() bool { return c.rounds.Load().taken.Load() >= want })
			if got := c.applied(); got >= want {
				t.Errorf("%d are applied, of %d, before the target has them", got, want)
			}
			target.do("CLIENT", "UNPAUSE")
			caughtUp()
			if got := c.copied.Load() - before; got != 2 {
				t.Errorf("%d copies of the key", got)
			}
			if got := target.do("LLEN", "hot").Int; got != n+1 {
				t.Errorf("the copy has %d elements", got)
			}
		})
	}
}
