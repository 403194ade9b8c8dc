// Package lua runs Lua scripts as Redis does: Lua 5.1 with Redis's libraries. It knows neither connections nor keys:
// commands that a script calls are passed to a [Host].
//
// A script can only access its own values and call commands. Its memory and its run time are limited, see [Options].
package lua

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/server/resp"
)

// Options are the limits of scripts. The functions are called often and by any goroutine.
type Options struct {
	// MemoryLimit returns by how many bytes the heap may grow while a script runs. Beyond that the script is stopped.
	MemoryLimit func() int64
	// TimeLimit returns the time after which a script counts as slow, 0 = never.
	TimeLimit func() time.Duration
	// Version is the value of redis.REDIS_VERSION, such as "7.2.5".
	Version string
	// States is the max number of scripts that run at the same time.
	States int
	// Slow is called once for each script that exceeds TimeLimit.
	Slow func(name string, took time.Duration)
}

// Limits of the script cache.
const (
	maxScripts     = 1000
	maxScriptBytes = 32 << 20 // total size of sources
)

// Engine compiles and runs scripts. Its methods are safe for concurrent use.
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
	// keyless is the number of slow scripts and functions that were called without keys; written under runs.
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
	slow     atomic.Int32 // running scripts that have exceeded the time limit; changed with runs locked
}

func New(o Options) *Engine {
	e := &Engine{options: o, byText: map[string]*Script{}, bySHA: map[string]*Script{}, maxCache: maxScripts}
	e.slots = make(chan struct{}, max(o.States, 1))
	e.full = make(chan struct{})
	e.runs.list = map[*state]*Run{}
	e.random.x.Store(randomStart)
	return e
}

// Script returns the compiled script of a source, from the cache if possible.
func (e *Engine) Script(source []byte) (*Script, error) {
	if s := e.cached(source); s != nil {
		s.used.Store(e.clock.Add(1))
		return s, nil
	}
	s, err := newScript(source)
	if err != nil {
		return nil, err
	}
	return e.Keep(s), nil
}

// Compile returns the compiled script of a source without adding it to the cache.
func (e *Engine) Compile(source []byte) (*Script, error) {
	if s := e.cached(source); s != nil {
		return s, nil
	}
	return newScript(source)
}

func (e *Engine) cached(source []byte) *Script {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.byText[string(source)]
}

// Flushes returns the number of times that the cache was emptied, for KeepSince.
func (e *Engine) Flushes() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.flushes
}

// KeepSince is Keep for a script that was found elsewhere, unless the cache was emptied meanwhile.
func (e *Engine) KeepSince(s *Script, flushes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flushes == flushes {
		e.keep(s)
	}
}

// Keep adds a script to the cache and returns it, or the equal script that is already there.
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

// evict evicts the least recently used eighth of the scripts, so that it is rarely called.
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

// Flush removes all scripts.
func (e *Engine) Flush() {
	e.mu.Lock()
	clear(e.byText)
	clear(e.bySHA)
	e.size = 0
	e.flushes++
	e.mu.Unlock()
}

// Cached returns the number of cached scripts and the total size of their sources in bytes.
func (e *Engine) Cached() (scripts, size int) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.byText), e.size
}

// StateBytes is the approximate memory of a virtual machine with its libraries, before it has run anything.
const StateBytes = 128 << 10

// States returns the number of virtual machines.
func (e *Engine) States() int {
	e.free.Lock()
	defer e.free.Unlock()
	return len(e.free.states) + len(e.slots)
}

// Slow reports whether a running script has exceeded the time limit.
func (e *Engine) Slow() bool { return e.slow.Load() > 0 }

// Busy reports whether a script or a function has exceeded the time limit that was called without keys, and so may
// access any key.
func (e *Engine) Busy() (script, function bool) {
	return e.keyless[0].Load() > 0, e.keyless[1].Load() > 0
}

var (
	// errBusy: the max number of scripts is running, and all of them are slow.
	errBusy = &Stopped{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."}
	// errBusyFunction: a slow function of a stateful library is running.
	errBusyFunction = &Stopped{"BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."}
)

// wait takes a slot as soon as one is free; it returns errBusy if that may take for ever.
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

// noteSlow updates the counters when a state becomes slow or ends being slow. runs must be locked.
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

// put returns a state to the pool.
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
	// Function is the called function; nil = a script is called.
	Function *Function
	Keys     [][]byte
	Args     [][]byte
	Host     Host
	// Command is the command that called the function, FCALL or FCALL_RO as the client wrote it, for Running.
	Command string
	// Final says that the host will not undo the run with ErrAgain.
	Final bool
	// Out receives the reply, in the client's protocol version.
	Out *resp.Writer

	started time.Time
}

// name returns the name of the script in errors.
func (r *Run) name() string {
	if r.Function != nil {
		return r.Function.name
	}
	return r.Script.sha
}

// Host executes the commands that scripts call.
type Host interface {
	// Call executes a command and writes its reply, even an error reply, to out. A returned error ends the script at
	// once without a reply: Engine.Run returns it. With ErrAgain the variables of a library are reset to their values
	// before the run.
	Call(args [][]byte, out *resp.Writer) error
	// Allowed reports whether the user may execute a command; known is false if the command does not exist.
	Allowed(args [][]byte) (allowed, known bool)
	// Lasts is called from time to time during a long run, between two commands. slow says that it has exceeded
	// Options.TimeLimit. An error ends the script like an error of Call.
	Lasts(took time.Duration, slow bool) error
	// Failed is called with an error that the script replies. counted says that it is the error of a command.
	Failed(text string, counted bool)
	// Log writes to the log; level is 0 (debug) to 3 (warning).
	Log(level int, message string)
}

// Error is an error that a script has raised. The script's writes remain.
type Error struct {
	// Text is the whole reply, including the error code.
	Text string
	// Counted says that a command caused the error, and that the script did not catch it or raised it again.
	Counted bool
}

func (e *Error) Error() string { return e.Text }

// Stopped is the error of a script that was stopped from outside: its writes must be undone.
type Stopped struct{ Text string }

func (e *Stopped) Error() string { return e.Text }
