package session_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// TestTooLargeAWrite: a command whose writes do not fit into a batch fails alone. The commands around it in a pipeline,
// or in a script, are committed; a transaction fails as a whole.
func TestTooLargeAWrite(t *testing.T) {
	const limit, tooLarge = "rocksdb.write_options.write_batch_max_bytes",
		"-ERR the write batch is larger than rocksdb.write_options.write_batch_max_bytes\r\n"
	h := servertest.Start(t)
	c := h.Dial(t)
	expect := func(replies ...string) {
		t.Helper()
		for _, r := range replies {
			c.Expect(r)
		}
	}
	c.Want("RPUSH l"+strings.Repeat(" element", 5000), ":5000\r\n")
	c.Want("CONFIG SET "+limit+" 50000", "+OK\r\n")
	c.Send(servertest.Pipeline("SET a 1", "LTRIM l 4990 -1", "SET b 1"))
	expect("+OK\r\n", tooLarge, "+OK\r\n")
	c.Want("EXISTS a b", ":2\r\n")
	c.Send(servertest.Encode("EVAL",
		`redis.call('SET', 'c', 1) return redis.pcall('LTRIM', 'l', 4990, -1)`, "0"))
	expect(tooLarge)
	c.Send(servertest.Pipeline("MULTI", "SET d 1", "LTRIM l 4990 -1", "EXEC"))
	expect("+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", tooLarge)
	c.Want("EXISTS c d", ":1\r\n")
	c.Want("LLEN l", ":5000\r\n")
	c.Want("CONFIG SET "+limit+" 0", "+OK\r\n")
	c.Want("LTRIM l 4990 -1", "+OK\r\n")
	c.Want("LLEN l", ":10\r\n")
}
