package lua

import (
	"errors"
	"slices"

	vm "github.com/yuin/gopher-lua"
)

// In Redis one virtual machine runs all functions: values in local variables of a library, such as a counter or a
// cache, persist until the library is deleted. Most libraries keep no state, so any virtual machine may run them,
// several at the same time. A library that may keep state gets its own virtual machine, in which its functions run one
// at a time.
//
// Its turn is the last lock in the order: a run that waits for the turn may hold key locks, but the run that has it
// waits for nothing. A command in a function takes a lock only if the lock is free; otherwise the run is undone
// (ErrAgain) and releases the turn before it waits for the key's lock. So deadlocks are impossible, and a wait is as
// long as the earlier runs. If the function that has the turn exceeds the time limit, the waiting runs get BUSY.
//
// An undone run must leave no trace in the variables, because it is repeated: the variables are saved before the run.
// If there are too many values, or saving is impossible because of coroutines, the run is repeated with all locks held
// (ErrExclusive), so that nothing can make it repeat.

// ErrAgain is returned by a [Host], maybe wrapped, to undo a run that will be repeated.
var ErrAgain = errors.New("the script is undone and comes again")

// ErrExclusive is the error of a run that must be Final. The run had no effect.
var ErrExclusive = errors.New("the function can run only where nothing has to be undone")

const (
	// maxSaved is the max number of values saved before a run: saving them takes about as long as taking all locks.
	maxSaved = 1024
	// surveyEvery is the min number of runs between two counts of the values.
	surveyEvery = 64
)

// resident is a library in its own virtual machine.
type resident struct {
	turn chan struct{} // holds one element while a function runs
	busy chan struct{} // closed when the function is slow; guarded by Engine.runs
	st   *state

	// The values after loading. Runs cannot change the set: it is the whole code, and the cells of variables.
	known  map[any]bool  // values to skip: the global tables, functions, and the following:
	cells  []*vm.Upvalue // variables to which functions assign
	tables []*vm.LTable  // in other variables

	// The values saved before the run.
	values  []vm.LValue // of cells and moreCells
	entries []vm.LValue // keys and values of the tables
	nodes   []node      // of the tables
	copies  []tableCopy
	more    []*vm.Upvalue // variables of closures that calls created
	seen    map[any]bool
	todo    []vm.LValue

	large        bool // too many values to save
	runs, survey int  // number of runs, and the run that counts the values again
}

// tableCopy is the content of a table: ranges of entries and nodes, with the sizes that determine the order of its
// keys.
type tableCopy struct {
	t                  *vm.LTable
	meta               vm.LValue
	from, to           int // of entries
	fromNode, toNode   int
	array, began, free int
}

func newResident(st *state) *resident {
	return &resident{turn: make(chan struct{}, 1), busy: make(chan struct{}), known: map[any]bool{},
		seen: map[any]bool{}, st: st}
}

// settle returns the resident of a library that a state has just loaded; nil if its functions keep no state between
// calls.
func settle(st *state, functions map[string]*vm.LFunction) *resident {
	r := newResident(st)
	w := walk{r: r}
	for _, v := range []vm.LValue{st.global, st.globals, st.libEnv.raw, st.libEnv.shown, st.globalMeta, st.stringMeta,
		st.missing, st.loadRedis, null} {
		w.push(v)
	}
	w.run()
	r.known, r.seen, r.more = r.seen, r.known, nil

	assigned := map[*vm.Upvalue]bool{}
	w = walk{r: r}
	for _, f := range functions {
		w.push(f)
	}
	w.run()
	for x := range r.seen {
		if f, ok := x.(*vm.LFunction); ok && !f.IsG {
			for i, yes := range assigns(f.Proto) {
				if yes {
					assigned[f.Upvalues[i]] = true
				}
			}
		}
	}
	r.forget()

	// Existing functions, and variables without assignments, do not change. The content of tables and of other
	// variables may change.
	var fixed, loose []vm.LValue
	opaque := w.opaque
	for _, f := range functions {
		fixed = append(fixed, f)
	}
	for len(fixed)+len(loose) > 0 {
		var v vm.LValue
		isFixed := len(fixed) > 0
		if isFixed {
			v, fixed = fixed[len(fixed)-1], fixed[:len(fixed)-1]
		} else {
			v, loose = loose[len(loose)-1], loose[:len(loose)-1]
		}
		if !refers(v) || r.known[v] {
			continue
		}
		switch v := v.(type) {
		case *vm.LTable:
			if isFixed {
				r.known[v] = true
				r.tables = append(r.tables, v)
			} else if r.seen[v] {
				continue
			}
			r.seen[v] = true
			for k, e := range each(v) {
				loose = append(loose, k, e)
			}
			loose = append(loose, v.Metatable)
		case *vm.LFunction:
			r.known[v] = true
			for _, c := range v.Upvalues {
				if c == nil || r.known[c] {
					continue
				}
				r.known[c] = true
				if assigned[c] {
					r.cells = append(r.cells, c)
					loose = append(loose, c.Value())
				} else {
					fixed = append(fixed, c.Value())
				}
			}
		}
	}
	r.forget()
	if len(r.cells) == 0 && len(r.tables) == 0 && !opaque {
		return nil
	}
	r.large = opaque
	return r
}

// refers reports whether other values may be reachable from a value.
func refers(v vm.LValue) bool {
	switch v.(type) {
	case *vm.LTable, *vm.LFunction, *vm.LState, *vm.LUserData:
		return true
	}
	return false
}

// walk visits values and all values reachable from them.
type walk struct {
	r      *resident
	save   bool // save the visited values
	opaque bool // a value with invisible state was found
	n      int  // number of values
	most   int  // it ends with more, 0 = never
}

func (w *walk) push(v vm.LValue) {
	if refers(v) {
		w.r.todo = append(w.r.todo, v)
	}
}

// first reports whether something is visited for the first time.
func (w *walk) first(x any) bool {
	if w.r.known[x] || w.r.seen[x] {
		return false
	}
	w.r.seen[x] = true
	return true
}

// run finishes the walk; it returns false if it reached the limit.
func (w *walk) run() bool {
	r := w.r
	if len(r.todo) == 0 {
		return w.most == 0 || w.n <= w.most
	}
	for len(r.todo) > 0 && (w.most == 0 || w.n <= w.most) {
		v := r.todo[len(r.todo)-1]
		r.todo = r.todo[:len(r.todo)-1]
		if !w.first(v) {
			continue
		}
		switch v := v.(type) {
		case *vm.LTable:
			w.table(v)
		case *vm.LFunction:
			w.opaque = w.opaque || v.IsG // a library function: its state is invisible
			w.function(v)
		default:
			w.opaque = true // a coroutine
		}
	}
	clear(r.todo[:cap(r.todo)])
	done := len(r.todo) == 0
	r.todo = r.todo[:0]
	return done && (w.most == 0 || w.n <= w.most)
}

// function adds the variables of a function that was created by a call, or by another such function.
func (w *walk) function(f *vm.LFunction) {
	for _, c := range f.Upvalues {
		if c == nil || !w.first(c) {
			continue
		}
		w.n++
		w.r.more = append(w.r.more, c)
		if w.save {
			w.r.values = append(w.r.values, c.Value())
		}
		w.push(c.Value())
	}
}

func (w *walk) table(t *vm.LTable) {
	r := w.r
	from := len(r.entries)
	for k, v := range each(t) {
		if w.n++; w.most > 0 && w.n > w.most {
			return
		}
		if w.save {
			r.entries = append(r.entries, k, v)
		}
		w.push(k)
		w.push(v)
	}
	w.push(t.Metatable)
	if w.save {
		c := contentsOf(t)
		saved := tableCopy{t: t, meta: t.Metatable, from: from, to: len(r.entries), array: cap(c.array),
			began: c.began(), fromNode: len(r.nodes)}
		if h := c.hash(); h != nil {
			r.nodes = append(r.nodes, h.nodes...)
			saved.free = h.free
		}
		saved.toNode = len(r.nodes)
		r.copies = append(r.copies, saved)
	}
}

// assigns returns which of its upvalues a function, or one within it, assigns to.
func assigns(p *vm.FunctionProto) []bool {
	list := make([]bool, p.NumUpvalues)
	for pc := 0; pc < len(p.Code); pc++ {
		inst := p.Code[pc]
		switch opcode(inst) {
		case vm.OP_SETUPVAL:
			list[argB(inst)] = true
		case vm.OP_CLOSURE: // the captured variables follow
			inner := p.FunctionPrototypes[argBx(inst)]
			for _, assigned := range assigns(inner) {
				pc++
				if capture := p.Code[pc]; assigned && opcode(capture) == vm.OP_GETUPVAL {
					list[argB(capture)] = true
				}
			}
		}
	}
	return list
}

// enter waits for the turn; it returns errBusyFunction if that may take for ever.
func (r *resident) enter(e *Engine) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	default:
	}
	e.runs.Lock()
	busy := r.busy
	e.runs.Unlock()
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-busy:
		return errBusyFunction
	}
}

func (r *resident) run(e *Engine, run *Run) error {
	if err := r.enter(e); err != nil {
		return err
	}
	defer func() { <-r.turn }()
	if !r.prepare(run.Final) {
		return ErrExclusive
	}
	err := r.st.exec(run)
	if err != nil && !run.Final && errors.Is(err, ErrAgain) {
		r.restore()
	}
	r.forget()
	if r.st.tired() {
		r.st.rest()
	}
	return err
}

// prepare saves what a run may change; it returns false if the run must be final.
func (r *resident) prepare(final bool) bool {
	r.runs++
	if r.large && r.runs >= r.survey {
		r.count()
	}
	switch {
	case final:
		return true
	case r.large:
		return false
	case r.saved():
		return true
	}
	r.forget()
	r.count()
	return false
}

// saved saves the variables; it returns false if there are too many.
func (r *resident) saved() bool {
	w := walk{r: r, save: true, most: maxSaved}
	for _, c := range r.cells {
		v := c.Value()
		r.values = append(r.values, v)
		w.push(v)
	}
	w.n = len(r.cells)
	for _, t := range r.tables {
		w.table(t)
	}
	return w.run() && !w.opaque
}

// count counts the values, to find out whether they can be saved.
func (r *resident) count() {
	w := walk{r: r}
	for _, c := range r.cells {
		w.push(c.Value())
	}
	for _, t := range r.tables {
		w.table(t)
	}
	w.run()
	r.large = w.opaque || w.n+len(r.cells) > maxSaved
	r.survey = r.runs + max(surveyEvery, w.n/16)
	r.forget()
}

// restore restores the saved values.
func (r *resident) restore() {
	for i, c := range r.cells {
		c.SetValue(r.values[i])
	}
	for i, c := range r.more {
		c.SetValue(r.values[len(r.cells)+i])
	}
	for _, c := range r.copies {
		c.restore(r.entries[c.from:c.to], r.nodes[c.fromNode:c.toNode])
	}
}

// forget drops the saved values.
func (r *resident) forget() {
	r.values, r.entries, r.nodes, r.copies, r.more = dropped(r.values), dropped(r.entries), dropped(r.nodes),
		dropped(r.copies), dropped(r.more)
	switch n := len(r.seen); {
	case n > maxSaved:
		r.seen = map[any]bool{}
	case n > 0:
		clear(r.seen)
	}
}

func dropped[T any](s []T) []T {
	clear(s)
	return s[:0]
}

func (s *tableCopy) restore(entries []vm.LValue, nodes []node) {
	*s.t = *newTable(s.array, s.began)
	s.t.Metatable = s.meta
	c := contentsOf(s.t)
	if len(nodes) > 0 {
		c.keep(&hashPart{nodes: slices.Clone(nodes), free: s.free})
	}
	for i := 0; i < len(entries); i += 2 {
		key, value := entries[i], entries[i+1]
		switch n, isIndex := arrayIndex(key); {
		case isIndex && n <= s.array:
			setPlace(c, n, value)
		case len(nodes) > 0:
			c.put(key, value)
		default:
			setKey(nil, c, key, value)
		}
	}
}
