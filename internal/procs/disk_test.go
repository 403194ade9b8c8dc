package procs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
	"unsafe"

	"github.com/basaltdb/basalt/internal/require"
)

func TestDiskReads(t *testing.T) {
	const step = 50 * time.Millisecond
	type steps struct {
		n    int
		read int64 // blocks in each
		want int   // threads after the last one
	}
	for _, c := range []struct {
		name  string
		steps []steps
	}{
		{"nothing is read", []steps{{100, 0, 0}}},
		{"little is read", []steps{{100, 100, 0}}},
		{"reads at the disk's pace", []steps{{1, 20000, waitingThreads}, {10, 20000, waitingThreads}}},
		{"a pause changes nothing", []steps{{1, 20000, waitingThreads}, {19, 0, waitingThreads}, {1, 20000, waitingThreads}}},
		{"a long one does", []steps{{3, 20000, waitingThreads}, {20, 0, 0}, {1, 20000, waitingThreads}}},
		{"reads that become few", []steps{{3, 20000, waitingThreads}, {20, 100, 0}, {20, 0, 0}}},
	} {
		d := diskReads{blocks: 7}
		blocks := int64(7)
		for i, s := range c.steps {
			have := 0
			for range s.n {
				blocks += s.read
				have = d.step(blocks, step)
			}
			if have != s.want {
				t.Errorf("%s: %d threads after part %d, not %d", c.name, have, i, s.want)
			}
		}
	}
}

// TestUsageCountsBlocks: what is read past the page cache counts, in units of 512 bytes.
func TestUsageCountsBlocks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the flag and the count are Linux's")
	}
	const size = 1 << 20
	name := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(name, make([]byte, size), 0o600))
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		t.Skip("no direct reads here: ", err)
	}
	defer f.Close()
	buf := make([]byte, size+4096)
	buf = buf[4096-uintptr(unsafe.Pointer(unsafe.SliceData(buf)))%4096:][:size]
	_, before := usage()
	if _, err := f.ReadAt(buf, 0); err != nil {
		t.Fatal(err)
	}
	if _, after := usage(); after-before < size/512 {
		if after == before {
			t.Skip("the kernel does not count the reads of this file system")
		}
		t.Errorf("%d blocks for %d bytes", after-before, size)
	}
}

// TestBackgroundReads: what RocksDB's threads read is told apart, also after a thread has ended.
func TestBackgroundReads(t *testing.T) {
	thread := func(proc fstest.MapFS, id, name string, read int) {
		proc["self/task/"+id+"/comm"] = &fstest.MapFile{Data: []byte(name + "\n")}
		io := fmt.Sprintf("rchar: 77\nread_bytes: %d\nwrite_bytes: 5\n", read)
		proc["self/task/"+id+"/io"] = &fstest.MapFile{Data: []byte(io)}
	}
	b := background{}
	for i, c := range []struct {
		low, sub, command int // bytes; 0 = the thread is gone
		want              int64
	}{
		{low: 512, command: 1 << 20, want: 1},
		{low: 1024, sub: 5120, command: 2 << 20, want: 12},
		{low: 1024, command: 3 << 20, want: 12},
		{low: 2048, command: 3 << 20, want: 14},
	} {
		b.proc = fstest.MapFS{}
		for id, read := range map[string]int{"11": c.low, "12": c.sub} {
			if read > 0 {
				thread(b.proc.(fstest.MapFS), id, "rocksdb:low", read)
			}
		}
		thread(b.proc.(fstest.MapFS), "13", "basalt", c.command)
		if have := b.blocks(); have != c.want {
			t.Errorf("step %d: %d blocks, not %d", i, have, c.want)
		}
	}
	if none := (&background{proc: fstest.MapFS{}}); none.blocks() != 0 {
		t.Error("blocks without a /proc")
	}
}

// TestRunFollowsTheDisk: more threads come when reads wait, and go with them, whether others count or not. One that
// syncs is always among them.
func TestRunFollowsTheDisk(t *testing.T) {
	const cores, syncing = 3, 1
	var blocks atomic.Int64
	var reading atomic.Bool
	reading.Store(true)
	use := func() (time.Duration, int64) {
		if reading.Load() {
			blocks.Add(1 << 20)
		}
		return 0, blocks.Load()
	}
	done, set, ended := make(chan struct{}), make(chan int), make(chan struct{})
	go func() {
		run(done, func() bool { return false }, syncing, nil, nil, cores, use, func(n int) { set <- n })
		close(ended)
	}()
	if n := <-set; n != cores+syncing+waitingThreads {
		t.Errorf("%d threads while it reads", n)
	}
	reading.Store(false)
	if n := <-set; n != cores+syncing {
		t.Errorf("%d threads when it has read", n)
	}
	reading.Store(true)
	<-set
	close(done)
	if n := <-set; n != cores {
		t.Errorf("%d threads at the end", n)
	}
	<-ended
}
