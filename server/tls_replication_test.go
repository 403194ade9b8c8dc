package server_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/testcert"
	"github.com/basaltdb/basalt/server/servertest"
)

// TestReplicaTLS: with tls-replication a replica gets files and the stream over TLS, from a master that has only a TLS
// port and requires certificates. If the master or the replica does not trust the other one's certificate, the replica
// gets nothing.
func TestReplicaTLS(t *testing.T) {
	m, ca := servertest.StartTLS(t, "tls-auth-clients", "yes")
	stranger := testcert.New(t)
	cert, key := ca.Issue("replica")
	strangeCert, strangeKey := stranger.Issue("replica")
	c := m.DialTLS(t, ca.Client("client"))
	_, port, _ := strings.Cut(m.Addr(), ":")
	fill(c, 0)
	for _, tt := range []struct {
		name          string
		ca, cert, key string
		err           string
	}{
		{"trusted", ca.File, cert, key, ""},
		{"a master that is not trusted", stranger.File, cert, key, "certificate"},
		{"a replica that is not trusted", ca.File, strangeCert, strangeKey, "certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := servertest.Start(t, "tls-replication", "yes", "tls-ca-cert-file", tt.ca, "tls-cert-file", tt.cert,
				"tls-key-file", tt.key)
			cr := r.Dial(t)
			cr.Want("SET own past", "+OK\r\n") // so that the replica synchronises in full
			cr.Want("REPLICAOF 127.0.0.1 "+port, "+OK\r\n")
			if tt.err != "" {
				servertest.Eventually(t, "an error", func() bool {
					st, _ := r.Replica().Status()
					return strings.Contains(st.Err, tt.err)
				})
				cr.Want("GET own", "$4\r\npast\r\n")
				return
			}
			caughtUp(t, r, m)
			fill(c, 1)
			caughtUp(t, r, m)
			enginetest.SameRecords(t, m.DB, r.DB)
			if st, _ := r.Replica().Status(); st.FullSyncs != 1 {
				t.Errorf("%d full synchronisations", st.FullSyncs)
			}
		})
	}
}

// TestMigrationTLS: with tls-replication slots move between nodes that have only TLS ports and require certificates.
func TestMigrationTLS(t *testing.T) {
	ca := testcert.New(t)
	var nodes [2]*servertest.Client
	var ids [2]string
	var topology string
	for i := range nodes {
		cert, key := ca.Issue("node")
		h := servertest.StartOnPorts(t, func() []string {
			return []string{"tls-port", servertest.FreePort(t), "tls-cert-file", cert, "tls-key-file", key,
				"tls-ca-cert-file", ca.File, "tls-replication", "yes", "cluster-enabled", "yes"}
		})
		nodes[i], ids[i] = h.DialTLS(t, ca.Client("client")), strings.Repeat(string(rune('a'+i)), 40)
		_, port, _ := strings.Cut(h.Addr(), ":")
		topology += ids[i] + " 127.0.0.1 " + port + " master -" + [2]string{" 0-16383\n", ""}[i]
	}
	for i, c := range nodes {
		c.Want("CLUSTERX SETNODEID "+ids[i], "+OK\r\n")
		if got := c.Do("CLUSTERX", "SETNODES", topology, "1"); got != "+OK\r\n" {
			t.Fatal(got)
		}
	}
	nodes[0].Want("SET key value", "+OK\r\n")
	nodes[0].Want("CLUSTERX MIGRATE 12539 "+ids[1]+" SYNC", "+OK\r\n")
	nodes[1].Want("GET key", "$5\r\nvalue\r\n")
}
