// Package lua runs Lua scripts as Redis does: the language is Lua 5.1 with the libraries that Redis has. It knows
// nothing of connections and keys: the commands that a script calls go to a [Host].
//
// A script cannot reach anything but its own values and the commands. What it may take of memory and how long it may
// run is bounded, see [Options].
package lua

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/server/resp"
)

// Options are the bounds of scripts. The functions are called often and by any goroutine.
type Options struct {
	// MemoryLimit returns by how many bytes the heap may grow while a script runs, before the script is stopped.
	MemoryLimit func() int64
	// TimeLimit returns after which time a script counts as slow, 0 = never.
	TimeLimit func() time.Duration
	// Version is what redis.REDIS_VERSION says, "7.2.5".
	Version string
	// States is how many scripts can run at once.
	States int
	// Slow is called once for a script that has run longer than TimeLimit.
	Slow func(name string, took time.Duration)
}

// Bounds of the cache of scripts.
const (
	maxScripts     = 1000
	maxScriptBytes = 32 << 20 // of sources
)

// Engine compiles and runs scripts. Its methods may be called by any goroutine.
type Engine struct {
	options Options
	random  random

	mu       sync.RWMutex
	byText   map[string]*Script
	bySHA    map[string]*Script
	size     int // bytes of the sources
	flushes  int // how often the cache was emptied
	clock    atomic.Int64
	evicted  atomic.Int64 // scripts dropped because the cache was full
	maxCache int

	slots chan struct{} // one for each script that runs
	// full is closed when all of them are slow, of which slowest are; guarded by runs.
	full    chan struct{}
	slowest int
	// keyless is how many slow scripts and functions run that were called without keys; written under runs.
	keyless [2]atomic.Int32

	free struct {
		sync.Mutex
		states []*state
	}
	runs struct {
		sync.Mutex
		list map[*state]*Run
	}
	stopping atomic.Bool
	slow     atomic.Int32 // scripts that have run longer than the limit and still run; changed with runs locked
}

// New makes an engine.
func New(o Options) *Engine {
	e := &Engine{options: o, byText: map[string]*Script{}, bySHA: map[string]*Script{}, maxCache: maxScripts}
	e.slots = make(chan struct{}, max(o.States, 1))
	e.full = make(chan struct{})
	e.runs.list = map[*state]*Run{}
	e.random.x.Store(randomStart)
	return e
}

// Script returns the compiled script of a source, from the cache if it is there.
func (e *Engine) Script(source []byte) (*Script, error) {
	e.mu.RLock()
	s := e.byText[string(source)]
	e.mu.RUnlock()
	if s != nil {
		s.used.Store(e.clock.Add(1))
		return s, nil
	}
	s, err := newScript(source)
	if err != nil {
		return nil, err
	}
	return e.Keep(s), nil
}

// Compile returns the compiled script of a source and does not put it into the cache.
func (e *Engine) Compile(source []byte) (*Script, error) {
	e.mu.RLock()
	s := e.byText[string(source)]
	e.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	return newScript(source)
}

// Flushes returns how often the cache was emptied, for KeepSince.
func (e *Engine) Flushes() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.flushes
}

// KeepSince is Keep for a script that was found elsewhere before; not when the cache was emptied meanwhile.
func (e *Engine) KeepSince(s *Script, flushes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flushes == flushes {
		e.keep(s)
	}
}

// Keep puts a script into the cache, and returns the one that is there if there is one.
func (e *Engine) Keep(s *Script) *Script {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keep(s)
}

func (e *Engine) keep(s *Script) *Script {
	if old := e.byText[s.source]; old != nil {
		return old
	}
	s.used.Store(e.clock.Add(1))
	e.byText[s.source], e.bySHA[s.sha] = s, s
	e.size += len(s.source)
	for len(e.byText) > 1 && (len(e.byText) > e.maxCache || e.size > maxScriptBytes) {
		e.evict()
	}
	return s
}

// evict drops those scripts that were not used for the longest time: an eighth of all, so that it is rarely needed.
func (e *Engine) evict() {
	now := e.clock.Load()
	oldest := now
	for _, s := range e.byText {
		oldest = min(oldest, s.used.Load())
	}
	until := oldest + (now-oldest)/8
	for text, s := range e.byText {
		if s.used.Load() <= until {
			delete(e.byText, text)
			delete(e.bySHA, s.sha)
			e.size -= len(text)
			e.evicted.Add(1)
		}
	}
}

// Evicted returns how many scripts were dropped because the cache was full.
func (e *Engine) Evicted() int64 { return e.evicted.Load() }

// Lookup returns the script with a SHA-1 if it is in the cache, nil if not. Letters may be of any case.
func (e *Engine) Lookup(sha []byte) *Script {
	var name [40]byte
	if len(sha) != len(name) {
		return nil
	}
	for i, c := range sha {
		if c >= 'A' && c <= 'F' {
			c |= 0x20
		}
		name[i] = c
	}
	e.mu.RLock()
	s := e.bySHA[string(name[:])]
	e.mu.RUnlock()
	if s != nil {
		s.used.Store(e.clock.Add(1))
	}
	return s
}

// Flush forgets all scripts.
func (e *Engine) Flush() {
	e.mu.Lock()
	clear(e.byText)
	clear(e.bySHA)
	e.size = 0
	e.flushes++
	e.mu.Unlock()
}

// Cached returns how many scripts are in the cache, and the bytes of their sources.
func (e *Engine) Cached() (scripts, size int) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.byText), e.size
}

// StateBytes is about how many bytes one virtual machine takes with its libraries, before it has run anything.
const StateBytes = 128 << 10

// States returns how many virtual machines there are.
func (e *Engine) States() int {
	e.free.Lock()
	defer e.free.Unlock()
	return len(e.free.states) + len(e.slots)
}

// Slow reports whether a script runs that has exceeded the time limit.
func (e *Engine) Slow() bool { return e.slow.Load() > 0 }

// Busy reports whether a script or a function that was called without keys, and so may touch any, has exceeded the time
// limit.
func (e *Engine) Busy() (script, function bool) {
	return e.keyless[0].Load() > 0, e.keyless[1].Load() > 0
}

var (
	// errBusy: as many slow scripts run as there can be at once.
	errBusy = &Stopped{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."}
	// errBusyFunction: a slow function of a library that keeps something between calls runs.
	errBusyFunction = &Stopped{"BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."}
)

// wait takes one of the slots, as soon as there is one; errBusy when it may take for ever.
func (e *Engine) wait() error {
	select {
	case e.slots <- struct{}{}:
		return nil
	default:
	}
	e.runs.Lock()
	full := e.full
	e.runs.Unlock()
	select {
	case e.slots <- struct{}{}:
		return nil
	case <-full:
		return errBusy
	}
}

// noteSlow counts that a state runs something slow, or no longer; runs is locked.
func (e *Engine) noteSlow(st *state, slow bool) {
	n := int32(1)
	if !slow {
		n = -1
	}
	e.slow.Add(n)
	if len(st.run.Keys) == 0 {
		kind := 0
		if st.run.Function != nil {
			kind = 1
		}
		e.keyless[kind].Add(n)
	}
	if r := st.resident; r != nil {
		if slow {
			close(r.busy)
		} else {
			r.busy = make(chan struct{})
		}
		return
	}
	all := cap(e.slots)
	before := e.slowest
	e.slowest += int(n)
	switch {
	case before < all && e.slowest >= all:
		close(e.full)
	case before >= all && e.slowest < all:
		e.full = make(chan struct{})
	}
}

// take returns a state for one run.
func (e *Engine) take() (*state, error) {
	if err := e.wait(); err != nil {
		return nil, err
	}
	e.free.Lock()
	var st *state
	if n := len(e.free.states); n > 0 {
		st = e.free.states[n-1]
		e.free.states = e.free.states[:n-1]
	}
	e.free.Unlock()
	if st == nil {
		st = newState(e)
	}
	return st, nil
}

// put takes a state back.
func (e *Engine) put(st *state) {
	if st != nil {
		e.free.Lock()
		e.free.states = append(e.free.states, st)
		e.free.Unlock()
	}
	<-e.slots
}

// Run is one call of a script or a function.
type Run struct {
	Script *Script
	// Function is what is called instead of a script.
	Function *Function
	Keys     [][]byte
	Args     [][]byte
	Host     Host
	// Command is what has called the function, FCALL or FCALL_RO as the client wrote it, for Running.
	Command string
	// Final: the host will not undo the run by ErrAgain.
	Final bool
	// Out gets the reply. Its Proto is that of the client.
	Out *resp.Writer

	started time.Time
}

// name returns what errors call the script.
func (r *Run) name() string {
	if r.Function != nil {
		return r.Function.name
	}
	return r.Script.sha
}

// Host runs the commands that scripts call.
type Host interface {
	// Call runs a command and writes its reply, an error too, to out. An error that it returns ends the script at once,
	// with no reply: Engine.Run returns it. With ErrAgain the variables of a library are what they were before the run.
	Call(args [][]byte, out *resp.Writer) error
	// Allowed reports whether the user may run a command; known is false when there is no such command.
	Allowed(args [][]byte) (allowed, known bool)
	// Lasts is called now and then while a script runs that takes some time, between two commands. slow: it has run longer
	// than Options.TimeLimit. An error ends the script as one of Call does.
	Lasts(took time.Duration, slow bool) error
	// Failed is told of an error that the script replies. counted: it is the error of a command.
	Failed(text string, counted bool)
	// Log writes to the log; level is 0 (debug) to 3 (warning).
	Log(level int, message string)
}

// Error is an error that a script has raised. What it has written before stays.
type Error struct {
	// Text is the whole reply, with its code.
	Text string
	// Counted: a command has given the error, and the script has not caught it or has raised it again.
	Counted bool
}

func (e *Error) Error() string { return e.Text }

// Stopped is the error of a script that was stopped from outside: what it has written is to be undone.
type Stopped struct{ Text string }

func (e *Stopped) Error() string { return e.Text }
