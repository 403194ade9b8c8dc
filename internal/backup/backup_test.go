package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// fill writes data of several types under a prefix and flushes it into table files.
func fill(c *conn, prefix string) {
	c.t.Helper()
	for i := range 200 {
		c.do("SET %s:s:%d value-%d", prefix, i, i)
		c.do("HSET %s:h f%d v%d", prefix, i, i)
		c.do("ZADD %s:z %d m%d", prefix, i, i)
	}
}

func check(c *conn, prefix string) {
	c.t.Helper()
	for _, want := range [][2]string{{"GET " + prefix + ":s:199", "value-199"}, {"HLEN " + prefix + ":h", "200"},
		{"ZSCORE " + prefix + ":z m7", "7"}, {"HGET " + prefix + ":h f100", "v100"}} {
		if got := c.do("%s", want[0]); got != want[1] {
			c.t.Errorf("%s: %q, want %q", want[0], got, want[1])
		}
	}
}

// A second backup stores what is new, and both restore.
func TestIncremental(t *testing.T) {
	for _, kind := range []string{"server", "directory", "BGSAVE"} {
		t.Run(kind, func(t *testing.T) {
			r := newRepo(t)
			s := startServer(t, "", "--backup-dir", filepath.Join(t.TempDir(), "backup"))
			backup := func() *Created {
				t.Helper()
				var c *Created
				var err error
				switch kind {
				case "server":
					return s.create(r)
				case "directory":
					s.stop()
					c, err = r.CreateFromDir(t.Context(), s.dir, CreateOptions{})
					s = startServer(t, s.dir)
				case "BGSAVE":
					s.dial(t).do("SAVE")
					c, err = r.CreateFromDir(t.Context(), s.cfg.Text("backup-dir"), CreateOptions{})
				}
				require.NoError(t, err)
				return c
			}
			fill(s.dial(t), "a")
			first := backup()
			// Two OPTIONS files may be the same.
			if first.NewFiles+first.ReusedFiles != int64(len(first.Files)) || first.ReusedFiles > 1 ||
				first.Sequence != s.db.LatestSequence() {
				t.Errorf("the first backup: %d new, %d reused, sequence %d, not %d", first.NewFiles, first.ReusedFiles,
					first.Sequence, s.db.LatestSequence())
			}
			fill(s.dial(t), "b")
			second := backup()
			tables := 0
			for _, f := range first.Files {
				if strings.HasSuffix(f.Name, ".sst") {
					tables++
					if f.Table == "" {
						t.Errorf("%s has no unique id", f.Name)
					}
				}
			}
			if tables == 0 && kind != "directory" || second.ReusedFiles < int64(tables) {
				t.Errorf("%d table files, of which the second backup reuses %d", tables, second.ReusedFiles)
			}
			old, _ := restore(t, r, RestoreOptions{ID: first.ID})
			check(old.dial(t), "a")
			if got := old.dial(t).do("EXISTS b:h"); got != "0" {
				t.Error("the first backup has what came later")
			}
			old.stop()
			now, res := restore(t, r, RestoreOptions{})
			if res.Backup.ID != second.ID {
				t.Errorf("%s was restored", res.Backup.ID)
			}
			check(now.dial(t), "a")
			check(now.dial(t), "b")
			v, err := r.Verify(t.Context(), VerifyOptions{})
			if err != nil || len(v.Damage) > 0 || v.Backups != 2 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestClockWasAhead: a backup that was made while the clock was ahead does not count as newer than later ones.
func TestClockWasAhead(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	r := newRepo(t)
	for i := range 3 {
		r.now = time.Now
		if i == 0 {
			r.now = func() time.Time { return time.Now().Add(1000 * time.Hour) }
		}
		c.do("SET n %d", i)
		s.create(r)
	}
	p, err := r.Prune(t.Context(), PruneOptions{KeepLast: 1})
	if err != nil || len(p.Removed) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	again, _ := restore(t, r, RestoreOptions{})
	if got := again.dial(t).do("GET n"); got != "2" {
		t.Errorf("the newest backup has %q", got)
	}
}

// A directory that a server has open is refused.
func TestOpenDirectory(t *testing.T) {
	s := startServer(t, "")
	_, err := newRepo(t).CreateFromDir(t.Context(), s.dir, CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "a server has it open") {
		t.Error(err)
	}
}

// failingStore fails after some commits, within a file.
type failingStore struct {
	Store
	mu      sync.Mutex
	left    int
	commits []string
}

type failingWriter struct {
	Writer
	s *failingStore
}

var errCut = errors.New("the connection is cut")

func (s *failingStore) Create(ctx context.Context) (Writer, error) {
	w, err := s.Store.Create(ctx)
	return &failingWriter{w, s}, err
}

func (w *failingWriter) Commit(name string) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if strings.HasPrefix(name, "files/") {
		if w.s.left--; w.s.left < 0 {
			return errCut
		}
		w.s.commits = append(w.s.commits, name)
	}
	return w.Writer.Commit(name)
}

// A backup that is cut shows no sign of a backup, and the next one sends only what is missing.
func TestCutBackupIsResumed(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	for i := range 4 {
		fill(c, fmt.Sprint(i))
		s.db.FlushMemtable(0)
	}
	r := newRepo(t)
	cut := &failingStore{Store: r.Store, left: 3}
	r.Store = cut
	if _, err := r.CreateFromServer(t.Context(), s.source(), CreateOptions{Parallel: 2}); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	if all, err := r.Backups(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := r.Restore(t.Context(), t.TempDir(), RestoreOptions{}); !errors.Is(err, ErrNoBackup) {
		t.Error(err)
	}
	before := slices.Clone(cut.commits)
	cut.left, cut.commits = 1000, nil
	made := s.create(r)
	for _, name := range before {
		if slices.Contains(cut.commits, name) {
			t.Errorf("%s was stored twice", name)
		}
	}
	if len(before) != 3 || made.ReusedFiles < 1 || int(made.NewFiles) != len(cut.commits) {
		t.Errorf("%d were stored, then %d, %d reused", len(before), len(cut.commits), made.ReusedFiles)
	}
	again, _ := restore(t, r, RestoreOptions{})
	check(again.dial(t), "3")
}

// A damaged backup is refused with the name of the file, and nothing that looks like a database is left.
func TestDamage(t *testing.T) {
	s := startServer(t, "")
	fill(s.dial(t), "a")
	r := newRepo(t)
	made := s.create(r)
	dir := r.Store.(*dirStore).dir
	var table File
	for _, f := range made.Files {
		if strings.HasSuffix(f.Name, ".sst") {
			table = f
		}
	}
	flip := func(object string) func() {
		path := filepath.Join(dir, object)
		good := require.File(t, path)
		bad := slices.Clone(good)
		bad[len(bad)/2] ^= 1
		os.WriteFile(path, bad, 0o600)
		return func() { os.WriteFile(path, good, 0o600) }
	}
	for _, tt := range []struct {
		name, text string
		damage     func() (undo func())
	}{
		{"a bit", table.Name + " is not what was stored", func() func() { return flip(table.object()) }},
		{"no file", table.Name + " is missing", func() func() {
			path := filepath.Join(dir, table.object())
			os.Rename(path, path+".away")
			return func() { os.Rename(path+".away", path) }
		}},
		{"the description", backupObject(made.ID), func() func() { return flip(backupObject(made.ID)) }},
	} {
		undo := tt.damage()
		target := filepath.Join(t.TempDir(), "data")
		_, err := r.Restore(t.Context(), target, RestoreOptions{ID: made.ID})
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, err := os.Stat(filepath.Join(target, "db")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: there is a database", tt.name)
		}
		v, err := r.Verify(t.Context(), VerifyOptions{})
		if err != nil || len(v.Damage) != 1 || !strings.Contains(v.Damage[0], tt.text) {
			t.Errorf("%s: %+v, %v", tt.name, v, err)
		}
		undo()
		// What was fetched is used.
		if _, err := r.Restore(t.Context(), target, RestoreOptions{}); err != nil {
			t.Errorf("%s, mended: %v", tt.name, err)
		}
	}
}

// A damaged description of one backup does not keep another from being restored, and is reported.
func TestDamagedDescription(t *testing.T) {
	s := startServer(t, "")
	c := s.dial(t)
	fill(c, "a")
	r := newRepo(t)
	first := s.create(r)
	fill(c, "b")
	second := s.create(r)
	path := filepath.Join(r.Store.(*dirStore).dir, backupObject(second.ID))
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	for _, o := range []RestoreOptions{{}, {At: second.Time}} {
		_, res := restore(t, r, o)
		if res.Backup.ID != first.ID || !errors.Is(res.Damaged, ErrDamaged) ||
			!strings.Contains(res.Damaged.Error(), second.ID) {
			t.Errorf("restored %s, damage: %v", res.Backup.ID, res.Damaged)
		}
	}
	if _, err := r.Restore(t.Context(), t.TempDir(), RestoreOptions{At: first.Time.Add(-time.Hour)}); !errors.Is(err,
		ErrNoBackup) || !errors.Is(err, ErrDamaged) {
		t.Errorf("before the first backup: %v", err)
	}
}

func TestTarget(t *testing.T) {
	s := startServer(t, "")
	r := newRepo(t)
	s.create(r)
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "photo.jpg"), nil, 0o600)
	if _, err := r.Restore(t.Context(), dir, RestoreOptions{}); !errors.Is(err, ErrNotEmpty) {
		t.Error(err)
	}
	busy := t.TempDir()
	other, err := prepareTarget(busy)
	require.NoError(t, err)
	if _, err := r.Restore(t.Context(), busy, RestoreOptions{}); err == nil || !strings.Contains(err.Error(), "another") {
		t.Error(err)
	}
	require.NoError(t, other.Close())
	if _, err := r.Restore(t.Context(), busy, RestoreOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := r.Restore(t.Context(), t.TempDir(), RestoreOptions{ID: "20260101T000000Z-abcd"}); !errors.Is(err,
		ErrNoBackup) {
		t.Error(err)
	}
	if _, err := r.Restore(t.Context(), t.TempDir(), RestoreOptions{At: time.Unix(1e9, 0)}); !errors.Is(err, ErrNoBackup) {
		t.Error(err)
	}
	if _, err := Open(t.Context(), dir, true); err == nil || !strings.Contains(err.Error(), "other files") {
		t.Error(err)
	}
	if _, err := Open(t.Context(), t.TempDir(), false); err == nil || !strings.Contains(err.Error(), "no backups") {
		t.Error(err)
	}
}

// A backup holds what was written before it began, also when the server answers with an older checkpoint.
func TestOldCheckpoint(t *testing.T) {
	s := startServer(t, "")
	r := newRepo(t)
	c := s.dial(t)
	fill(c, "a")
	s.create(r)
	for i := range 100 {
		c.do("SET late:%d %d", i, i)
	}
	made := s.create(r) // the server shares the checkpoint for half a minute
	if len(made.Log) != 1 {
		t.Fatalf("the backup has no log: the server has made a new checkpoint")
	}
	if made.NewFiles != 1 || made.NewBytes != made.Log[0].Size {
		t.Errorf("%d new files with %d bytes, the log has %d", made.NewFiles, made.NewBytes, made.Log[0].Size)
	}
	again, res := restore(t, r, RestoreOptions{})
	if got := again.dial(t).do("GET late:99"); got != "99" || res.Batches == 0 {
		t.Errorf("%q, %d batches", got, res.Batches)
	}
	check(again.dial(t), "a")
	if v, err := r.Verify(t.Context(), VerifyOptions{}); err != nil || len(v.Damage) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Under load a backup is the state at one moment: transactions are whole, the order of writes holds, and what was
// acknowledged before the backup began is in it.
func TestUnderLoad(t *testing.T) {
	s := startServer(t, "")
	r := newRepo(t)
	const writers = 4
	stop := make(chan struct{})
	var work sync.WaitGroup
	warm := make(chan struct{}, writers)
	for w := range writers {
		c := s.dial(t)
		work.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				for _, command := range []string{"MULTI", fmt.Sprintf("SET n:%d %d", w, n), fmt.Sprintf("RPUSH l:%d %d", w, n),
					fmt.Sprintf("ZADD z:%d %d %d", w, n, n), "EXEC"} {
					if _, err := c.try(command); err != nil {
						t.Error(err)
						return
					}
				}
				// One after the other: no state has the second without the first.
				c.try(fmt.Sprintf("SET first:%d %d", w, n))
				c.try(fmt.Sprintf("SET second:%d %d", w, n))
				if n == 20 {
					warm <- struct{}{}
				}
			}
		})
	}
	for range writers {
		<-warm
	}
	mark := s.dial(t)
	for i := range 3 {
		mark.do("SET mark %d", i)
		made := s.create(r)
		again, _ := restore(t, r, RestoreOptions{ID: made.ID})
		c := again.dial(t)
		if got := c.do("GET mark"); got != fmt.Sprint(i) {
			t.Errorf("backup %d has mark %s", i, got)
		}
		for w := range writers {
			n, l, z := c.do("GET n:%d", w), c.do("LLEN l:%d", w), c.do("ZCARD z:%d", w)
			if n != l || n != z {
				t.Errorf("a transaction is torn: %s, %s, %s", n, l, z)
			}
			var first, second, count int
			fmt.Sscan(c.do("GET first:%d", w), &first)
			fmt.Sscan(c.do("GET second:%d", w), &second)
			fmt.Sscan(n, &count)
			if first < second || first > second+1 || count < first || count > first+1 {
				t.Errorf("writes are out of order: %d, %d, %d", count, first, second)
			}
		}
		again.stop()
	}
	close(stop)
	work.Wait()
}
