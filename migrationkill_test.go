package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/ingeststep"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/cluster/migration/carry"
	migrationsource "github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
	"github.com/basaltdb/basalt/server/servertest"
)

// stopsDir is the variable with the name of the directory of [stops].
const stopsDir = "BASALT_TEST_STOPS"

// filesFrom is the variable with the min size in bytes of a range that goes by table files.
const filesFrom = "BASALT_TEST_FILES_FROM"

// pauseLimit is the variable with the time limit of the last writes of a migration, and of the destination's reply.
const pauseLimit = "BASALT_TEST_PAUSE_LIMIT"

func stopAtSteps() {
	if n, err := strconv.ParseUint(os.Getenv(filesFrom), 10, 64); err == nil {
		carry.FilesFrom = n
	}
	if d, err := time.ParseDuration(os.Getenv(pauseLimit)); err == nil {
		migrationsource.StandardLimits.Rest, migrationsource.StandardLimits.Answer = d, d
	}
	if dir := stops(os.Getenv(stopsDir)); dir != "" {
		stage.Step = func(s stage.Stage) { dir.pass(string(s)) }
		ingeststep.Reached = func(s ingeststep.Step) { dir.pass(string(s)) }
	}
}

// stops is a directory. A process stops before a step while the directory has a file with the name of the step. When it
// stops, it writes to the file.
type stops string

func (d stops) file(step string) string { return filepath.Join(string(d), step) }

func (d stops) pass(step string) {
	path := d.file(step)
	if _, err := os.Stat(path); err != nil {
		return
	}
	os.WriteFile(path, []byte("here"), 0o644)
	for _, err := os.Stat(path); err == nil; _, err = os.Stat(path) {
		time.Sleep(time.Millisecond)
	}
}

// set makes the process stop at a step.
func (d stops) set(t testing.TB, step string) {
	t.Helper()
	require.NoError(t, os.WriteFile(d.file(step), nil, 0o644))
}

// await waits until the process has stopped there.
func (d stops) await(t testing.TB, step string) {
	t.Helper()
	servertest.Eventually(t, fmt.Sprintf("a process stops at %q", step), func() bool {
		text, _ := os.ReadFile(d.file(step))
		return len(text) > 0
	})
}

// remove lets the process continue, or not stop any more.
func (d stops) remove(step string) { os.Remove(d.file(step)) }

// clusterNode is a process that is a node of a cluster. The other nodes connect to it through a proxy.
type clusterNode struct {
	t     *testing.T
	id    string
	dir   string
	stops stops
	args  []string
	proxy *servertest.Proxy
	proc  *process
	at    atomic.Pointer[string] // where clients reach it

	logged sync.Map // the lines of its log since it was last started
}

func newClusterNode(t *testing.T, letter string, args ...string) *clusterNode {
	n := &clusterNode{t: t, id: strings.Repeat(letter, 40), dir: filepath.Join(t.TempDir(), letter),
		proxy: servertest.NewProxy(t, "")}
	n.args = append([]string{"--dir", n.dir, "--log-dir", "stdout", "--bind", "127.0.0.1", "--cluster-enabled", "yes",
		"--migrate-speed", "0"}, args...)
	n.stops = stops(filepath.Join(n.dir, "stops"))
	require.NoError(t, os.MkdirAll(string(n.stops), 0o755))
	n.start()
	n.want("+OK", "CLUSTERX", "SETNODEID", n.id)
	return n
}

// start starts the process.
func (n *clusterNode) start() {
	n.t.Helper()
	cmd := basalt(n.t, append([]string{"--port", "0"}, n.args...)...)
	cmd.Env = append(cmd.Env, stopsDir+"="+string(n.stops))
	n.proc = follow(n.t, cmd)
	n.proc.ready(n.proc.await(" ready "))
	n.at.Store(&n.proc.addr)
	n.proxy.Target(n.proc.addr)
	n.logged.Clear()
	go func(p *process) {
		for line := range p.lines {
			n.logged.Store(line, nil)
		}
	}(n.proc)
}

// says waits until the log of the node has a line with a text.
func (n *clusterNode) says(text string) {
	n.t.Helper()
	servertest.Eventually(n.t, fmt.Sprintf("%s logs %q", n.id[:1], text), func() (found bool) {
		n.logged.Range(func(line, _ any) bool {
			found = strings.Contains(line.(string), text)
			return !found
		})
		return found
	})
}

func (n *clusterNode) kill() {
	n.proc.cmd.Process.Kill()
	n.proc.cmd.Wait()
}

func (n *clusterNode) runs() bool { return n.proc.cmd.ProcessState == nil }

// stopAt makes the next migration stop at a step.
func (n *clusterNode) stopAt(step stage.Stage) {
	n.t.Helper()
	n.stops.set(n.t, string(step))
}

// stopped waits until the migration has stopped there.
func (n *clusterNode) stopped(step stage.Stage) {
	n.t.Helper()
	n.stops.await(n.t, string(step))
}

// goOn lets the migration continue, or not stop any more.
func (n *clusterNode) goOn(step stage.Stage) { n.stops.remove(string(step)) }

func (n *clusterNode) do(args ...string) string {
	n.t.Helper()
	r := newRoamer(n.t, []*clusterNode{n}, 0)
	defer r.close()
	reply, _, err := r.ask(0, args)
	if err != nil {
		n.t.Fatalf("%q: %v", args, err)
	}
	return reply
}

func (n *clusterNode) want(reply string, args ...string) {
	n.t.Helper()
	if got := n.do(args...); got != reply+"\r\n" {
		n.t.Fatalf("%q: %q, want %q", args, got, reply)
	}
}

// info returns a field of CLUSTER INFO.
func (n *clusterNode) info(field string) string {
	n.t.Helper()
	_, rest, ok := strings.Cut(n.do("CLUSTER", "INFO"), field+": ")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// mover is a cluster of two shards between which slots move, under a load.
type mover struct {
	t       *testing.T
	nodes   []*clusterNode
	shards  [2][]*clusterNode // the master first
	slots   cf.SlotRange
	by      way
	tags    []string // of the slots
	fixed   []string // keys that nobody changes
	owner   int      // which shard has the slots
	version int
	load    *modelLoad
}

// startMover starts two shards; those that are named have a replica each.
func startMover(t *testing.T, slots cf.SlotRange, by way, replicas ...int) *mover {
	t.Helper()
	t.Setenv(pauseLimit, "3s") // a disk that is slow to sync fails no migration
	args := []string{"--migrate-batch-rate-limit-mb", "0", "--migrate-type", "raw-key-value"}
	switch by {
	case commands:
		args[3] = "redis-command"
	case tableFiles:
		args = append(args, "--migrate-batch-size-kb", "1") // so that the keys are several batches
		t.Setenv(filesFrom, "1")
	}
	m := &mover{t: t, slots: slots, by: by, tags: tagsOf(slots)}
	for i, shard := range append([]int{0, 1}, replicas...) {
		n := newClusterNode(t, string(rune('a'+i)), args...)
		m.nodes = append(m.nodes, n)
		m.shards[shard] = append(m.shards[shard], n)
	}
	m.tell(0)
	for _, shard := range replicas {
		m.caughtUp(shard)
	}
	c := newRoamer(t, m.nodes, 9)
	defer c.close()
	for i := range 600 {
		key := fmt.Sprintf("{%s}fixed:%d", m.tags[i%len(m.tags)], i)
		m.fixed = append(m.fixed, key)
		if reply, _ := c.do("SET", key, key); reply != "+OK\r\n" {
			t.Fatal(reply)
		}
	}
	m.load = startLoad(t, m.nodes, m.tags, 4)
	return m
}

// tagsOf returns a hash tag for each slot.
func tagsOf(slots cf.SlotRange) []string {
	tags := make([]string, int(slots.Last-slots.First)+1)
	for i, left := 0, len(tags); left > 0; i++ {
		tag := "t" + strconv.Itoa(i)
		if s := cf.Slot([]byte(tag)); s >= slots.First && s <= slots.Last && tags[s-slots.First] == "" {
			tags[s-slots.First] = tag
			left--
		}
	}
	return tags
}

// master returns the master of a shard.
func (m *mover) master(shard int) *clusterNode { return m.shards[shard][0] }

// migrate begins to move the slots to the other shard.
func (m *mover) migrate() {
	m.t.Helper()
	m.master(m.owner).want("+OK", "CLUSTERX", "MIGRATE", m.slots.String(), m.master(1-m.owner).id)
}

// end waits for the end of a migration and reports whether the slots have moved.
func (m *mover) end(source *clusterNode) (moved bool) {
	m.t.Helper()
	servertest.Eventually(m.t, "the end of the migration", func() bool {
		return source.info("migrating_state") != "start"
	})
	moved = strings.HasPrefix(source.do("GET", "{"+m.tags[0]+"}fixed:0"), "-MOVED ")
	if state := source.info("migrating_state"); moved != (state == "success") {
		m.t.Errorf("moved: %v, and CLUSTER INFO says %q", moved, state)
	}
	return moved
}

// settle completes the migration: a controller assigns the slots to the new owner, or starts the migration again. Then
// settle checks everything.
func (m *mover) settle(source *clusterNode) {
	m.t.Helper()
	m.load.more(20)
	if !m.end(source) {
		m.migrate()
		if !m.end(source) {
			m.t.Fatal("without a fault the slots do not move")
		}
		m.load.more(20)
	}
	m.tell(1 - m.owner)
	m.load.more(20)
	m.check()
}

// takesFiles reports whether the next migration goes by table files: a destination with a replica takes none.
func (m *mover) takesFiles() bool { return m.by == tableFiles && len(m.shards[1-m.owner]) == 1 }

// home brings the slots back if the next migration would go by batches, although this one was by table files.
func (m *mover) home() {
	m.t.Helper()
	if m.by == tableFiles && m.owner == 1 && len(m.shards[0]) > 1 && len(m.shards[1]) == 1 {
		source := m.master(1)
		m.migrate()
		m.settle(source)
		source.says("the destination takes no table files")
	}
}

// check compares what there is with what must be: all keys at their owner, none of them at the other node, and a
// replica that runs has what its master has.
func (m *mover) check() {
	m.t.Helper()
	m.load.pause()
	defer m.load.resume()
	want := append(m.load.live(), m.fixed...)
	slices.Sort(want)
	var at [2][]string
	for i := range m.shards {
		n := m.master(i)
		for _, key := range replyWords(n.do("KEYS", "*")) {
			if s := cf.Slot([]byte(key)); s >= m.slots.First && s <= m.slots.Last {
				at[i] = append(at[i], key)
			}
		}
		slices.Sort(at[i])
		if got, size := n.do("DBSIZE"), fmt.Sprintf(":%d\r\n", len(at[i])); got != size {
			m.t.Errorf("node %s has %s keys, and DBSIZE says %s", n.id[:1], size, got)
		}
	}
	if !slices.Equal(at[m.owner], want) {
		m.t.Errorf("the owner has %d keys, and should have %d", len(at[m.owner]), len(want))
	}
	if n := len(at[1-m.owner]); n != 0 {
		m.t.Errorf("the other node has kept %d keys", n)
	}
	for _, key := range m.fixed {
		if got := replyWords(m.master(m.owner).do("GET", key)); !slices.Equal(got, []string{key}) {
			m.t.Errorf("%s is %q", key, got)
		}
	}
	for shard := range m.shards {
		if len(m.shards[shard]) > 1 && m.shards[shard][1].runs() {
			m.sameKeys(shard)
		}
	}
}

// way is the way in which the keys of a migration are sent.
type way string

const (
	commands   way = "commands"
	batches    way = "batches"
	tableFiles way = "table files"
)

// sourceSteps and destinationSteps are the steps at which a process is stopped and one of the two is killed. fileSteps
// are additional steps of a destination with table files.
var (
	sourceSteps = []stage.Stage{stage.Start, stage.Snapshot, stage.Log,
		stage.Forbidden, stage.Rest, stage.Success, stage.Moved, stage.Done}
	destinationSteps = []stage.Stage{stage.Importing, stage.ImportBegun, stage.Imported,
		stage.ImportedKept, stage.ImportEnded}
	fileSteps = []stage.Stage{stage.FilesBegun, stage.FilesCame, stage.FilesAll, stage.Ingested}
)

// moves are the migrations that the tests of faults make: single slots and ranges, by all ways, and with replicas.
var moves = []struct {
	slots    cf.SlotRange
	by       way
	replicas []int // shards with a replica
}{
	{cf.SlotRange{First: 1, Last: 40}, tableFiles, nil},
	{cf.SlotRange{First: 1, Last: 1}, commands, nil},
	{cf.SlotRange{First: 1, Last: 40}, batches, nil},
	{cf.SlotRange{First: 1, Last: 40}, commands, nil},
	{cf.SlotRange{First: 1, Last: 1}, batches, nil},
	{cf.SlotRange{First: 1, Last: 1}, tableFiles, nil},
	{cf.SlotRange{First: 1, Last: 40}, tableFiles, []int{0}},
	{cf.SlotRange{First: 1, Last: 40}, tableFiles, []int{0, 1}}, // refused: they go by batches
}

// destinationSteps returns the steps of the destination of the next migration.
func (m *mover) destinationSteps() []stage.Stage {
	if m.takesFiles() {
		return slices.Concat(destinationSteps, fileSteps)
	}
	return destinationSteps
}

// eachMove runs a test with each kind of migration; with -short, with some of them.
func eachMove(t *testing.T, short []int, f func(t *testing.T, m *mover)) {
	for i, mv := range moves {
		if testing.Short() && !slices.Contains(short, i) {
			continue
		}
		name := fmt.Sprintf("%s/%s", mv.slots, mv.by)
		if mv.replicas != nil {
			name += fmt.Sprint("/replicas of ", mv.replicas)
		}
		t.Run(name, func(t *testing.T) {
			m := startMover(t, mv.slots, mv.by, mv.replicas...)
			m.load.resume()
			f(t, m)
		})
	}
}

// TestMigrationKilled kills the source or the destination of a migration at each step of either one, starts it again,
// and completes the migration.
func TestMigrationKilled(t *testing.T) {
	type kill struct {
		atSource, sourceDies bool
		step                 stage.Stage
	}
	turn := 0
	eachMove(t, []int{0, 1, 2}, func(t *testing.T, m *mover) {
		var kills []kill
		for _, dies := range []bool{true, false} {
			for _, step := range sourceSteps {
				kills = append(kills, kill{true, dies, step})
			}
			for _, step := range m.destinationSteps() {
				kills = append(kills, kill{false, dies, step})
			}
		}
		for _, k := range kills {
			files := slices.Contains(fileSteps, k.step)
			if turn++; testing.Short() && turn%4 != 0 && (!files || k.sourceDies) {
				continue
			}
			source, destination := m.master(m.owner), m.master(1-m.owner)
			stops, dies := source, source
			if !k.atSource {
				stops = destination
			}
			if !k.sourceDies {
				dies = destination
			}
			stops.stopAt(k.step)
			m.migrate()
			stops.stopped(k.step)
			if k.atSource && slices.Contains(sourceSteps[:3], k.step) {
				m.load.more(1)
			}
			dies.kill()
			stops.goOn(k.step)
			dies.start()
			m.settle(source)
			m.home()
			if t.Failed() {
				t.Fatalf("after the kill: at the source's step: %v, the source dies: %v, %q", k.atSource, k.sourceDies, k.step)
			}
		}
	})
}

// TestMigrationCut does with the connection between source and destination what networks do, at each step at which the
// source has one, and while the destination has table files. Clients reach both nodes all the time: their writes go on
// whatever happens to it.
func TestMigrationCut(t *testing.T) {
	for n, fault := range []struct {
		name  string
		quiet bool // the clients pause: they write faster than the connection carries it
		do    func(m *mover, p *servertest.Proxy)
		undo  func(m *mover, p *servertest.Proxy)
	}{
		{"cut", false, func(_ *mover, p *servertest.Proxy) { p.Cut() }, nil},
		{"refused for a while", false, func(_ *mover, p *servertest.Proxy) { p.Target(""); p.Cut() },
			func(m *mover, p *servertest.Proxy) { m.load.more(50); p.Target(*m.master(1 - m.owner).at.Load()) }},
		{"delayed", true, func(_ *mover, p *servertest.Proxy) { p.Slow(0, 3*time.Millisecond) },
			func(m *mover, p *servertest.Proxy) { m.end(m.master(m.owner)); p.Slow(0, 0) }},
		{"byte by byte", true, func(_ *mover, p *servertest.Proxy) { p.Slow(1, 0) },
			func(m *mover, p *servertest.Proxy) { m.end(m.master(m.owner)); p.Slow(0, 0) }},
		{"half-open for a while", false, func(_ *mover, p *servertest.Proxy) { p.Hold(true) },
			func(m *mover, p *servertest.Proxy) { m.load.more(50); p.Hold(false) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			eachMove(t, []int{n % len(moves)}, func(t *testing.T, m *mover) {
				steps := sourceSteps[1:7]
				if m.takesFiles() {
					steps = slices.Concat(steps, fileSteps)
				}
				for i, step := range steps {
					if testing.Short() && (n+i)%3 != 0 {
						continue
					}
					source, p := m.master(m.owner), m.master(1-m.owner).proxy
					stops := source
					if slices.Contains(fileSteps, step) {
						stops = m.master(1 - m.owner)
					}
					if fault.quiet {
						m.load.pause()
					}
					stops.stopAt(step)
					m.migrate()
					stops.stopped(step)
					fault.do(m, p)
					stops.goOn(step)
					if fault.undo != nil {
						fault.undo(m, p)
					}
					if fault.quiet {
						m.load.resume()
					}
					m.settle(source)
					m.home()
					if t.Failed() {
						t.Fatalf("at the step %q", step)
					}
				}
			})
		})
	}
}
