package lua

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	vm "github.com/yuin/gopher-lua"

	"github.com/basaltdb/basalt/server/lua/luac"
)

// job is the state of a run besides the virtual machine.
type job struct {
	started  time.Time
	lastLook time.Time
	baseLive uint64 // live heap at the first measurement
	baseAll  uint64
	measured bool
	listed   bool
	slow     bool
	kill     atomic.Pointer[Stopped]
}

const (
	// firstLook is the run time before the first measurement: shorter runs are never measured.
	firstLook = 2 * time.Millisecond
	lookEvery = 2 * time.Millisecond
	// pollTicks is the number of instructions between two reads of the clock. A read costs as much as some of them.
	pollTicks = 256
)

var (
	errKilled   = &Stopped{"Script killed by user with SCRIPT KILL..."}
	errShutdown = &Stopped{"Script killed: the server is shutting down"}
	errMemory   = &Stopped{"Script killed: it needs more memory than lua-memory-limit-mb allows"}
	// ErrNotBusy: no script is running that could be killed.
	ErrNotBusy = &Error{Text: "NOTBUSY No scripts in execution right now."}
)

// Run runs a script or a function and writes the reply to r.Out. The error is an *[Error], a *[Stopped],
// [ErrExclusive], or the host's error.
func (e *Engine) Run(r *Run) error {
	if f := r.Function; f != nil && f.Library.resident != nil {
		return f.Library.resident.run(e, r)
	}
	st, err := e.take()
	if err != nil {
		return err
	}
	defer func() {
		if st.tired() {
			st = nil
		}
		e.put(st)
	}()
	return st.exec(r)
}

// tired reports whether the stacks of a state may have become large.
func (st *state) tired() bool { return st.ticks > worn || len(st.nested) > keepNested }

// rest gives a state new stacks.
func (st *state) rest() {
	st.main, st.nested, st.callers = st.thread(), nil, nil
	st.main.G.MainThread, st.main.G.CurrentThread = st.main, st.main
}

func (st *state) exec(r *Run) error {
	st.running, st.run, st.resp = true, r, 2
	st.ticks, st.bytes, st.depth, st.stop = 0, 0, 0, nil
	st.calls, st.waiting = 0, 0
	st.errFile, st.errLine, st.sources = "", 0, nil
	st.job.started, st.job.measured, st.job.slow = time.Now(), false, false
	st.job.lastLook = st.job.started
	st.job.kill.Store(nil)
	if st.cjson.changed {
		st.cjson = defaultJSON
	}
	r.started = st.job.started
	defer st.done()
	L := st.main
	L.SetTop(0)
	var f *vm.LFunction
	args := 0
	if r.Function != nil {
		var err error
		if f, err = r.Function.on(st); err != nil {
			return &Error{Text: err.Error()}
		}
		L.Push(f)
		for _, list := range [][][]byte{r.Keys, r.Args} {
			t := newTable(0, 0)
			setStrings(t, list)
			L.Push(t)
		}
		args = 2
	} else {
		f = st.function(r.Script.code)
		setStrings(st.keys, r.Keys)
		setStrings(st.argv, r.Args)
		L.Push(f)
	}
	err := L.PCall(args, 1, st.handler)
	if st.stop != nil {
		st.unlist()
		if k := st.job.kill.Load(); k != nil {
			st.stop = k // it was to be run again: whoever has killed it was told that it ends
		}
		if s, ok := errors.AsType[*Stopped](st.stop); ok {
			return &Stopped{Text: "ERR " + s.Text + st.suffix(r)}
		}
		return st.stop
	}
	if err != nil {
		return st.scriptError(r, err)
	}
	mark := r.Out.Mark()
	if err := st.writeReply(r.Out, L.Get(-1), 0); err != nil {
		r.Out.Truncate(mark)
		return err
	}
	L.SetTop(0)
	return nil
}

// unlist removes the run from those that can be killed.
func (st *state) unlist() {
	if !st.job.listed {
		return
	}
	e := st.engine
	e.runs.Lock()
	delete(e.runs.list, st)
	if st.job.slow {
		e.noteSlow(st, false)
	}
	e.runs.Unlock()
	st.job.listed = false
}

// done ends the run; the state keeps nothing of it.
func (st *state) done() {
	st.unlist()
	st.main.SetTop(0)
	if st.run.Function == nil {
		setStrings(st.keys, nil)
		setStrings(st.argv, nil)
	}
	st.running, st.run = false, nil
	st.reply.release()
	if cap(st.readBuf) > 64<<10 {
		st.readBuf = nil
	}
	clear(st.args)
	clear(st.callers)
}

// setStrings makes a table a list of strings, whatever it was before.
func setStrings(t *vm.LTable, list [][]byte) {
	c := contentsOf(t)
	*c = contents{Metatable: vm.LNil, array: make([]vm.LValue, 0, listPlaces(len(list)))}
	for _, s := range list {
		c.array = append(c.array, vm.LString(s))
	}
}

// poll is called every pollTicks instructions and reports whether the run must stop. Usually it only reads the
// clock.
func (st *state) poll() (stop bool) {
	if st.stop != nil {
		return true
	}
	if !st.running {
		if st.ticks > loadTicks {
			st.stop = errLoadTime
			return true
		}
		return false
	}
	if k := st.job.kill.Load(); k != nil {
		st.stop = k
		return true
	}
	now := time.Now()
	took := now.Sub(st.job.started)
	if st.bytes < 1<<20 && (took < firstLook || now.Sub(st.job.lastLook) < lookEvery) {
		return false
	}
	st.job.lastLook, st.bytes = now, 0
	if !st.job.listed {
		st.job.listed = true
		e := st.engine
		e.runs.Lock()
		e.runs.list[st] = st.run
		e.runs.Unlock()
	}
	limit := st.engine.options.TimeLimit()
	slow := limit > 0 && took > limit
	if err := st.run.Host.Lasts(took, slow); err != nil {
		st.stop = err
		return true
	}
	if slow && !st.job.slow {
		e := st.engine
		e.runs.Lock()
		st.job.slow = true
		e.noteSlow(st, true)
		e.runs.Unlock()
		if f := st.engine.options.Slow; f != nil {
			f(st.run.name(), took)
		}
	}
	if st.engine.stopping.Load() {
		st.stop = errShutdown
		return true
	}
	if st.tooLarge() {
		st.stop = errMemory
		return true
	}
	return false
}

// tooLarge reports whether the heap, including what a function is about to allocate, has grown by more than the limit
// since the first measurement. Other allocations count too: the limit protects the process.
func (st *state) tooLarge() bool {
	limit := st.engine.options.MemoryLimit()
	if limit <= 0 {
		return false
	}
	wanted := uint64(st.wanted)
	live, all := heap()
	j := &st.job
	if !j.measured { // the first large allocation, which counts already, and so does the reply that is being read
		j.baseAll = all - min(all, uint64(st.reply.w.Cap()))
		j.baseLive, j.measured = min(live, j.baseAll), true
	}
	// Garbage of an earlier script may have been counted; once it is collected, the base is lower.
	j.baseLive, j.baseAll = min(j.baseLive, live), min(j.baseAll, all)
	grown := int64(all + wanted - j.baseAll)
	if grown < limit || int64(live+wanted-j.baseLive) < limit && grown < 2*limit {
		return false
	}
	runtime.GC()
	live, all = heap()
	j.baseLive = min(j.baseLive, live)
	if int64(live+wanted-j.baseLive) > limit {
		return true
	}
	j.baseAll = all
	return false
}

// heap returns the bytes in use after the last collection, and those of all objects now.
func heap() (live, all uint64) {
	s := [2]metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// Kill stops the running scripts, except those that have just started. It returns ErrNotBusy if none run, and BUSY if
// only slow ones of the other kind run.
func (e *Engine) Kill(functions bool) error {
	e.runs.Lock()
	defer e.runs.Unlock()
	n := 0
	var other error // an error about the other kind
	for st, r := range e.runs.list {
		switch {
		case (r.Function != nil) == functions:
			text := errKilled
			if functions {
				text = errKilledFunction
			}
			st.job.kill.Store(text)
			n++
		case st.job.slow && functions:
			other = errBusy
		case st.job.slow:
			other = errBusyFunction
		}
	}
	switch {
	case n > 0:
		return nil
	case other != nil:
		return other
	}
	return ErrNotBusy
}

// Stop stops all running scripts, and later ones when they run for long: the server is shutting down.
func (e *Engine) Stop() {
	e.stopping.Store(true)
	e.Kill(false)
	e.Kill(true)
}

// Running describes a script or a function that has been running for some time.
type Running struct {
	Name     string
	Function bool // it is a function
	// Command is the command that called the function, with its arguments.
	Command []string
	Took    time.Duration
}

// Running returns what has been running longest, functions before scripts; ok is false if nothing has run for some
// time.
func (e *Engine) Running() (f Running, ok bool) {
	e.runs.Lock()
	defer e.runs.Unlock()
	var r *Run
	for _, o := range e.runs.list {
		function := o.Function != nil
		if r == nil || function && r.Function == nil || function == (r.Function != nil) && o.started.Before(r.started) {
			r = o
		}
	}
	if r == nil {
		return f, false
	}
	f = Running{Name: r.name(), Took: time.Since(r.started)}
	if f.Function = r.Function != nil; !f.Function {
		return f, true
	}
	f.Command = []string{r.Command, f.Name, strconv.Itoa(len(r.Keys))}
	for _, list := range [][][]byte{r.Keys, r.Args} {
		for _, a := range list {
			f.Command = append(f.Command, string(a))
		}
	}
	return f, true
}

// errorHandler is called where an uncaught error was raised: it records the line.
func errorHandler(L *vm.LState) int {
	st := stateOf(L)
	st.errFile, st.errLine = "", 0
	for level := 1; level <= 3; level++ {
		if f := frameAt(L, level); f != nil && !f.Fn.IsG && f.Pc > 0 {
			st.errFile, st.errLine = f.Fn.Proto.SourceName, f.Fn.Proto.DbgSourcePositions[f.Pc-1]
			break
		}
	}
	return explainHandler(L)
}

// explainHandler is called where an error was raised: it words the error as Lua does. All functions of the thread end
// then, so it closes their variables. The library does so only without a handler.
func explainHandler(L *vm.LState) int {
	v := explain(L, L.Get(1), 1)
	closeVariables(L)
	return push(L, v)
}

func (st *state) suffix(r *Run) string {
	if st.errFile == "" {
		return ""
	}
	source := "@" + st.errFile
	if name, ok := st.sources[st.errFile]; ok {
		source = oneLine(name)
	}
	return fmt.Sprintf(" script: %s, on %s:%d.", r.name(), source, st.errLine)
}

// scriptError makes the reply of an error that the script has not caught.
func (st *state) scriptError(r *Run, err error) error {
	var ae *vm.ApiError
	if !errors.As(err, &ae) {
		return &Error{Text: "ERR " + err.Error() + st.suffix(r)}
	}
	var text string
	counted := false
	if t, ok := ae.Object.(*vm.LTable); ok {
		counted = isCounted(t)
		s, isText := toString(t.RawGetString("err"))
		if !isText {
			s = "ERR unknown error"
		}
		text = s
	} else {
		text = "ERR " + plainText(translate(ae.Object))
	}
	return &Error{Text: strings.TrimRight(luac.CString(text), "\r\n") + st.suffix(r), Counted: counted}
}

func plainText(v vm.LValue) string {
	if s, ok := toString(v); ok {
		return s
	}
	return v.String()
}
