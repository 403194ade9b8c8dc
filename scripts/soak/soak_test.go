package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

func TestJudge(t *testing.T) {
	flat := func(change func([]tenth)) []tenth {
		s := make([]tenth, tenths)
		for i := range s {
			s[i] = tenth{mean: 100 * mib, peak: 110 * mib}
		}
		change(s)
		return s
	}
	for _, tt := range []struct {
		name   string
		change func([]tenth)
		want   string // in the error; "" means none
	}{
		{"flat", func([]tenth) {}, ""},
		{"shrinks", func(s []tenth) { s[9].mean = 50 * mib }, ""},
		{"grows by 4 %", func(s []tenth) { s[9].mean = 104 * mib }, ""},
		{"grows by 6 %", func(s []tenth) { s[9].mean = 106 * mib }, "grows"},
		{"a peak in the middle above the limit", func(s []tenth) { s[4].peak = 201 * mib }, "tenth 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := judge(flat(tt.change), 200*mib)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestMixKeepsTypesAndSizes sends many operations to redis-server: no reply may be
// an error, and no collection may become much larger than its bound.
func TestMixKeepsTypesAndSizes(t *testing.T) {
	server, err := launch.Start(launch.Redis, t.TempDir())
	require.NoError(t, err)
	defer server.Kill()
	o := options{keys: 100, connections: 2, depth: 16, valueSize: 8, seed: 1}
	for _, step := range []struct {
		op operation
		n  int
	}{{load, o.keys}, {mix(o.keys), 50000}} {
		require.NoError(t, phase(o, server.Addr, step.op, step.n, nil))
	}
	c, err := redisclient.Dial(server.Addr, time.Minute)
	require.NoError(t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	for n := range o.keys {
		counter := map[int]string{6: "HLEN", 7: "LLEN", 8: "SCARD", 9: "ZCARD"}[n%kinds]
		if counter == "" {
			counter = "EXISTS"
		}
		v, err := c.Do(counter, name(n))
		require.NoError(t, err)
		// A list may gain a few elements between two trims.
		if v.Int > 3*members {
			t.Errorf("%s %s is %d", counter, name(n), v.Int)
		}
	}
}

func TestMixedDrawsEveryCommand(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range kinds {
		seen := map[string]bool{}
		for range 1000 {
			seen[mixed(n, rng, "v")[0]] = true
		}
		want := 5
		if n == 7 { // list
			want = 8
		}
		if len(seen) != want {
			t.Errorf("kind %d: %v, want %d commands", n, seen, want)
		}
	}
}
