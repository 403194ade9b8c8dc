package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

func TestKeep(t *testing.T) {
	day := func(d, h int) *Backup {
		return &Backup{ID: time.Date(2026, 1, d, h, 0, 0, 0, time.UTC).Format("02T15"), Timeline: "t",
			Time: time.Date(2026, 1, d, h, 0, 0, 0, time.UTC)}
	}
	all := []*Backup{day(1, 1), day(1, 2), day(2, 1), day(4, 1), day(4, 2), day(4, 3)}
	now := time.Date(2026, 1, 4, 4, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		o    PruneOptions
		want string
		log  string // the log is needed behind this one
	}{
		{PruneOptions{KeepLast: 1}, "04T03", "04T03"},
		{PruneOptions{KeepLast: 9}, "01T01 01T02 02T01 04T01 04T02 04T03", "01T01"},
		{PruneOptions{KeepDaily: 2}, "02T01 04T03", "02T01"},
		{PruneOptions{KeepDaily: 9}, "01T02 02T01 04T03", "01T02"},
		{PruneOptions{KeepLast: 2, KeepDaily: 2}, "02T01 04T02 04T03", "02T01"},
		{PruneOptions{KeepLast: 1, KeepLog: 2 * time.Hour}, "04T02 04T03", "04T02"},
		{PruneOptions{KeepLast: 1, KeepLog: 30 * time.Hour}, "02T01 04T03", "02T01"},
		{PruneOptions{KeepLast: 9, KeepLog: 30 * time.Hour}, "01T01 01T02 02T01 04T01 04T02 04T03", "02T01"},
		{PruneOptions{KeepLast: 1, KeepLog: 900 * time.Hour}, "01T01 04T03", "01T01"}, // the log is younger
	} {
		var ids []string
		kept := keep(all, []*Timeline{{ID: "t", Until: now}}, nil, tt.o, now)
		for _, b := range kept {
			ids = append(ids, b.ID)
		}
		slices.Sort(ids)
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.o, got, tt.want)
		}
		if b := logBegin(kept, "t", tt.o, now); b == nil || b.ID != tt.log {
			t.Errorf("%+v: the log begins behind %v, want %s", tt.o, b, tt.log)
		}
	}
}

// TestKeepTimelines: each timeline that reaches the times to be kept has a backup with which they begin.
func TestKeepTimelines(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	backup := func(line string, hour int) *Backup {
		return &Backup{ID: fmt.Sprintf("%s%02d", line, hour), Timeline: line, Time: at(hour)}
	}
	all := []*Backup{backup("a", 1), backup("a", 2), backup("b", 4), backup("b", 5), backup("c", 7), backup("", 8),
		backup("c", 9), backup("c", 10)}
	lines := []*Timeline{{ID: "a", Until: at(3)}, {ID: "b", Until: at(6)}, {ID: "c", Until: at(11)}}
	for _, tt := range []struct {
		since int
		want  string
	}{
		{0, "a01 b04 c07 c10"},
		{1, "a01 b04 c07 c10"},
		{2, "a02 b04 c07 c10"},
		{3, "a02 b04 c07 c10"}, // at 3 there was nothing newer than the end of a
		{4, "b04 c07 c10"},
		{5, "b05 c07 c10"},
		{7, "c07 c10"},
		{8, "c07 c10"},
		{9, "c09 c10"},
		{10, "c10"},
	} {
		var ids []string
		for _, b := range keep(all, lines, nil, PruneOptions{KeepLast: 1, KeepLog: at(11).Sub(at(tt.since))}, at(11)) {
			ids = append(ids, b.ID)
		}
		slices.Sort(ids)
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("since %d: %s, want %s", tt.since, got, tt.want)
		}
	}
}

func TestPrune(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	r := newRepo(t)
	if _, err := r.Prune(t.Context(), PruneOptions{}); !errors.Is(err, ErrKeepNone) {
		t.Error(err)
	}
	f := s.follow(r, "")
	f.await("a backup was made")
	fill(c, "a")
	s.stored(r)
	require.NoError(t, s.db.CompactNamespace(""))
	s.create(r)
	fill(c, "b")
	s.stored(r)
	// Files of a backup that was cut.
	cut := &failingStore{Store: r.Store, left: 2}
	whole := r.Store
	r.Store = cut
	require.NoError(t, s.db.CompactNamespace(""))
	s.stop() // so the source is a directory, with other files
	if _, err := r.CreateFromDir(t.Context(), s.dir, CreateOptions{}); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	r.Store = whole
	f.end()
	// The log is newer than the newest backup, though nobody stores it any more.
	p, err := r.Prune(t.Context(), PruneOptions{KeepLast: 1})
	if err != nil || len(p.Kept) != 2 || p.Segments != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	again, _ := restore(t, r, RestoreOptions{})
	check(again.dial(t), "b")
	newest, err := r.CreateFromDir(t.Context(), s.dir, CreateOptions{})
	require.NoError(t, err)
	dry, err := r.Prune(t.Context(), PruneOptions{KeepLast: 1, DryRun: true})
	require.NoError(t, err)
	if backups, err := r.Backups(t.Context()); err != nil || len(backups) != 3 {
		t.Errorf("a dry run has left %d backups, %v", len(backups), err)
	}
	p, err = r.Prune(t.Context(), PruneOptions{KeepLast: 1})
	require.NoError(t, err)
	if len(p.Kept) != 1 || p.Kept[0] != newest.ID || len(p.Removed) != 2 || p.Files < 2 || p.Segments == 0 ||
		dry.Files != p.Files || dry.Bytes != p.Bytes {
		t.Errorf("%+v, dry %+v", p, dry)
	}
	if v, err := r.Verify(t.Context(), VerifyOptions{}); err != nil || len(v.Damage) > 0 || v.Segments != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	again, _ = restore(t, r, RestoreOptions{})
	check(again.dial(t), "b")
	p, err = r.Prune(t.Context(), PruneOptions{KeepLast: 1})
	if err != nil || p.Files != 0 || len(p.Removed) != 0 || p.Segments != 0 {
		t.Errorf("a second time: %+v, %v", p, err)
	}
}

// With the log of a timeline pruned, its newest part can still be restored, and following goes on.
func TestPruneLog(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	r := newRepo(t)
	f := s.follow(r, "")
	line := f.await("a backup was made").Timeline
	c.do("SET n 1")
	s.stored(r)
	// A later backup of the same timeline.
	made, err := r.CreateFromServer(t.Context(), s.source(), CreateOptions{timeline: func() string { return line }})
	require.NoError(t, err)
	c.do("SET n 2")
	s.stored(r)
	at := time.Now()
	after(at)
	c.do("SET n 3")
	s.stored(r)
	if p, err := r.Prune(t.Context(), PruneOptions{KeepLast: 1}); err != nil || p.Kept[0] != made.ID {
		t.Fatalf("%+v, %v", p, err)
	}
	f.end()
	again, _ := restore(t, r, RestoreOptions{At: at})
	if got := again.dial(t).do("GET n"); got != "2" {
		t.Errorf("%q", got)
	}
	f = s.follow(r, "")
	if e := f.await("the timeline goes on"); e.Timeline != line {
		t.Errorf("another timeline goes on: %s", e.Timeline)
	}
}

// TestPruneFollowed: the log that is being stored can still be restored, however many backups were made beside it.
func TestPruneFollowed(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	r := newRepo(t)
	f := s.follow(r, "")
	f.await("a backup was made")
	c.do("SET n 1")
	s.stored(r)
	for range 2 { // the second time the program goes on with a timeline of an earlier one
		beside := s.create(r)
		p, err := r.Prune(t.Context(), PruneOptions{KeepLast: 1})
		if err != nil || len(p.Kept) != 2 || !slices.Contains(p.Kept, beside.ID) {
			t.Fatalf("%+v, %v", p, err)
		}
		f.end()
		f = s.follow(r, "")
		f.await("the timeline goes on")
	}
	c.do("SET n 2")
	s.stored(r)
	f.end()
	again, _ := restore(t, r, RestoreOptions{})
	if got := again.dial(t).do("GET n"); got != "2" {
		t.Errorf("the newest state has %q", got)
	}
}

// Nobody prunes while a backup is made, and no backup begins while somebody prunes; locks of the dead do not count.
func TestLocks(t *testing.T) {
	r := newRepo(t)
	ctx := t.Context()
	for _, tt := range []struct {
		held, wanted lockKind
		free         bool
	}{
		{backupLock, backupLock, true}, {backupLock, pruneLock, false}, {backupLock, followLock, true},
		{pruneLock, backupLock, false}, {pruneLock, pruneLock, false}, {pruneLock, followLock, true},
		{followLock, backupLock, true}, {followLock, pruneLock, true}, {followLock, followLock, false},
	} {
		_, held, err := r.lock(ctx, tt.held)
		require.NoError(t, err)
		_, l, err := r.lock(ctx, tt.wanted)
		if (err == nil) != tt.free || err != nil && !errors.Is(err, ErrBusy) {
			t.Errorf("%s while there is %s: %v", tt.wanted, tt.held, err)
		}
		if err == nil {
			l.release()
		}
		held.release()
	}
	put(ctx, r, "locks/prune-dead.json", []byte(`{"host":"elsewhere","pid":1}`))
	if _, _, err := r.lock(ctx, backupLock); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("a lock of another host: %v", err)
	}
	r.Store = oldLocks{r.Store}
	_, l, err := r.lock(ctx, backupLock)
	require.NoError(t, err)
	l.release()
}

// oldLocks is a store in which all locks of other hosts are old.
type oldLocks struct{ Store }

func (s oldLocks) List(ctx context.Context, prefix string, f func(Object) error) error {
	return s.Store.List(ctx, prefix, func(o Object) error {
		if strings.HasSuffix(o.Name, "-dead.json") {
			o.Modified = o.Modified.Add(-lockStale - time.Minute)
		}
		return f(o)
	})
}

// TestPrunedBetween: a time between a backup and a log whose beginning was pruned is not reached.
func TestPrunedBetween(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	backups := []*Backup{{ID: "old", Timeline: "t", Sequence: 10, Time: at(100)},
		{ID: "new", Timeline: "t", Sequence: 30, Time: at(300)}}
	lines := []*Timeline{{ID: "t", Until: at(400), Last: 40,
		Segments: []Segment{{Timeline: "t", First: 31, Last: 40, From: at(310), To: at(400)}}}}
	for when, want := range map[int]int{100: 100, 200: 100, 300: 300, 350: 350, 500: 400} {
		if p := choose(backups, lines, at(when)); !p.reached.Equal(at(want)) {
			t.Errorf("at %d: %s, %v", when, p.backup.ID, p.reached.Unix())
		}
	}
}
