package rocks

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/linxGnu/grocksdb"

	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/rocks/malloc"
	"github.com/basaltdb/basalt/internal/require"
)

// mallocChild is set for a process of its own, whose environment the test chooses.
const mallocChild = "BASALT_TEST_MALLOC"

// TestMallocIsBound lets many threads write and read, and counts the arenas that malloc has made for them.
func TestMallocIsBound(t *testing.T) {
	if os.Getenv(mallocChild) != "" {
		useThreads(t, 12)
		fmt.Printf("arenas: %d\n", arenas(t))
		return
	}
	if runtime.NumCPU() > 4 {
		t.Skip("12 threads do not need more arenas than there may be")
	}
	for _, tt := range []struct {
		name, env string
		bound     bool
	}{
		{"by default", "", true},
		{"not when the environment has a bound", "MALLOC_ARENA_MAX=100", false},
		{"not when the tunables have one", "GLIBC_TUNABLES=glibc.malloc.arena_max=100", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMallocIsBound$", "-test.v")
			for _, v := range os.Environ() {
				if !strings.HasPrefix(v, "MALLOC_") && !strings.HasPrefix(v, "GLIBC_") {
					cmd.Env = append(cmd.Env, v)
				}
			}
			cmd.Env = append(cmd.Env, mallocChild+"=1", tt.env)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			_, rest, _ := strings.Cut(string(out), "arenas: ")
			var n int
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			// The race detector starts a thread before the bound is there.
			if bound := n <= max(2, runtime.NumCPU())+2; bound != tt.bound {
				t.Errorf("%d arenas", n)
			}
		})
	}
}

// useThreads has n threads that all live at the same time call RocksDB.
func useThreads(t *testing.T, n int) {
	d := openMemtable(t, false)
	done := make(chan error)
	for i := range n {
		go func() {
			runtime.LockOSThread() // never unlocked: the thread is this goroutine's alone
			var b batch.Builder
			b.Reset()
			b.Put(0, binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, 100<<10))
			_, err := d.Write(b.Bytes(), DisableWAL)
			if err == nil {
				_, _, err = d.Get(d.Family(0), binary.BigEndian.AppendUint32(nil, uint32(i)), nil)
			}
			done <- err
			<-t.Context().Done()
		}()
	}
	for range n {
		require.NoError(t, <-done)
	}
}

// arenas counts glibc's arenas. The heaps of all but the main one are mappings that begin at a multiple of 64 MiB,
// of which the used part comes first and may be written, and the rest may not be touched.
func arenas(t *testing.T) int {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	const heap = 64 << 20
	var usedFrom, usedTo uint64
	n := 1
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil {
			t.Fatal(line, err)
		}
		if mode == "---p" && usedTo == from && usedFrom%heap == 0 && to == usedFrom+heap {
			n++
		}
		usedFrom, usedTo = from, to
	}
	return n
}

// TestTrim leaves holes between what is in use, and looks how much memory the process has before they are given back
// and then.
func TestTrim(t *testing.T) {
	if os.Getenv(mallocChild) == "" { // in a process of its own, so that nothing else is in the holes
		cmd := exec.Command(os.Args[0], "-test.run=^TestTrim$", "-test.v")
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "MALLOC_") && !strings.HasPrefix(v, "GLIBC_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, mallocChild+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestTrim") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if malloc.Trim() {
		t.Error("there is nothing to give back yet")
	}
	const (
		size = 100 << 10
		n    = 2000
	)
	var kept []*grocksdb.WriteBatch
	for range n {
		b := grocksdb.NewWriteBatch()
		b.Put([]byte("k"), make([]byte, size))
		kept = append(kept, b)
	}
	for i, b := range kept {
		if i%25 != 0 {
			b.Destroy()
		}
	}
	before := residentKiB(t)
	if !malloc.Trim() {
		t.Error("nothing was given back")
	}
	if given := before - residentKiB(t); given < n*size>>10/2 {
		t.Errorf("%d MiB were given back of %d that were in holes", given>>10, n*size>>20)
	}
	for i := 0; i < n; i += 25 {
		kept[i].Destroy()
	}
}

// residentKiB returns how much memory the process has.
func residentKiB(t *testing.T) (n int) {
	t.Helper()
	status := require.File(t, "/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
