package lua

import (
	"strings"
	"time"

	vm "github.com/yuin/gopher-lua"
)

// Bounds of one state.
const (
	maxRegisters = 1 << 20 // values on the stack
	spareFrames  = 64      // for the functions of a library and handlers of errors above the highest call
	keepNested   = 8       // states for them that are kept
	// worn: a state that has run so many instructions in one script is thrown away, as its stacks may have become large.
	worn = 1 << 22
)

// state is a virtual machine with the libraries. It runs one script at a time. It is also the context.Context of its
// virtual machine, so that it is found from there.
type state struct {
	engine *Engine
	main   *vm.LState

	global     *vm.LTable // the environment of scripts; they never get hold of it, but of globals
	globals    *vm.LTable // _G
	globalMeta *vm.LTable
	stringMeta *vm.LTable
	strings    *vm.LTable // the functions of strings
	texts      [keptTexts]vm.LValue
	found      [keptFields]foundField
	// What loops over tables call.
	next, nextIndex *vm.LFunction
	numbers         *[numberBlock]float64 // memory for numbers to come
	numbersUsed     uint
	handler         *vm.LFunction
	explain         *vm.LFunction // the handler of errors that are caught
	missing         *vm.LTable    // a metatable that refuses unknown names
	loadRedis       *vm.LTable
	libEnv          environment // of libraries, when one was loaded
	loading         *loading
	loaded          map[*Library]map[string]*vm.LFunction
	resident        *resident // the library that has the state for itself
	cjson           jsonConfig

	nested  []*vm.LState // for pcall, by depth
	callers []*vm.LState // the threads that have called these
	depth   int
	calls   int // those that functions of a library and instructions have made within others, and coroutines
	waiting int // calls of the program in threads that wait for the end of a pcall
	ownLoop func(*vm.LState, *frame)

	// The run.
	running bool
	run     *Run
	job     job
	resp    int
	inCall  bool
	ticks   uint64 // instructions
	bytes   int    // allocated by library functions since the last look at the memory
	wanted  int    // what one is about to allocate
	reply   replyBuffer
	stop    error // the script is to end, whatever it catches
	readBuf []byte
	args    [][]byte
	errLine int
	errFile string
	sources map[string]string // the names of chunks, by how errors show them
}

func newState(e *Engine) *state {
	L := vm.NewState(vm.Options{CallStackSize: maxFrames + spareFrames, RegistrySize: 1024,
		RegistryMaxSize: maxRegisters, RegistryGrowStep: 4096,
		SkipOpenLibs: true, MinimizeStackMemory: true})
	L.G.MainThread, L.G.CurrentThread = L, L
	st := &state{engine: e, main: L, numbers: new([numberBlock]float64)}
	st.global = L.G.Global
	openBase(st, st.global, L)
	openCoroutine(st, L)
	openTable(st, L)
	openString(st, L)
	openMath(st, L)
	openBit(st, L)
	openStruct(st, L)
	openJSON(st, L)
	openMsgPack(st, L)
	st.missing = newTable(0, 1)
	storeName(st.missing, "__index", L.NewFunction(missingGlobal))
	openRedis(st, L)
	st.globals = st.readOnly(st.global)
	storeName(st.global, "_G", st.globals)
	mt := newTable(0, 2)
	storeName(mt, "__index", L.NewFunction(missingGlobal))
	storeName(mt, "__newindex", L.NewFunction(newGlobal))
	st.global.Metatable = mt
	shown := newTable(0, 1)
	storeName(shown, "__index", mt.RawGetString("__index"))
	st.globalMeta = st.readOnly(shown)
	for _, name := range []string{"KEYS", "ARGV"} { // each run has its own; the nodes remain
		storeName(st.global, name, vm.LNil)
	}
	st.handler, st.explain = L.NewFunction(errorHandler), L.NewFunction(explainHandler)
	st.attach(L)
	return st
}

func missingGlobal(L *vm.LState) int {
	name, _ := toString(L.Get(2))
	raise(L, "Script attempted to access nonexistent global variable '%s'", name)
	return 0
}

func newGlobal(L *vm.LState) int {
	raise(L, textReadOnly)
	return 0
}

// fieldOrder is what a library has, with blanks between, and for how many fields its table is made.
type fieldOrder struct {
	size   int
	fields string
}

func (o fieldOrder) list() []string { return strings.Fields(o.fields) }

// libraryOrder is what each library has, in the order in which Redis 7.2 adds it: pairs depends on that. Those that
// Lua itself brings begin with a table that is large enough for their functions.
var libraryOrder = map[string]fieldOrder{
	"string":    {15, "byte char dump find format gfind gmatch gsub len lower match rep reverse sub upper"},
	"table":     {9, "concat foreach foreachi getn maxn insert remove setn sort"},
	"coroutine": {6, "create resume running status wrap yield"},
	"math": {28, "abs acos asin atan2 atan ceil cosh cos deg exp floor fmod frexp ldexp log10 log max min modf pow rad random randomseed " +
		"sinh sin sqrt tanh tan pi huge mod"},
	"bit":    {12, "tobit bnot band bor bxor lshift rshift arshift rol ror bswap tohex"},
	"struct": {3, "pack unpack size"},
	"cjson": {0, "encode decode encode_sparse_array encode_max_depth decode_max_depth encode_number_precision encode_keep_buffer " +
		"encode_invalid_numbers decode_invalid_numbers new null _NAME _VERSION"},
	"cmsgpack": {0, "pack unpack unpack_one unpack_limit _NAME _VERSION _COPYRIGHT _DESCRIPTION"},
	"redis": {0, "REDIS_VERSION_NUM REDIS_VERSION log LOG_DEBUG LOG_VERBOSE LOG_NOTICE LOG_WARNING call pcall setresp sha1hex error_reply " +
		"status_reply set_repl REPL_NONE REPL_AOF REPL_SLAVE REPL_REPLICA REPL_ALL acl_check_cmd breakpoint debug replicate_commands"},
}

// library puts a library into the global table; scripts see it through a table that cannot be changed.
func (st *state) library(L *vm.LState, name string, functions map[string]vm.LGFunction,
	others map[string]vm.LValue) *vm.LTable {
	order := libraryOrder[name]
	fields := order.list()
	if len(fields) != len(functions)+len(others) {
		panic("lua: the library " + name + " has other fields than those whose order is known")
	}
	t := newTable(0, order.size)
	for _, field := range fields {
		if f := functions[field]; f != nil {
			storeName(t, field, L.NewFunction(f))
		} else {
			storeName(t, field, others[field])
		}
	}
	storeName(st.global, name, st.readOnly(t))
	return t
}

// frontMark is the metatable of the metatables of tables that cannot be changed; their first element is the table
// behind. Scripts never get hold of these metatables.
var frontMark = newTable(0, 0)

// readOnly makes a table that reads from t and cannot be changed.
func (st *state) readOnly(t *vm.LTable) *vm.LTable {
	front := newTable(0, 0)
	mt := newTable(1, 4)
	storeName(mt, "__index", t)
	storeName(mt, "__newindex", st.main.NewFunction(newGlobal))
	setIndex(nil, mt, 1, t)
	mt.Metatable = frontMark
	front.Metatable = mt
	return front
}

// behind returns the table behind one that cannot be changed, nil of any other.
func behind(t *vm.LTable) *vm.LTable {
	if mt, ok := t.Metatable.(*vm.LTable); ok {
		if mark, ok := mt.Metatable.(*vm.LTable); ok && mark == frontMark {
			return contentsOf(mt).array[0].(*vm.LTable)
		}
	}
	return nil
}

// isReadOnly reports whether a script must not change a table.
func isReadOnly(t *vm.LTable) bool { return behind(t) != nil }

// real returns the table behind one that cannot be changed, and any other table itself.
func real(t *vm.LTable) *vm.LTable {
	if b := behind(t); b != nil {
		return b
	}
	return t
}

// Short texts that come often, such as the names of fields, take memory once: those that came last are kept.
const (
	keptTexts = 256
	shortText = 32 // bytes
)

// text makes the value of a text, of which it takes a copy.
func (st *state) text(s string) vm.LValue {
	if len(s) == 0 || len(s) > shortText {
		return vm.LString(strings.Clone(s))
	}
	kept := &st.texts[(int(s[0])*5+int(s[len(s)/2])*17+int(s[len(s)-1])*101+len(s))%keptTexts]
	if t, ok := (*kept).(vm.LString); ok && string(t) == s {
		return *kept
	}
	*kept = vm.LString(strings.Clone(s))
	return *kept
}

func stateOf(L *vm.LState) *state { return L.Context().(*state) }

// function makes a function of compiled code, with the globals of scripts.
func (st *state) function(c *code) *vm.LFunction {
	return st.functionIn(environment{st.global, st.globals}, c)
}

func (st *state) functionIn(env environment, c *code) *vm.LFunction {
	f := st.main.NewFunctionFromProto(c.proto)
	f.Env = env.raw
	if c.setsGlobals {
		f.Env = env.shown
	}
	return f
}

// thread makes a thread with stacks of its own.
func (st *state) thread() *vm.LState {
	co, cancel := st.main.NewThread()
	if cancel != nil {
		cancel()
	}
	st.attach(co)
	return co
}

// protected calls a function and returns its results, or the error that it has raised. Each call has a virtual
// machine of its own: where one catches an error, the library closes the upvalues of all functions that it runs, also
// of those that go on afterwards and would no longer share their variables.
func (st *state) protected(L *vm.LState, f vm.LValue, args ...vm.LValue) ([]vm.LValue, *vm.ApiError) {
	if st.calls+1 == maxNested {
		return nil, &vm.ApiError{Object: vm.LString(textNested)}
	}
	if st.calls+1 >= maxNested+spareNested {
		return nil, &vm.ApiError{Object: vm.LString(textErrorInHandler)}
	}
	calls, waiting := st.calls, st.waiting
	defer func() { st.calls, st.waiting = calls, waiting }()
	if f.Type() != vm.LTFunction && metaField(L, f, "__call").Type() != vm.LTFunction {
		return nil, &vm.ApiError{Object: vm.LString("attempt to call a " + f.Type().String() + " value")}
	}
	for len(st.nested) <= st.depth {
		st.nested = append(st.nested, st.thread())
		st.callers = append(st.callers, nil)
	}
	co := st.nested[st.depth]
	co.SetTop(0)
	st.waiting += depth(L)
	st.callers[st.depth] = L
	st.depth++
	depth := st.depth
	co.Push(f)
	for _, a := range args {
		co.Push(a)
	}
	thread := st.main.G.CurrentThread
	err := co.PCall(len(args), vm.MultRet, st.explain)
	st.main.G.CurrentThread = thread
	st.depth = depth - 1
	if st.stop != nil {
		co.SetTop(0)
		st.raiseStop(L)
	}
	if err != nil {
		co.SetTop(0)
		e, ok := err.(*vm.ApiError)
		if !ok {
			e = &vm.ApiError{Object: vm.LString(err.Error())}
		}
		e.Object = translate(e.Object)
		return nil, e
	}
	results := make([]vm.LValue, co.GetTop())
	for i := range results {
		results[i] = co.Get(i + 1)
	}
	co.SetTop(0)
	return results, nil
}

// The methods of context.Context.

// Deadline is there for the interface.
func (st *state) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value is there for the interface.
func (st *state) Value(any) any { return nil }

// Err returns why the script is stopped.
func (st *state) Err() error { return st.stop }

// Done is there for the interface.
func (st *state) Done() <-chan struct{} { return nil }

// coroutine returns the thread that the program sees as the one that runs: not one that pcall has made.
func (st *state) coroutine(L *vm.LState) *vm.LState {
	for {
		caller := st.caller(L)
		if caller == nil {
			return L
		}
		L = caller
	}
}

// caller returns the thread that waits for one that pcall has made, nil of another.
func (st *state) caller(L *vm.LState) *vm.LState {
	for i := st.depth - 1; i >= 0; i-- {
		if st.nested[i] == L {
			return st.callers[i]
		}
	}
	return nil
}

// work counts what a library function does as n instructions.
func work(L *vm.LState, n int) {
	st := stateOf(L)
	before := st.ticks
	st.ticks += uint64(n)
	if before/lookTicks != st.ticks/lookTicks && st.look() {
		st.raiseStop(L)
	}
}

// charge counts n bytes that a library function is about to allocate.
func charge(L *vm.LState, n int) {
	if n > maxString {
		outOfMemory(L)
	}
	if st := stateOf(L); !st.account(n) {
		st.raiseStop(L)
	}
}

// account is charge where nothing can be raised: it reports whether the script may go on.
func (st *state) account(n int) bool {
	if st.bytes += n; st.bytes <= 1<<20 {
		return true
	}
	st.wanted = n
	stop := st.look()
	st.wanted = 0
	return !stop
}

func (st *state) raiseStop(L *vm.LState) { L.Error(vm.LString(st.stop.Error()), 0) }
