package backup

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// startKvrocks starts a real Kvrocks and returns its address.
func startKvrocks(t *testing.T) (addr string) {
	t.Helper()
	path := os.Getenv("KVROCKS_SERVER")
	if path == "" {
		t.Skip("the environment variable KVROCKS_SERVER names no kvrocks binary")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	dir := t.TempDir()
	file := filepath.Join(dir, "kvrocks.conf")
	conf := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nworkers 1\nrequirepass secret\n", port, dir)
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	cmd := exec.Command(path, "-c", file)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if nc, err := net.Dial("tcp", addr); err == nil {
			nc.Close()
			return addr
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A running Kvrocks is backed up over the network as a server of ours is: incrementally, and with its log.
func TestKvrocks(t *testing.T) {
	src := &Server{Addr: startKvrocks(t), Password: "secret"}
	c := dial(t, src.Addr)
	c.do("AUTH secret")
	r := newRepo(t)
	fill(c, "a")
	first, err := r.CreateFromServer(t.Context(), src, CreateOptions{})
	require.NoError(t, err)
	f := follow(t, r, src)
	f.await("a backup was made")
	fill(c, "b")
	last, err := src.sequence(t.Context())
	require.NoError(t, err)
	storedUpTo(t, r, last)
	f.end()
	second, err := r.CreateFromServer(t.Context(), src, CreateOptions{})
	if err != nil || second.ReusedFiles == 0 {
		t.Fatalf("%+v, %v", second, err)
	}
	for _, o := range []RestoreOptions{{}, {ID: first.ID}, {Point: &Point{Timeline: f.timelineID(), Sequence: last}}} {
		s, _ := restore(t, r, o)
		check(s.dial(t), "a")
		want := "0" // what came after the first backup
		if o.ID == "" {
			want = "1"
			check(s.dial(t), "b")
		}
		if got := s.dial(t).do("EXISTS b:h"); got != want {
			t.Errorf("%+v: EXISTS b:h is %s", o, got)
		}
		s.stop()
	}
}
