package master_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// fetch sends a request of a full sync and returns the whole reply.
func fetch(t *testing.T, serve func(master.Link)) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	go serve(wiretest.Link{Conn: ours})
	b, err := io.ReadAll(theirs)
	require.NoError(t, err)
	return b
}

// TestFullSync: the files of a checkpoint, fetched in parallel, are a database.
func TestFullSync(t *testing.T) {
	db := enginetest.Open(t)
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	put(t, db, 100, 1000)
	line := fetch(t, m.SendList)
	names, err := proto.ParseFileList(bytes.TrimSuffix(line, []byte("\r\n")))
	if err != nil || len(names) < 4 {
		t.Fatalf("%q, %v", line, err)
	}
	if again := fetch(t, m.SendList); !bytes.Equal(again, line) {
		t.Errorf("the second replica got another checkpoint: %q, %q", line, again)
	}
	dir := t.TempDir()
	content := fetch(t, func(l master.Link) { m.SendFiles(l, []byte(strings.Join(names, ","))) })
	for _, name := range names {
		head, n, err := proto.ReadLine(content, 100)
		require.NoError(t, err)
		size, err := proto.ParseFileHead(head)
		require.NoError(t, err)
		content = content[n:]
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content[:size], 0o644))
		content = content[size:]
	}
	if len(content) > 0 {
		t.Errorf("%d bytes more than the files have", len(content))
	}
	copied := enginetest.OpenWith(t, engine.Options{Dir: dir})
	if got := copied.LatestSequence(); got != 100 {
		t.Errorf("the copy has %d writes", got)
	}
	if m.Stats().SyncFull != 2 {
		t.Errorf("%+v", m.Stats())
	}
}

// TestNotBack: a replica that is refused gets no shared checkpoint that lacks writes which it has had.
func TestNotBack(t *testing.T) {
	db := enginetest.Open(t)
	s := defaults
	s.SendTimeout, s.ShareFor = 0, time.Hour
	const id, other = "AAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBB"
	db.BeginHistory(id)
	put(t, db, 10, 1000)
	dir := filepath.Join(t.TempDir(), "checkpoint")
	synctest.Test(t, func(t *testing.T) {
		m := master.New(master.Options{DB: db, CheckpointDir: dir}, s)
		defer m.Close()
		list := func(next uint64) string {
			if err := m.Accept(proto.PSync{ID: other, Next: next}); err == nil {
				t.Errorf("%d is accepted", next)
			}
			return string(fetch(t, m.SendList))
		}
		first := list(db.LatestSequence() + 1)
		put(t, db, 1, 10)
		time.Sleep(10 * time.Second)
		if again := list(db.LatestSequence()); again != first {
			t.Errorf("the checkpoint is not shared: %q, %q", first, again)
		}
		time.Sleep(10 * time.Second)
		if again := list(db.LatestSequence() + 1); again == first {
			t.Errorf("an older checkpoint is shared: %q", first)
		}
	})
}

// TestFileNames: only files of the checkpoint are sent, whatever the name.
func TestFileNames(t *testing.T) {
	db := enginetest.Open(t)
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	if got := fetch(t, func(l master.Link) { m.SendFiles(l, []byte("CURRENT")) }); got[0] != '-' {
		t.Errorf("without a checkpoint: %q", got)
	}
	fetch(t, m.SendList)
	for _, name := range badNames {
		got := fetch(t, func(l master.Link) { m.SendFiles(l, []byte(name)) })
		if string(got) != "-ERR no such file in the checkpoint\r\n" {
			t.Errorf("%q: %.80q", name, got)
		}
	}
}

func FuzzSendFiles(f *testing.F) {
	for _, n := range badNames {
		f.Add([]byte(n))
	}
	f.Add([]byte("CURRENT"))
	db, err := engine.Open(engine.Options{Dir: f.TempDir() + "/db"})
	if err != nil {
		f.Fatal(err)
	}
	m := master.New(master.Options{DB: db, CheckpointDir: f.TempDir() + "/c"}, defaults)
	f.Cleanup(func() {
		m.Close()
		db.Close()
	})
	f.Fuzz(func(t *testing.T, list []byte) {
		names, err := proto.ParseFileList(bytes.TrimSuffix(fetch(t, m.SendList), []byte("\r\n")))
		require.NoError(t, err)
		good := true
		for n := range strings.SplitSeq(string(list), ",") {
			good = good && slices.Contains(names, n)
		}
		if got := fetch(t, func(l master.Link) { m.SendFiles(l, list) }); !good && got[0] != '-' {
			t.Errorf("%q: %.80q", list, got)
		}
	})
}

// TestCheckpointLife: a checkpoint is shared while it is young, kept while a replica fetches it, and deleted
// afterwards.
func TestCheckpointLife(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, 10, 1000)
	dir := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.MkdirAll(dir+"/left", 0o755); err != nil { // by a process that is gone
		t.Fatal(err)
	}
	exists := func() bool {
		_, err := os.Stat(dir + "/CURRENT")
		return err == nil
	}
	synctest.Test(t, func(t *testing.T) {
		s := defaults
		s.SendTimeout = 0
		m := master.New(master.Options{DB: db, CheckpointDir: dir}, s)
		defer m.Close()
		if _, err := os.Stat(dir); err == nil {
			t.Error("what was left of another process is still there")
		}
		fetch(t, m.SendList)
		if !exists() {
			t.Fatal("there is no checkpoint")
		}
		// A fetch that takes longer than every limit:
		ours, theirs := net.Pipe()
		go m.SendFiles(wiretest.Link{Conn: ours}, []byte("CURRENT"))
		b := make([]byte, 1)
		for range 5 {
			time.Sleep(20 * time.Second)
			if _, err := io.ReadFull(theirs, b); err != nil {
				t.Fatal(err)
			}
			if !exists() {
				t.Fatal("it was deleted while somebody fetches it")
			}
		}
		if _, err := io.ReadAll(theirs); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * time.Second)
		if !exists() {
			t.Error("it was deleted at once")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if exists() {
			t.Error("it was not deleted")
		}
	})
}

// TestSendRate: full syncs share the configured rate.
func TestSendRate(t *testing.T) {
	db := enginetest.Open(t)
	for i := range 4 {
		put(t, db, 1, 1<<20)
		_ = i
	}
	synctest.Test(t, func(t *testing.T) {
		s := defaults
		s.BytesPerSecond = 64 << 10
		m, _ := newMaster(t, db, s)
		defer m.Close()
		line := fetch(t, m.SendList)
		began := time.Now()
		total := 0
		for range 2 {
			total += len(fetch(t, func(l master.Link) { m.SendFiles(l, bytes.TrimSuffix(line, []byte("\r\n"))) }))
		}
		took, least := time.Since(began), time.Duration(float64(total-300<<10)/float64(s.BytesPerSecond)*float64(time.Second))
		if took < least {
			t.Errorf("%d bytes took %v, at least %v", total, took, least)
		}
	})
}
