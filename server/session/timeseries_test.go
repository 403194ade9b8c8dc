package session_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// ruled starts a server with a time series that is aggregated from another one.
func ruled(t *testing.T) *servertest.Harness {
	h := servertest.StartApart(t, []string{"source", "target", "other"})
	c := h.Dial(t)
	c.Want("TS.CREATE source CHUNK_SIZE 2", "+OK\r\n")
	c.Want("TS.CREATE target", "+OK\r\n")
	c.Want("TS.CREATERULE source target AGGREGATION sum 10", "+OK\r\n")
	return h
}

// TestRulesLockTheirTargets: a command that adds to a time series waits for the lock of the one that is aggregated from
// it, runs again with that lock, and has had no effect before.
func TestRulesLockTheirTargets(t *testing.T) {
	script := "redis.call('INCR','other') redis.call('TS.ADD',KEYS[1],1,5) return redis.call('TS.ADD',KEYS[1],11,6)"
	for _, tt := range []struct {
		name, send string
		replies    []string
	}{
		{"a command", servertest.Encode("TS.MADD", "source", "1", "5", "source", "11", "6"), []string{"*2\r\n:1\r\n:11\r\n"}},
		{"a pipeline", servertest.Pipeline("INCR other", "TS.ADD source 1 5", "TS.ADD source 11 6", "INCR other"),
			[]string{":1\r\n", ":1\r\n", ":11\r\n", ":2\r\n"}},
		{"EXEC", servertest.Pipeline("MULTI", "INCR other", "TS.ADD source 1 5", "TS.INCRBY source 1 TIMESTAMP 11", "EXEC"),
			[]string{"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "*3\r\n:1\r\n:1\r\n:11\r\n"}},
		{"a script", servertest.Encode("EVAL", script, "1", "source"), []string{":11\r\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := ruled(t)
			c := h.Dial(t)
			tx := h.DB.NewTx()
			defer tx.End()
			tx.Begin(cf.DefaultNamespace)
			tx.AddLock([]byte("target"), false)
			require.NoError(t, tx.Acquire())
			c.Send(tt.send)
			servertest.Eventually(t, "the command waits", tx.Awaited)
			tx.Release()
			for _, want := range tt.replies {
				c.Expect(want)
			}
			c.Want("TS.GET target", "*2\r\n:0\r\n$1\r\n5\r\n")
			if tt.name != "a command" {
				c.Want("GET other", "$1\r\n"+map[bool]string{true: "2", false: "1"}[tt.name == "a pipeline"]+"\r\n")
			}
		})
	}
}

// TestRulesUnderLoad: while clients add samples and others read and write the aggregates, none is lost.
func TestRulesUnderLoad(t *testing.T) {
	h := ruled(t)
	const adders, each = 4, 200
	var wg sync.WaitGroup
	for n := range adders {
		c := h.Dial(t)
		wg.Go(func() {
			for i := range each {
				c.Want(fmt.Sprintf("TS.ADD source %d 1", i*adders+n), fmt.Sprintf(":%d\r\n", i*adders+n))
			}
		})
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, command := range []string{"TS.RANGE target - + LATEST", "TS.ALTER target RETENTION 0", "TS.GET target LATEST"} {
		c := h.Dial(t)
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if r := c.Do(strings.Fields(command)...); strings.HasPrefix(r, "-") {
						t.Errorf("%s: %q", command, r)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	c := h.Dial(t)
	want := fmt.Sprintf("*1\r\n*2\r\n:0\r\n$3\r\n%d\r\n", adders*each)
	c.Want("TS.RANGE target - + LATEST AGGREGATION sum 1000000", want)
	c.Want("TS.RANGE source - + AGGREGATION count 1000000", want)
}
