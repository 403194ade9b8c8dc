package lua

import (
	"strings"
	"time"

	vm "github.com/yuin/gopher-lua"
)

// Limits of a state.
const (
	maxRegisters = 1 << 20 // values on the stack
	spareFrames  = 64      // for library functions and error handlers above the highest call
	keepNested   = 8       // max nested states that are kept
	// worn: a state that has executed this many instructions in one script is discarded, because its stacks may have
	// become large.
	worn = 1 << 22
)

// state is a virtual machine with the libraries. It runs one script at a time. It is also the context.Context of its
// virtual machine, through which it is found from there.
type state struct {
	engine *Engine
	main   *vm.LState

	global     *vm.LTable // the environment of scripts; they can only access globals
	globals    *vm.LTable // _G
	keys, argv *vm.LTable // KEYS and ARGV of scripts
	globalMeta *vm.LTable
	stringMeta *vm.LTable
	strings    *vm.LTable // the functions of strings
	texts      [keptTexts]vm.LValue
	found      [keptFields]foundField
	// What loops over tables call.
	next, nextIndex *vm.LFunction
	numbers         *[numberBlock]float64 // preallocated memory for numbers
	numbersUsed     uint
	handler         *vm.LFunction
	explain         *vm.LFunction // the handler of caught errors
	missing         *vm.LTable    // a metatable that refuses unknown names
	loadRedis       *vm.LTable
	libEnv          environment // of libraries, once one was loaded
	loading         *loading
	loaded          map[*Library]map[string]*vm.LFunction
	resident        *resident // the library that owns the state
	cjson           jsonConfig

	nested  []*vm.LState // for pcall, by depth
	callers []*vm.LState // the threads that called the nested states
	depth   int
	calls   int // nested calls made by library functions and instructions, and coroutines
	waiting int // calls of the program in threads that wait for a pcall
	ownLoop func(*vm.LState, *frame)

	// The run.
	running bool
	run     *Run
	job     job
	resp    int
	ticks   uint64 // executed instructions
	bytes   int    // allocated by library functions since the last memory check
	wanted  int    // bytes about to be allocated
	reply   replyBuffer
	stop    error // the script must end, whatever it catches
	readBuf []byte
	args    [][]byte
	errLine int
	errFile string
	sources map[string]string // chunk names by their form in errors
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
	st.keys, st.argv = newTable(0, 0), newTable(0, 0)
	storeName(st.global, "KEYS", st.keys)
	storeName(st.global, "ARGV", st.argv)
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

// fieldOrder lists the fields of a library, separated by blanks, and the initial size of its table.
type fieldOrder struct {
	size   int
	fields string
}

func (o fieldOrder) list() []string { return strings.Fields(o.fields) }

// libraryOrder lists the fields of each library in the order in which Redis 7.2 adds them, on which pairs depends.
// Lua's own libraries begin with a table that is large enough for their functions.
var libraryOrder = map[string]fieldOrder{
	"string":    {15, "byte char dump find format gfind gmatch gsub len lower match rep reverse sub upper"},
	"table":     {9, "concat foreach foreachi getn maxn insert remove setn sort"},
	"coroutine": {6, "create resume running status wrap yield"},
	"math": {28,
		"abs acos asin atan2 atan ceil cosh cos deg exp floor fmod frexp ldexp log10 log max min modf pow rad random " +
			"randomseed " +
			"sinh sin sqrt tanh tan pi huge mod"},
	"bit":    {12, "tobit bnot band bor bxor lshift rshift arshift rol ror bswap tohex"},
	"struct": {3, "pack unpack size"},
	"cjson": {0,
		"encode decode encode_sparse_array encode_max_depth decode_max_depth encode_number_precision encode_keep_buffer " +
			"encode_invalid_numbers decode_invalid_numbers new null _NAME _VERSION"},
	"cmsgpack": {0, "pack unpack unpack_one unpack_limit _NAME _VERSION _COPYRIGHT _DESCRIPTION"},
	"redis": {0,
		"REDIS_VERSION_NUM REDIS_VERSION log LOG_DEBUG LOG_VERBOSE LOG_NOTICE LOG_WARNING call pcall setresp sha1hex " +
			"error_reply " +
			"status_reply set_repl REPL_NONE REPL_AOF REPL_SLAVE REPL_REPLICA REPL_ALL acl_check_cmd breakpoint debug " +
			"replicate_commands"},
}

// library adds a library to the global table; scripts see it through a read-only table.
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

// frontMark is the metatable of the metatables of read-only tables; their first element is the table behind. Scripts
// cannot access these metatables.
var frontMark = newTable(0, 0)

// readOnly returns a read-only view of t.
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

// behind returns the table behind a read-only view, nil for any other table.
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

// real returns the table behind a read-only view, and any other table itself.
func real(t *vm.LTable) *vm.LTable {
	if b := behind(t); b != nil {
		return b
	}
	return t
}

// Short strings that occur often, such as field names, are cached.
const (
	keptTexts = 256
	shortText = 32 // bytes
)

// text returns the value of a string, which it copies.
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

// thread creates a thread with its own stacks.
func (st *state) thread() *vm.LState {
	co, cancel := st.main.NewThread()
	if cancel != nil {
		cancel()
	}
	st.attach(co)
	return co
}

// protected calls a function and returns its results or its error. Each call uses a separate virtual machine: when a
// virtual machine catches an error, the library closes the upvalues of all its functions, also of those that continue
// afterwards and would no longer share their variables.
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

// The methods of context.Context. The error is the reason for stopping the script.

func (st *state) Deadline() (time.Time, bool) { return time.Time{}, false }
func (st *state) Value(any) any               { return nil }
func (st *state) Err() error                  { return st.stop }
func (st *state) Done() <-chan struct{}       { return nil }

// coroutine returns the thread that is running from the program's view: not one that pcall created.
func (st *state) coroutine(L *vm.LState) *vm.LState {
	for {
		caller := st.caller(L)
		if caller == nil {
			return L
		}
		L = caller
	}
}

// caller returns the thread that waits for a thread that pcall created, nil for any other thread.
func (st *state) caller(L *vm.LState) *vm.LState {
	for i := st.depth - 1; i >= 0; i-- {
		if st.nested[i] == L {
			return st.callers[i]
		}
	}
	return nil
}

// work counts the work of a library function as n instructions.
func work(L *vm.LState, n int) {
	st := stateOf(L)
	before := st.ticks
	st.ticks += uint64(n)
	if before/pollTicks != st.ticks/pollTicks && st.poll() {
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

// account is charge where no error can be raised: it reports whether the script may continue.
func (st *state) account(n int) bool {
	if st.bytes += n; st.bytes <= 1<<20 {
		return true
	}
	st.wanted = n
	stop := st.poll()
	st.wanted = 0
	return !stop
}

func (st *state) raiseStop(L *vm.LState) { L.Error(vm.LString(st.stop.Error()), 0) }
