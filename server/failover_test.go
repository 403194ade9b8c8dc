package server

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestFailover: while clients write, a master and its replica change places, and back; every write that was confirmed
// is on both, and no full synchronisation was needed.
func TestFailover(t *testing.T) {
	for _, rsid := range []string{"no", "yes"} {
		t.Run("rsid="+rsid, func(t *testing.T) {
			settings := []string{"requirepass", "secret", "masterauth", "secret", "use-rsid-psync", rsid}
			a := startWith(t, quiet(), settings...)
			b := startWith(t, quiet(), settings...)
			ca, cb := a.dial(t), b.dial(t)
			ca.want("AUTH secret", "+OK\r\n")
			cb.want("AUTH secret", "+OK\r\n")
			ca.want("FAILOVER", "-ERR FAILOVER requires connected replicas.\r\n")
			cb.want(b.replicaOf(a), "+OK\r\n")
			caughtUp(t, b, a)
			syncs := b.master.Stats().SyncFull + a.master.Stats().SyncFull
			for _, tt := range []struct{ command, want string }{
				{"FAILOVER ABORT", "-ERR No failover in progress.\r\n"},
				{"FAILOVER TO 127.0.0.1 1 TIMEOUT 10", "-ERR FAILOVER target HOST and PORT is not a replica.\r\n"},
				{"FAILOVER FORCE", "-ERR FAILOVER with force option requires both a timeout and target HOST and IP.\r\n"},
				{"FAILOVER TIMEOUT 0", "-ERR FAILOVER timeout must be greater than 0\r\n"},
				{"FAILOVER ABORT TIMEOUT 1", "-ERR syntax error\r\n"},
			} {
				ca.want(tt.command, tt.want)
			}
			cb.want("FAILOVER", "-ERR FAILOVER is not valid when server is a replica.\r\n")

			confirmed := map[string]string{}
			for round, from := range []*harness{a, b} {
				to, admin := b, ca
				if from == b {
					to, admin = a, cb
				}
				var mu sync.Mutex
				var writers sync.WaitGroup
				for w := range 4 {
					c := from.dial(t)
					c.want("AUTH secret", "+OK\r\n")
					writers.Go(func() {
						for i := 0; ; i++ {
							k, v := fmt.Sprintf("%d:%d:%d", round, w, i), strconv.Itoa(i)
							if reply := c.do("SET", k, v); reply != "+OK\r\n" {
								if !strings.HasPrefix(reply, "-READONLY") {
									t.Errorf("%q", reply)
								}
								return
							}
							mu.Lock()
							confirmed[k] = v
							mu.Unlock()
						}
					})
				}
				eventually(t, "something is written", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(confirmed) > 100*(round+1)
				})
				admin.want("FAILOVER", "+OK\r\n")
				writers.Wait()
				eventually(t, "the failover has ended", func() bool {
					return strings.Contains(admin.do("INFO", "replication"), "master_failover_state:no-failover")
				})
				if to.IsReplica() || !from.IsReplica() {
					t.Fatal("they have not changed places")
				}
				caughtUp(t, from, to)
			}
			for k, v := range confirmed {
				want := fmt.Sprintf("$%d\r\n%s\r\n", len(v), v)
				if x, y := ca.do("GET", k), cb.do("GET", k); x != want || y != want {
					t.Fatalf("%s: %q and %q, want %q", k, x, y, want)
				}
			}
			if got := b.master.Stats().SyncFull + a.master.Stats().SyncFull; got != syncs {
				t.Errorf("%d full synchronisations", got-syncs)
			}
		})
	}
}
