package torture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/scripts/internal/launch"
)

// basaltProgram returns the path of the program: BASALT_BIN, or a new build of
// this repository.
func basaltProgram(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BASALT_BIN"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "basalt")
	build := exec.Command("go", "build", "-o", path, "github.com/basaltdb/basalt")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// short returns the options of a run of a few seconds.
func short(t *testing.T, command launch.Command) Options {
	return Options{
		Command: command,
		Dir:     t.TempDir(),
		Rounds:  3,
		Writers: 4,
		MinLoad: 200 * time.Millisecond,
		MaxLoad: 600 * time.Millisecond,
		Log:     t.Logf,
	}
}

func TestBasaltLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: see make crash")
	}
	// Small write buffers, so that kills also hit flushes and compactions.
	program := basaltProgram(t)
	o := short(t, launch.Basalt(program, "--rocksdb.write_buffer_size", "1"))
	o.Killed = Check(program)
	require.NoError(t, Run(o))
}

// A server that persists every write passes.
func TestDurableRedisPasses(t *testing.T) {
	require.NoError(t, Run(short(t, launch.DurableRedis)))
}

// A server that does not persist its writes fails: the torture detects lost
// writes.
func TestVolatileRedisFails(t *testing.T) {
	err := Run(short(t, launch.Redis))
	if err == nil || !strings.Contains(err.Error(), "acknowledged writes are missing or changed") {
		t.Fatalf("got %v, want lost writes", err)
	}
}

func TestSettle(t *testing.T) {
	g := generator{id: "w1:"}
	setOp := func(key, v string) op {
		return op{[]string{"SET", key, v}, func(s *state) string { s.strings[key] = v; return "+OK" }}
	}
	inFlight := []op{setOp("a", "1"), setOp("b", "2"), setOp("c", "3")}
	for _, tt := range []struct {
		name string
		got  map[string]string
		ok   bool
	}{
		{"none in flight took effect", map[string]string{"acked": "0"}, true},
		{"the first took effect", map[string]string{"acked": "0", "a": "1"}, true},
		{"all took effect", map[string]string{"acked": "0", "a": "1", "b": "2", "c": "3"}, true},
		{"one was skipped", map[string]string{"acked": "0", "b": "2"}, false},
		{"an acknowledged one is lost", map[string]string{"a": "1"}, false},
		{"an acknowledged one is changed", map[string]string{"acked": "9"}, false},
		{"a key that nobody wrote exists", map[string]string{"acked": "0", "z": "1"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &writer{gen: g, expect: newState(), inFlight: inFlight}
			w.expect.strings["acked"] = "0"
			got := newState()
			got.strings = tt.got
			err := w.settle(got)
			if (err == nil) != tt.ok {
				t.Fatalf("got %v", err)
			}
			if tt.ok && w.expect.diff(got) != "" {
				t.Error("the state found was not adopted")
			}
		})
	}
}

func TestDiff(t *testing.T) {
	base := func() *state {
		s := newState()
		s.strings["s"] = "v"
		s.lists["l"] = []string{"a", "b"}
		s.set("h", "f", "v")
		s.set("set", "m", "")
		s.set("z", "m", "5")
		return s
	}
	if d := base().diff(base()); d != "" {
		t.Fatalf("equal states differ: %s", d)
	}
	for _, tt := range []struct {
		name   string
		change func(*state)
		want   string
	}{
		{"string", func(s *state) { s.strings["s"] = "w" }, `s is "w", expected "v"`},
		{"string gone", func(s *state) { delete(s.strings, "s") }, `s is missing, expected "v"`},
		{"list order", func(s *state) { s.lists["l"] = []string{"b", "a"} }, `at index 0 "b", expected "a"`},
		{"list cut", func(s *state) { s.lists["l"] = []string{"a"} }, `1 elements, expected 2; at index 1 nothing`},
		{"field", func(s *state) { s.set("h", "g", "w") }, "h: g is w, expected to be absent"},
		{"set member", func(s *state) { s.remove("set", "m") }, "set: m is missing"},
		{"score", func(s *state) { s.set("z", "m", "6") }, "z: m is 6, expected 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := base()
			tt.change(got)
			if d := base().diff(got); !strings.Contains(d, tt.want) {
				t.Errorf("got %q, want %q in it", d, tt.want)
			}
		})
	}
}

func TestShareFindsTheWriterOfEachMember(t *testing.T) {
	shared := newState()
	shared.set(sharedSet, "w1:m5", "")
	states := map[string]*state{"w1:": newState()}
	require.NoError(t, share(shared, states))
	if _, found := states["w1:"].members[sharedSet]["w1:m5"]; !found {
		t.Error("the member is not in its writer's state")
	}
	shared.set(sharedZset, "w2:m5", "1")
	if err := share(shared, states); err == nil {
		t.Error("a member of a writer that does not exist was accepted")
	}
}
