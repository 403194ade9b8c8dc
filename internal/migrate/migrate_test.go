package migrate

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/servertest"
)

// Every pair of servers is migrated under load: the first run ends when the target has caught up, the second one cuts
// over. What was acknowledged is in the target, and the source refuses writes.
func TestMigrate(t *testing.T) {
	redis := func(t *testing.T) string { return startRedis(t) }
	basalt := func(t *testing.T) string { return servertest.Start(t, "redis-databases", "16").Addr() }
	cluster := func(t *testing.T) string { return startCluster(t, 3) }
	for _, x := range []struct {
		name     string
		from, to func(t *testing.T) string
		how      string
		values   []string // besides those that all have
		lost     []string // keys of the source that the target cannot have
	}{
		{"redis to basalt", redis, basalt, "follow", []string{"SELECT 3", "SET in3 v", "SELECT 0"}, nil},
		{"basalt to basalt", basalt, basalt, "follow", append([]string{"BF.ADD bloom a", "SELECT 3", "SET in3 v", "SELECT 0"},
			ownValues...), nil},
		{"redis to cluster", redis, cluster, "copy", nil, nil},
		{"basalt to cluster", basalt, cluster, "copy", ownValues, nil},
		{"basalt to redis", basalt, redis, "copy", []string{"SELECT 3", "SET in3 v", "SELECT 0"}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			from, to := x.from(t), x.to(t)
			source := dialTest(t, from)
			source.fill(x.values...)
			w := startWriters(t, from)
			w.rounds(3)
			o := options(t, from, to)
			r := migrated(t, o)
			if r.How != x.how || !r.Following || r.CutOver {
				t.Errorf("the first run: %+v", r)
			}
			w.rounds(3)
			syncs := fullSyncs(t, from)
			o.Cutover = true
			r = migrated(t, o)
			if !r.CutOver || !strings.HasPrefix(r.Source, "refuses writes") || len(r.LeftOut) > 0 || len(r.Warnings) > 0 {
				t.Errorf("the second run: %+v", r)
			}
			if n := fullSyncs(t, from); n != syncs {
				t.Error("the second run has copied everything again")
			}
			w.arrived(to)
			if _, err := source.pipe.do("SET", "late", "v"); err == nil || !strings.Contains(err.Error(), "NOREPLICAS") {
				t.Errorf("a write to the source: %v", err)
			}
			if d := differing(t, from, to); len(d) > 0 {
				t.Errorf("afterwards differ %q", d)
			}
			p := connectTest(t, to)
			k, err := open(t.Context(), p, 0)
			require.NoError(t, err)
			if _, err := k.do("SET", "late", "v"); err != nil {
				t.Errorf("a write to the target: %v", err)
			}
			if r, err := k.do("GET", PositionKey); err != nil || !r.Null {
				t.Errorf("the position is left: %v, %q", err, r.Text)
			}
			if _, err := p.do("FCALL", "f", "0"); err != nil {
				t.Error(err)
			}
		})
	}
}

// fullSyncs counts the full synchronisations that a master of Redis has done; a copy of a basalt is none.
func fullSyncs(t *testing.T, addr string) string {
	t.Helper()
	fields, err := connectTest(t, addr).info("stats")
	require.NoError(t, err)
	return fields["sync_full"]
}

// A cut-over that is not done leaves the source as it was: it takes writes.
func TestGivenUp(t *testing.T) {
	for _, x := range []struct {
		name  string
		to    func(t *testing.T) string
		spoil func(target *keyspace, o *Options)
		want  string
	}{
		{"the two differ", func(t *testing.T) string { return startCluster(t, 2) }, func(k *keyspace, _ *Options) {
			k.do("SET", "key:1", "another")
		}, ErrDiffer.Error()},
		{"no time", func(t *testing.T) string { return startCluster(t, 2) }, func(_ *keyspace, o *Options) { o.Pause = 1 },
			"the cut-over is given up"},
	} {
		t.Run(x.name, func(t *testing.T) {
			from, to := startRedis(t), x.to(t)
			source := dialTest(t, from)
			source.fill()
			o := options(t, from, to)
			migrated(t, o)
			k, err := open(t.Context(), connectTest(t, to), 0)
			require.NoError(t, err)
			o.Cutover = true
			x.spoil(k, &o)
			r, err := Run(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), x.want) || r.CutOver {
				t.Errorf("%v, %+v", err, r)
			}
			source.do("SET", "late", "v")
			if r, err := k.do("GET", PositionKey); err != nil || r.Null {
				t.Errorf("the position is lost: %v", err)
			}
		})
	}
}

// What cannot be is refused before anything is changed.
func TestRefused(t *testing.T) {
	redis, full, cluster := startRedis(t), servertest.Start(t).Addr(), startCluster(t, 2)
	dialTest(t, redis).lines("SELECT 9", "SET k v")
	dialTest(t, full).lines("SET k v")
	for _, x := range []struct{ from, to, want string }{
		{redis, full, "the target is not empty"},
		{full, redis, "the target is not empty"},
		{redis, servertest.Start(t).Addr(), "redis-databases 16"},
		{cluster, full, "a node of a cluster"},
		{"redis://" + full + "/1", servertest.Start(t).Addr(), "DB index is out of range"},
		{full, servertest.Start(t, "cluster-enabled", "yes").Addr(), "CLUSTERDOWN"},
	} {
		if _, err := Run(t.Context(), options(t, x.from, x.to)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s to %s: %v, not %s", x.from, x.to, err, x.want)
		}
	}
	if d := differing(t, full, redis); !slices.Equal(d, []string{"k: the target does not have it (string)"}) {
		t.Errorf("%q", d)
	}
}

// A value that the target cannot take is listed, and there is no cut-over without consent.
func TestLeftOut(t *testing.T) {
	from, to := servertest.Start(t).Addr(), startCluster(t, 2)
	source := dialTest(t, from)
	source.lines("BF.ADD bloom a", "SET k v")
	o := options(t, from, to)
	o.Cutover, o.NoCompare = true, true
	r, err := Run(t.Context(), o)
	if !errors.Is(err, ErrLeftOut) || len(r.LeftOut) != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	source.lines("SET k w")
	o.AcceptDifferences = true
	if r, err = Run(t.Context(), o); err != nil || !r.CutOver {
		t.Errorf("%v, %+v", err, r)
	}
}

// A copier goes on after a cut of its connections, and copies anew after what it cannot follow.
func TestCopyGoesOn(t *testing.T) {
	redis, cluster := startRedis(t), startCluster(t, 3)
	source := dialTest(t, redis)
	source.fill()
	o := options(t, redis, cluster)
	o.Follow = true
	following := make(chan struct{}, 1)
	o.Progress = func(stage string, _, _ int64, _ bool) {
		if stage == "following" {
			select {
			case following <- struct{}{}:
			default:
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, o)
		ended <- err
	}()
	<-following
	for _, disturb := range [][]string{
		{"CLIENT KILL TYPE replica"}, {"CLIENT KILL TYPE normal"}, {"FLUSHALL", "SET after flush"},
		{"SELECT 1", "SET other db", "SELECT 0", "SWAPDB 0 1"}, {"SET k v", "MOVE k 1", "SET k w", "COPY k k DB 2"},
	} {
		c := dialTest(t, redis)
		c.lines(disturb...)
		dialTest(t, redis).do("RPUSH", "disturbed", disturb[0])
		servertest.Eventually(t, "the cluster follows after "+disturb[0], func() bool {
			o := options(t, redis, cluster)
			o.CompareOnly = true
			r, err := Run(t.Context(), o)
			return err == nil && r.Comparison.Differ == 0
		})
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Kvrocks is followed, and copied, as basalt is. KVROCKS_SERVER names its binary.
func TestKvrocks(t *testing.T) {
	if os.Getenv(kvrocksServer) == "" {
		t.Skip("the environment variable " + kvrocksServer + " names no kvrocks binary")
	}
	for name, target := range map[string]func() string{
		"basalt":  func() string { return servertest.Start(t).Addr() },
		"cluster": func() string { return startCluster(t, 2) },
	} {
		from, to := startKvrocks(t), target()
		source := dialTest(t, from)
		source.lines("SET s v", "SET e v PXAT 4102444800000", "RPUSH l a b c", "SADD t a b c",
			"HSET h f v g w", "ZADD z 1.5 a 3 b", "SIADD si 0 5")
		for i := range manyElems {
			source.lines("SET key:" + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + " v")
		}
		o := options(t, from, to)
		migrated(t, o)
		source.lines("SET later v", "DEL l", "HSET h f w")
		o.Cutover = true
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--writers-stopped") {
			t.Errorf("%s: %v", name, err)
		}
		o.WritersStopped = true
		if r := migrated(t, o); !r.CutOver {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A Kvrocks follows a basalt; a Redis is copied into a Kvrocks or a cluster of them, which take no streams.
func TestIntoKvrocks(t *testing.T) {
	if os.Getenv(kvrocksServer) == "" {
		t.Skip("the environment variable " + kvrocksServer + " names no kvrocks binary")
	}
	alone := func(t *testing.T) string { return startKvrocks(t) }
	redis := func(t *testing.T) string { return startRedis(t) }
	for _, x := range []struct {
		name     string
		from, to func(t *testing.T) string
		values   []string
	}{
		{"basalt", func(t *testing.T) string { return servertest.Start(t).Addr() }, alone,
			[]string{`JSON.SET j $ {"a":1}`, "SIADD si 0 3 1 2", "BF.ADD bloom a", "XADD empty 1-1 f v"}},
		{"redis", redis, alone, []string{"DEL x"}},
		{"redis to a cluster", redis, func(t *testing.T) string {
			var nodes []transfer.Address
			for range 2 {
				nodes = append(nodes, transfer.Address{Network: "tcp", Host: startKvrocks(t, "cluster-enabled yes")})
			}
			return share(t, nodes)
		}, []string{"DEL x"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			from, to := x.from(t), x.to(t)
			source := dialTest(t, from)
			source.fill(x.values...)
			if x.name == "basalt" {
				source.do("XADD", "empty", "2-1", "", "") // a Kvrocks returns null for empty
			} else {
				source.do("DEL", "manyx")
			}
			migrated(t, options(t, from, to))
			source.lines("SET later v", "DEL l", "HSET h f w", "SETBIT bits 3 1")
			o := options(t, from, to)
			o.Cutover = true
			if r := migrated(t, o); !r.CutOver || len(r.LeftOut) > 0 {
				t.Errorf("%+v", r)
			}
			if _, err := connectTest(t, to).do("FCALL", "f", "0"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInterruptedFollowing: when the command ends before the target has caught up, it says that the target goes on.
func TestInterruptedFollowing(t *testing.T) {
	from := servertest.Start(t).Addr()
	for { // until a run is interrupted before the target has caught up: nearly always the first
		to := servertest.Start(t).Addr()
		o := options(t, from, to)
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(string, int64, int64, bool) { cancel() }
		r, err := Run(ctx, o)
		cancel()
		if err == nil || r.Following {
			continue
		}
		if !errors.Is(err, context.Canceled) || len(r.Warnings) != 1 ||
			!strings.Contains(r.Warnings[0], "goes on to follow the source") {
			t.Errorf("%v, %q", err, r.Warnings)
		}
		if role := dialTest(t, to).do("ROLE").Elems[0].Text; string(role) != "slave" {
			t.Errorf("the target is a %s", role)
		}
		return
	}
}
