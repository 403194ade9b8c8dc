package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// pipe sends n commands over one connection, a hundred at a time, and reads their replies, of which none may be an
// error. words returns the i-th command.
func (p *process) pipe(n int, words func(i int) []string) {
	p.t.Helper()
	nc, err := net.Dial("tcp", p.addr)
	require.NoError(p.t, err)
	defer nc.Close()
	const batch = 100
	w, r := bufio.NewWriterSize(nc, 1<<20), bufio.NewReaderSize(nc, 1<<20)
	for from := 0; from < n; from += batch {
		count := min(batch, n-from)
		for i := range count {
			command := words(from + i)
			fmt.Fprintf(w, "*%d\r\n", len(command))
			for _, word := range command {
				fmt.Fprintf(w, "$%d\r\n%s\r\n", len(word), word)
			}
		}
		nc.SetDeadline(time.Now().Add(patience))
		require.NoError(p.t, w.Flush())
		for range count {
			require.NoError(p.t, skipReply(r))
		}
	}
}

// skipReply reads a RESP2 reply. An error reply is an error.
func skipReply(r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '-':
		return fmt.Errorf("%q", line)
	case '$':
		if n >= 0 {
			_, err = r.Discard(n + 2)
		}
	case '*':
		for range n {
			if err := skipReply(r); err != nil {
				return err
			}
		}
	}
	return err
}

// load writes and reads what takes memory in all its places: rows of 1 KB that nothing compresses, of which it reads a
// part again and again, hashes, lists, ranges and scripts.
func (p *process) load(rows int) {
	p.t.Helper()
	noise := make([]byte, 1<<20)
	rng := rand.NewChaCha8([32]byte{})
	rng.Read(noise)
	value := func(i, n int) string { at := i * 7919 % (len(noise) - n); return string(noise[at : at+n]) }
	p.pipe(rows, func(i int) []string { return []string{"SET", fmt.Sprint("row", i), value(i, 1000)} })
	p.pipe(rows, func(i int) []string { return []string{"GET", fmt.Sprint("row", i*7%rows)} })
	p.pipe(rows, func(i int) []string { return []string{"GET", fmt.Sprint("row", i%(rows/20))} })
	p.pipe(rows, func(i int) []string {
		return []string{"HSET", fmt.Sprint("hash", i%1000), fmt.Sprint("field", i/1000), value(i, 100)}
	})
	p.pipe(rows/2, func(i int) []string { return []string{"RPUSH", fmt.Sprint("list", i%100), value(i, 100)} })
	p.pipe(rows/50, func(i int) []string { return []string{"LRANGE", fmt.Sprint("list", i%100), "0", "99"} })
	p.pipe(rows/50, func(i int) []string { return []string{"HGETALL", fmt.Sprint("hash", i%1000)} })
	p.pipe(rows/10, func(i int) []string {
		return []string{"EVAL", "local t = {} for i = 1, 100 do t[i] = i end redis.call('INCR', KEYS[1]) return t", "1",
			fmt.Sprint("n", i%1000)}
	})
}

// field returns the number in a field of INFO.
func (p *process) field(info, name string) int64 {
	p.t.Helper()
	_, rest, ok := strings.Cut(info, "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		p.t.Fatalf("%s: %q %v", name, text, err)
	}
	return n
}

// resident returns the resident memory of the process according to the kernel.
func (p *process) resident() int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skip(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	require.NoError(p.t, err)
	return pages * int64(os.Getpagesize())
}

// TestInfoMemoryAddsUp: the fields of INFO memory, one for each who holds memory, add up to what the kernel has given,
// when the server has just begun and after a load.
func TestInfoMemoryAddsUp(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	p := start(t, "--dir", t.TempDir()+"/d", "--log-dir", "stdout", "--memory-budget-mb", "400")
	look := func(when string, slack int64) {
		t.Helper()
		// Memory that was freed goes back to the system, flushes and compactions end: then the figures agree.
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			info := p.do("INFO", "memory")
			sum, have := p.field(info, "used_memory_accounted"), p.resident()
			if sum >= have*9/10 && sum <= have*11/10+slack {
				t.Logf("%s: %d KiB of %d are accounted for", when, sum>>10, have>>10)
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %d KiB are accounted for, the process has %d\n%s", when, sum>>10, have>>10, info)
			}
		}
	}
	look("at the start", 16<<20) // Go has reserved some memory that it has not used
	p.load(60000)
	look("after a load", 0)
	info := p.do("INFO", "memory")
	if budget := p.field(info, "memory_budget"); budget != 400<<20 || p.resident() > budget {
		t.Errorf("the process has %d KiB, the budget is %d", p.resident()>>10, budget>>10)
	}
	var sum int64
	for _, name := range []string{"block_cache", "memtables", "memtables_free", "table_readers", "record_cache",
		"derived_state",
		"client_buffers", "go_other", "native_other", "program", "allocator_free"} {
		sum += p.field(info, "used_memory_"+name)
	}
	if have := p.field(info, "used_memory_accounted"); sum != have {
		t.Errorf("the fields add up to %d, not %d", sum, have)
	}
	p.stop(syscall.SIGTERM)
}

// newMemoryGroup makes a control group for the time of the test, below that of this process, with a limit in bytes. It
// returns its directory and the name of the file that counts processes which the kernel has killed.
func newMemoryGroup(t *testing.T, limit int64) (dir, events string) {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		var mount, file string
		switch {
		case len(parts) < 3:
			continue
		case strings.Contains(","+parts[1]+",", ",memory,"):
			mount, file, events = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"
		case parts[0] == "0" && parts[1] == "":
			mount, file, events = "/sys/fs/cgroup", "memory.max", "memory.events"
		default:
			continue
		}
		dir = filepath.Join(mount, parts[2], fmt.Sprintf("basalt-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // until the last process is gone
				if err := os.Remove(dir); err == nil || time.Now().After(end) {
					return
				}
			}
		})
		if os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, limit, 10), 0) == nil {
			return dir, events
		}
	}
	t.Skip("no control group for memory can be made here")
	return "", ""
}

// TestSmallContainer: in a container whose memory is less than the defaults would like the server takes less and is not
// killed. Values are small; docs/operations.md says what large ones take.
func TestSmallContainer(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	const limit = 256 << 20
	group, events := newMemoryGroup(t, limit)
	p := spawnIn(t, group, "--dir", t.TempDir()+"/d", "--log-dir", "stdout")
	line := p.await("memory: ")
	if !strings.Contains(line, "budget 64 MiB (chosen) of 256 MiB cgroup") {
		t.Error(line)
	}
	p.ready(p.await(" ready "))
	for range 2 {
		p.load(120000)
	}
	// The memory of compactions and garbage is returned within seconds after the load.
	end := time.Now().Add(patience)
	for p.resident() > limit/2 {
		if time.Now().After(end) {
			t.Fatalf("%d MiB are resident\n%s", p.resident()>>20, p.do("INFO", "memory"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d MiB are resident", p.resident()>>20)
	p.stop(syscall.SIGTERM)
	notKilled(t, path.Join(group, events))
}

// notKilled checks that the kernel has killed no process of a group.
func notKilled(t *testing.T, events string) {
	t.Helper()
	for line := range strings.Lines(string(require.File(t, events))) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok && strings.TrimSpace(n) != "0" {
			t.Errorf("the kernel has killed %s processes", strings.TrimSpace(n))
		}
	}
}

// TestTooLargeForContainer: commands whose results do not fit into the memory fail, and the server goes on.
func TestTooLargeForContainer(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	group, events := newMemoryGroup(t, 256<<20)
	p := spawnIn(t, group, "--dir", t.TempDir()+"/d", "--log-dir", "stdout")
	p.ready(p.await(" ready "))
	const elems, per = 1_000_000, 500
	p.pipe(elems/per, func(i int) []string {
		words := make([]string, 0, 2+2*per)
		words = append(words, "HSET", "h")
		for j := range per {
			n := i*per + j
			words = append(words, fmt.Sprintf("field:%09d", n*7919%elems), fmt.Sprintf("value:%016d", n))
		}
		return words
	})
	for _, c := range []struct {
		command []string
		fault   string
	}{
		{[]string{"EVAL", "return redis.call('HGETALL', KEYS[1])", "1", "h"}, "needs more memory than lua-memory-limit-mb"},
		{[]string{"COPY", "h", "copy"}, "the write batch is larger than"},
	} {
		if got := p.do(c.command...); !strings.Contains(got, c.fault) {
			t.Errorf("%s: %.200q", c.command, got)
		}
	}
	p.want(strconv.Itoa(elems), "HLEN", "h")
	p.stop(syscall.SIGTERM)
	notKilled(t, path.Join(group, events))
}
