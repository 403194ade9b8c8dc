package migrate

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/testcert"
	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/servertest"
)

// Both ends may speak TLS, and ask for certificates of clients.
func TestMigrateTLS(t *testing.T) {
	ca := testcert.New(t)
	files := func(prefix string) []string {
		cert, key := ca.Issue("server")
		return []string{prefix + "tls-cert-file", cert, prefix + "tls-key-file", key, prefix + "tls-ca-cert-file", ca.File}
	}
	redis := func(t *testing.T) string {
		port := servertest.FreePort(t)
		startRedis(t, append(files("--"), "--tls-port", port)...)
		return "127.0.0.1:" + port
	}
	basalt := func(t *testing.T) string {
		return servertest.StartOnPorts(t, func() []string {
			return append(files(""), "tls-port", servertest.FreePort(t), "tls-auth-clients", "yes", "tls-replication", "yes")
		}).Addr()
	}
	cluster := func(t *testing.T) string { // the nodes announce their ports for TLS
		var nodes []transfer.Address
		for range 2 {
			h := servertest.StartOnPorts(t, func() []string {
				return append(files(""), "tls-port", servertest.FreePort(t), "tls-auth-clients", "yes", "cluster-enabled", "yes")
			})
			nodes = append(nodes, transfer.Address{Network: "tcp", Host: h.Addr(), TLS: ca.Client("client")})
		}
		return share(t, nodes)
	}
	for _, x := range []struct {
		name     string
		from, to func(t *testing.T) string
		how      string
	}{
		{"redis to basalt", redis, basalt, "follow"},
		{"basalt to basalt", basalt, basalt, "follow"},
		{"basalt to redis", basalt, redis, "copy"},
		{"basalt to cluster", basalt, cluster, "copy"},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := options(t, "rediss://"+x.from(t), "rediss://"+x.to(t))
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
				t.Errorf("without certificates: %v", err)
			}
			o.From.TLS = ca.Client("client")
			o.To.TLS = o.From.TLS
			c := dialAddress(t, o.From)
			c.fill()
			o.Cutover = true
			if r := migrated(t, o); !r.CutOver || r.How != x.how {
				t.Errorf("%+v", r)
			}
			k, err := open(t.Context(), &peer{addr: o.To, cluster: x.name == "basalt to cluster"}, 0)
			if err == nil {
				_, err = k.do("SET", "late", "v")
				k.close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
