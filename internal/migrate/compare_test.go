package migrate

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

const kvrocksServer = "KVROCKS_SERVER"

// startKvrocks starts a Kvrocks and returns its address. settings are lines of its configuration.
func startKvrocks(t *testing.T, settings ...string) string {
	t.Helper()
	port, dir := servertest.FreePort(t), t.TempDir()
	file := filepath.Join(dir, "kvrocks.conf")
	conf := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\ndaemonize no\nworkers 1\n", port, dir) +
		strings.Join(settings, "\n")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	cmd := exec.CommandContext(t.Context(), os.Getenv(kvrocksServer), "-c", file)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	addr := net.JoinHostPort("127.0.0.1", port)
	servertest.Eventually(t, "kvrocks listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return addr
}

// Every difference is found, and named.
func TestCompare(t *testing.T) {
	a, b := startRedis(t), servertest.Start(t, "redis-databases", "16").Addr()
	x, y := dialTest(t, a), dialTest(t, b)
	x.fill("PEXPIREAT t 4102444800000")
	y.fill("PEXPIREAT t 4102444800000")
	tests := []struct {
		base   string // of the values that all have
		change string // of a copy K of it in the target; @ is a blank
		want   string
	}{
		{"s", "SET K w", "another value within bytes 0 to 262143"},
		{"s", "SET K vw", "2 bytes, not 1"},
		{"s", "DEL K", "the target does not have it (string)"},
		{"s", "RPUSH other:K v", "only the target has it"},
		{"long", "SETRANGE K 600000 EnD", "another value within bytes 524288 to 786431"},
		{"e", "PEXPIREAT K 4102444801000", ""},
		{"e", "PEXPIREAT K 4102444802000", "PEXPIRETIME is 4102444802000, not 4102444800000"},
		{"e", "PERSIST K", "PEXPIRETIME is -1, not 4102444800000"},
		{"l", "RPUSH K d", "5 elements, not 4"},
		{"manyl", "LSET K 700 x", "other elements within 512 to 767"},
		{"t", "SREM K a", `"a" is missing in it`},
		{"t", "SADD K d", "4 elements, not 3"},
		{"manyt", "SREM K member@999", `"member 999" is missing in it`},
		{"h", "HDEL K f", `"f" is missing in it`},
		{"h", "HSET K new v", "3 elements, not 2"},
		{"manyh", "HSET K field@500 v", `the value of the field "field 500"`},
		{"manyz", "ZADD K 7 member@999", `the score of "member 999": 999 and 7`},
		{"bits", "SETBIT K 8 1", "another value within bytes 0 to 262143"},
		{"hll", "PFADD K e", "other registers of a HyperLogLog"},
		{"x", "XADD K 9-9 f v", "3 entries, not 2"},
		{"x", "XSETID K 8-0", "last-generated-id: 3-1 and 8-0"},
		{"x", "XDEL K 2-1", "1 entries, not 2"},
		{"manyx", "XGROUP CREATE K h 0", "2 groups, not 1"},
		{"manyx", "XACK K g 1-590", `group "g": another pending`},
		{"manyx", "XCLAIM K g c 0 1-580 RETRYCOUNT 5 JUSTID", `group "g": the pending entry 1-580`},
	}
	want := []string{}
	for i, tt := range tests {
		k := fmt.Sprintf("%s:%02d", tt.base, i)
		x.do("COPY", tt.base, k)
		y.do("COPY", tt.base, k)
		if tt.want != "" {
			name := k
			if strings.Contains(tt.change, "other:") {
				name = "other:" + k
			}
			want = append(want, name+": "+tt.want)
		}
	}
	if d := differing(t, a, b); len(d) > 0 {
		t.Fatalf("of equals differ %q", d)
	}
	for i, tt := range tests {
		words := strings.Fields(tt.change)
		for j, w := range words {
			if prefix, ok := strings.CutSuffix(w, "K"); ok && (prefix == "" || prefix == "other:") {
				w = fmt.Sprintf("%s%s:%02d", prefix, tt.base, i)
			}
			words[j] = strings.ReplaceAll(w, "@", " ")
		}
		y.do(words...)
	}
	slices.Sort(want)
	if got := differing(t, a, b); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Types and expiries that only basalts have are compared between two of them.
func TestCompareOwn(t *testing.T) {
	a, b := servertest.Start(t).Addr(), servertest.Start(t).Addr()
	x, y := dialTest(t, a), dialTest(t, b)
	for _, c := range []testConn{x, y} {
		c.lines(ownValues...)
		c.lines("BF.ADD bloom a")
	}
	o := options(t, a, b)
	o.CompareOnly = true
	if r, err := Run(t.Context(), o); err != nil || r.Comparison.Differ > 0 || r.Comparison.ByType.Count != 1 {
		t.Fatalf("%v, %+v", err, r.Comparison)
	}
	y.lines("JSON.SET j $.a[0] 7", "SIADD si 4", "SIREM si 3", "HPERSIST hf FIELDS 1 f")
	want := []string{`hf: the expiry of the field "f": 4102444800000 and -1`, "j: another document", "si: other elements"}
	if got := differing(t, a, b); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// A sample finds what differs everywhere, and counts what it has compared.
func TestSample(t *testing.T) {
	a, b := servertest.Start(t).Addr(), startCluster(t, 3)
	x := dialTest(t, a)
	for i := range manyElems {
		x.do("SET", fmt.Sprint("key:", i), "v")
	}
	o := options(t, a, b)
	o.CompareOnly, o.Sample = true, 100
	r, err := Run(t.Context(), o)
	if c := r.Comparison; err != nil || !c.Sampled || c.Keys < 50 || c.Keys > 100 || c.Differ != c.Keys {
		t.Errorf("%v, %+v", err, c)
	}
}
