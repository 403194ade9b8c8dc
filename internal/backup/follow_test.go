package backup

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// after waits until the clock shows a later millisecond, and returns it.
func after(t time.Time) time.Time {
	for {
		if now := time.Now(); now.UnixMilli() > t.UnixMilli() {
			return now
		}
	}
}

// TestRefusedStream: only a server that lacks the writes makes a new timeline with a full backup necessary.
func TestRefusedStream(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := &Server{Addr: l.Addr().String()}
	for reply, full := range map[string]bool{
		"-ERR sequence out of range, please use fullsync":                                 true,
		"-ERR wrong replication id of the last log":                                       true,
		"-ERR max number of clients reached":                                              false,
		"-NOAUTH Authentication required.":                                                false,
		"-LOADING kvrocks is restoring the db from backup":                                false,
		"-MASTERDOWN Link with MASTER is down and slave-serve-stale-data is set to 'no'.": false,
	} {
		go func() {
			if c, err := l.Accept(); err == nil {
				io.WriteString(c, reply+"\r\n")
				io.Copy(io.Discard, c)
				c.Close()
			}
		}()
		_, err := s.stream(t.Context(), 7)
		if err == nil || errors.Is(err, errRange) != full {
			t.Errorf("%s: %v", reply, err)
		}
	}
}

// What FLUSHALL has deleted by mistake comes back, as docs/backup.md says.
func TestAfterFlushall(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	fill(c, "a")
	r := newRepo(t)
	f := s.follow(r, "")
	f.await("a backup was made")
	fill(c, "b")
	c.do("SET expires 1 EX 1000")
	c.do("FLUSHALL")
	c.do("SET later 1")
	s.stored(r)
	f.end()
	flushes, err := r.Flushes(t.Context(), time.Time{}, time.Time{})
	if err != nil || len(flushes) != 1 {
		t.Fatalf("%+v, %v", flushes, err)
	}
	point, ok := ParsePoint(flushes[0].Before)
	if !ok {
		t.Fatal(flushes[0].Before)
	}
	again, res := restore(t, r, RestoreOptions{Point: &point})
	c = again.dial(t)
	check(c, "a")
	check(c, "b")
	if c.do("EXISTS later") != "0" || c.do("TTL expires") == "-1" || res.Batches == 0 || !res.Unread.IsZero() ||
		res.Sequence != point.Sequence {
		t.Errorf("%+v", res)
	}
	again.stop()
	again, _ = restore(t, r, RestoreOptions{})
	c = again.dial(t)
	if c.do("GET later") != "1" || c.do("DBSIZE") != "1" {
		t.Error("the newest state is not what the server had")
	}
	if spans, err := r.Spans(t.Context()); err != nil || len(spans) != 1 || !spans[0].To.After(flushes[0].Time) {
		t.Errorf("%+v, %v", spans, err)
	}
}

// Every moment can be restored, and nothing that was written after it is there.
func TestPointInTime(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	r := newRepo(t)
	f := s.follow(r, "")
	f.await("a backup was made")
	var moments []time.Time
	for i := range 5 {
		c.do("SET n %d", i)
		c.do("RPUSH l %d", i)
		s.stored(r) // it has come
		moments = append(moments, time.Now())
		after(moments[i])
	}
	for end := time.Now().Add(patience); ; { // the log is complete up to the last moment
		lines, err := r.timelines(t.Context())
		require.NoError(t, err)
		if lines[0].Until.After(moments[4]) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the log does not go on")
		}
	}
	f.end()
	for i, at := range moments {
		again, res := restore(t, r, RestoreOptions{At: at})
		if n := again.dial(t).do("GET n"); n != fmt.Sprint(i) || !res.Reached.Equal(at) {
			t.Errorf("at moment %d: %s, %+v", i, n, res)
		}
		if n := again.dial(t).do("LLEN l"); n != fmt.Sprint(i+1) {
			t.Errorf("at moment %d the list has %s elements", i, n)
		}
		again.stop()
	}
	later := time.Now().Add(time.Hour)
	again, res := restore(t, r, RestoreOptions{At: later})
	if n := again.dial(t).do("GET n"); n != "4" || !res.Reached.Before(later) {
		t.Errorf("beyond the log: %s, %+v", n, res)
	}
}

// threeSegments makes a repository with a timeline of three segments: SET n 0, SET n 1, SET n 2.
func threeSegments(t *testing.T) (*Repo, []*Timeline) {
	t.Helper()
	s := startServer(t, "")
	c := s.dial(t)
	r := newRepo(t)
	f := s.follow(r, "")
	f.await("a backup was made")
	for i := range 3 {
		c.do("SET n %d", i)
		s.stored(r)
	}
	f.end()
	lines, err := r.timelines(t.Context())
	if err != nil || len(lines) != 1 || len(lines[0].Segments) != 3 {
		t.Fatalf("%+v, %v", lines, err)
	}
	return r, lines
}

// TestClockSetBack: a restore to a time says that writes with times up to it are left out, because they come behind
// later ones.
func TestClockSetBack(t *testing.T) {
	r, lines := threeSegments(t)
	// The second write came while the clock was an hour ahead.
	old := lines[0].Segments[1]
	w, err := newSegment(t.Context(), r, old.Timeline, time.Time{})
	require.NoError(t, err)
	require.NoError(t, r.withObject(t.Context(), old.object(), func(in io.Reader) error {
		return readSegment(in, old, func(rep []byte, at, _ time.Time) error { return w.add(rep, at.Add(time.Hour)) })
	}))
	require.NoError(t, w.commit())
	require.NoError(t, r.Remove(t.Context(), old.object()))
	at := lines[0].Segments[2].To
	again, res := restore(t, r, RestoreOptions{At: at})
	if got := again.dial(t).do("GET n"); got != "0" || !res.Back.Equal(lines[0].Segments[2].From) {
		t.Errorf("%q, %+v", got, res)
	}
	again.stop()
	again, res = restore(t, r, RestoreOptions{})
	if got := again.dial(t).do("GET n"); got != "2" || !res.Back.IsZero() {
		t.Errorf("%q, %+v", got, res)
	}
}

// A missing or damaged segment is refused with its name.
func TestDamagedLog(t *testing.T) {
	r, lines := threeSegments(t)
	dir := r.Store.(*dirStore).dir
	path := filepath.Join(dir, lines[0].Segments[1].object())
	good := require.File(t, path)
	name := filepath.Base(path)
	for what, damage := range map[string]func(){
		"a bit":     func() { b := append([]byte(nil), good...); b[len(b)-3] ^= 1; os.WriteFile(path, b, 0o600) },
		"cut short": func() { os.WriteFile(path, good[:len(good)-1], 0o600) },
		"empty":     func() { os.WriteFile(path, good[:segmentHeader], 0o600) },
	} {
		damage()
		_, err := r.Restore(t.Context(), t.TempDir(), RestoreOptions{})
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", what, err)
		}
		if v, err := r.Verify(t.Context(), VerifyOptions{}); err != nil || len(v.Damage) != 1 ||
			!strings.Contains(v.Damage[0], name) {
			t.Errorf("%s: %+v, %v", what, v, err)
		}
	}
	os.Remove(path)
	if _, err := r.Restore(t.Context(), t.TempDir(), RestoreOptions{}); !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "lacks sequence number") {
		t.Error(err)
	}
	if v, err := r.Verify(t.Context(), VerifyOptions{}); err != nil || len(v.Damage) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	// Nor is less restored when the time is between its neighbours, or when it was the newest one.
	between := lines[0].Segments[2].From.Add(-time.Millisecond)
	if _, err := r.Restore(t.Context(), t.TempDir(), RestoreOptions{At: between}); !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "lacks sequence number") {
		t.Error(err)
	}
	os.Remove(filepath.Join(dir, lines[0].Segments[2].object()))
	for _, o := range []RestoreOptions{{}, {At: between}, {At: time.Now()}} {
		if _, err := r.Restore(t.Context(), t.TempDir(), o); !errors.Is(err, ErrDamaged) ||
			!strings.Contains(err.Error(), "lacks sequence number") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if v, err := r.Verify(t.Context(), VerifyOptions{}); err != nil || len(v.Damage) != 1 ||
		!strings.Contains(v.Damage[0], "lacks its end") {
		t.Errorf("%+v, %v", v, err)
	}
	// Up to there everything can be restored.
	again, _ := restore(t, r, RestoreOptions{At: lines[0].Segments[0].To})
	if got := again.dial(t).do("GET n"); got != "0" {
		t.Errorf("before the gap: %q", got)
	}
}

// After the program or the server was stopped the timeline goes on; a server with another history begins a new one.
func TestFollowGoesOn(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	r := newRepo(t)
	f := s.follow(r, "")
	first := f.await("a backup was made").Timeline
	c.do("SET n 1")
	s.stored(r)
	f.end()

	c.do("SET n 2") // nobody reads the log
	c.do("SET m 2")
	unread := time.Now()
	after(unread)
	f = s.follow(r, "")
	if e := f.await("the timeline goes on"); e.Timeline != first {
		t.Errorf("timeline %s goes on, not %s", e.Timeline, first)
	}
	s.stored(r)
	c.do("SET n 3")
	s.stored(r)
	f.end()
	again, res := restore(t, r, RestoreOptions{At: unread})
	if got := again.dial(t).do("GET n"); got != "1" || res.Unread.IsZero() {
		t.Errorf("while nobody read the log: %q, %+v", got, res)
	}
	again.stop()
	again, _ = restore(t, r, RestoreOptions{})
	if got := again.dial(t).do("GET n"); got != "3" {
		t.Errorf("the newest state has %q", got)
	}
	again.stop()

	// Another server with as many writes: its log does not belong to the timeline.
	other := startServer(t, "")
	oc := other.dial(t)
	for other.db.LatestSequence() < s.db.LatestSequence()+10 {
		oc.do("SET other %d", other.db.LatestSequence())
	}
	f = other.follow(r, "")
	f.await("another history")
	if e := f.await("a backup was made"); e.Timeline == first {
		t.Error("two histories are in one timeline")
	}
	oc.do("SET other end")
	other.stored(r)
	f.end()
	again, _ = restore(t, r, RestoreOptions{})
	if got := again.dial(t).do("GET other"); got != "end" {
		t.Errorf("the newest state has %q", got)
	}
}

// TestNothingStored: before anything of the log is stored, a server that has written meanwhile may be another one.
func TestNothingStored(t *testing.T) {
	s := startServer(t, "")
	s.dial(t).do("SET ours 1")
	r := newRepo(t)
	f := s.follow(r, "")
	first := f.await("a backup was made").Timeline
	f.end()
	f = s.follow(r, "")
	if e := f.await("the timeline goes on"); e.Timeline != first {
		t.Errorf("timeline %s goes on, not %s", e.Timeline, first)
	}
	f.end()

	other := startServer(t, "")
	c := other.dial(t)
	for other.db.LatestSequence() < s.db.LatestSequence()+10 {
		c.do("SET other %d", other.db.LatestSequence())
	}
	f = other.follow(r, "")
	f.await("another history")
	if e := f.await("a backup was made"); e.Timeline == first {
		t.Error("two histories are in one timeline")
	}
	c.do("SET other end")
	other.stored(r)
	f.end()
	again, _ := restore(t, r, RestoreOptions{})
	if got, other := again.dial(t).do("GET ours"), again.dial(t).do("GET other"); got != "" || other != "end" {
		t.Errorf("the newest state has %q of the first server, %q", got, other)
	}
}

// TestBegunAgain: a backup that begins again and again, because the server deletes its checkpoint, does not wait for
// the log.
func TestBegunAgain(t *testing.T) {
	begun := newBegun()
	for sequence := range uint64(attempts) {
		require.NoError(t, begun.note(sequence+7))
	}
	if got := <-begun; got != 7 {
		t.Errorf("the log begins behind %d", got)
	}
}

// Only one may follow.
func TestFollowAlone(t *testing.T) {
	s := startServer(t, "")
	r := newRepo(t)
	f := s.follow(r, "")
	f.await("a backup was made")
	if err := r.Follow(t.Context(), s.source(), FollowOptions{}); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	f.end()
}
