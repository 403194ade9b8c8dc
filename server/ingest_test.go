package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
)

// TestIngest: a node receives the table files of a slot, only in the order of the commands of a migration, and not if
// it has a replica.
func TestIngest(t *testing.T) {
	h := startWith(t, engine.Options{Slots: true}, "cluster-enabled", "yes")
	c := h.Dial(t)
	ids := [3]string{strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)}
	nodes := fmt.Sprintf("%s 127.0.0.1 1 master - 0-16383\n%s 127.0.0.1 %d master -", ids[0], ids[1], port(c))
	c.Want("CLUSTERX SETNODEID "+ids[1], "+OK\r\n")
	if got := c.Do("CLUSTERX", "SETNODES", nodes, "1"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	var b batch.Builder
	m := cf.Meta{Type: cf.TypeString}
	b.Put(cf.Metadata, cf.AppendNSKey(nil, cf.DefaultNamespace, []byte("foo"), true), append(m.Append(nil), "bar"...))
	refused := func(what string, args ...string) {
		t.Helper()
		if got := c.Do(args...); !strings.HasPrefix(got, "-ERR") || !strings.Contains(got, what) {
			t.Errorf("%s: %q, want an error with %q", args[:2], got, what)
		}
	}
	refused("imports no slots", "_ingest", "BEGIN")
	refused("no records", "_ingest", "RECORDS", string(b.Bytes()))
	refused("no records", "_ingest", "END")
	refused("syntax", "_ingest", "SOMETHING")
	c.Want("CLUSTER IMPORT 12182 0", "+OK\r\n")
	c.Want("_ingest BEGIN", "+OK\r\n")
	if got := c.Do("_ingest", "RECORDS", string(b.Bytes())); got != "+OK\r\n" {
		t.Fatal(got)
	}
	refused("not ingested", "CLUSTER", "IMPORT", "12182", "1")
	c.Want("_ingest END", "+OK\r\n")
	c.Want("CLUSTER IMPORT 12182 1", "+OK\r\n")
	c.Want("GET foo", "$3\r\nbar\r\n")
	c.Want("DBSIZE", ":1\r\n")
	refused("no records", "_ingest", "RECORDS", string(b.Bytes()))

	c.Want("CLUSTER IMPORT 5 0", "+OK\r\n")
	c.Want("_ingest BEGIN", "+OK\r\n")
	refused("invalid write batch", "_ingest", "RECORDS", "nonsense")
	refused("invalid write batch", "_ingest", "END")
	c.Want("CLUSTER IMPORT 5 2", "+OK\r\n")

	nodes += fmt.Sprintf("\n%s 127.0.0.1 2 slave %s", ids[2], ids[1])
	if got := c.Do("CLUSTERX", "SETNODES", nodes, "2"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	c.Want("CLUSTER IMPORT 5 0", "+OK\r\n")
	refused("follow this node", "_ingest", "BEGIN")
}
