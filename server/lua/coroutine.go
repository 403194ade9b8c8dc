package lua

import (
	"reflect"

	vm "github.com/yuin/gopher-lua"
)

// The library's own resume goes wrong where a coroutine cannot be resumed, up to a stack overflow that ends the process,
// and where it is resumed with fewer values than the program waits for. So what it is called for is looked at before.

func openCoroutine(st *state, L *vm.LState) {
	vm.OpenCoroutine(L)
	L.SetTop(0)
	t := st.global.RawGetString("coroutine").(*vm.LTable)
	create, plainResume := t.RawGetString("create"), t.RawGetString("resume").(*vm.LFunction).GFunction
	resume := L.NewFunction(func(L *vm.LState) int {
		co := checkThread(L)
		if status := status(L, co); status != "suspended" {
			L.Push(vm.LFalse)
			L.Push(vm.LString("cannot resume " + status + " coroutine"))
			return 2
		}
		calls, ok := st.descend(L)
		if !ok {
			L.Push(vm.LFalse)
			L.Push(vm.LString("C stack overflow"))
			return 2
		}
		defer st.ascend(calls)
		st.start(co)
		if n, ok := awaited(co); ok {
			L.SetTop(1 + n)
		}
		n := plainResume(L)
		if n == 2 && L.Get(-2) == vm.LFalse {
			text := translate(L.Get(-1))
			L.Pop(1)
			L.Push(text)
		}
		return n
	})
	t.RawSetString("resume", resume)
	newCoroutine := func(L *vm.LState) *vm.LState {
		if f, ok := L.Get(1).(*vm.LFunction); !ok || f.IsG {
			argError(L, 1, "Lua function expected")
		}
		charge(L, 64<<10) // the stacks
		L.Push(create)
		L.Push(L.Get(1))
		L.Call(1, 1)
		co := L.Get(-1).(*vm.LState)
		L.Pop(1)
		co.SetContext(stateOf(L)) // it is stopped with the script
		return co
	}
	t.RawSetString("create", L.NewFunction(func(L *vm.LState) int {
		L.Push(newCoroutine(L))
		return 1
	}))
	t.RawSetString("wrap", L.NewFunction(func(L *vm.LState) int {
		co := newCoroutine(L)
		L.Push(L.NewFunction(func(L *vm.LState) int {
			L.Insert(resume, 1)
			L.Insert(co, 2)
			L.Call(L.GetTop()-1, vm.MultRet)
			if L.Get(1) == vm.LFalse {
				if s, ok := L.Get(2).(vm.LString); ok {
					L.Error(vm.LString(where(L, 1))+s, 0)
				}
				L.Error(L.Get(2), 0)
			}
			return L.GetTop() - 1
		}))
		return 1
	}))
	t.RawSetString("running", L.NewFunction(func(L *vm.LState) int {
		if co := L.G.CurrentThread; co != nil && co != st.main {
			L.Push(co)
		} else {
			L.Push(vm.LNil)
		}
		return 1
	}))
	t.RawSetString("yield", L.NewFunction(func(L *vm.LState) int {
		if L.Parent == nil || !callsOnly(L) {
			L.Error(vm.LString("attempt to yield across metamethod/C-call boundary"), 0)
		}
		return -1 // the virtual machine knows this
	}))
	t.RawSetString("status", L.NewFunction(func(L *vm.LState) int { return pushString(L, status(L, checkThread(L))) }))
	st.global.RawSetString("coroutine", st.readOnly(t))
}

func checkThread(L *vm.LState) *vm.LState {
	co, ok := L.Get(1).(*vm.LState)
	if !ok {
		argError(L, 1, "coroutine expected")
	}
	return co
}

// status returns what a coroutine does.
func status(L *vm.LState, co *vm.LState) string {
	switch {
	case co.Dead:
		return "dead"
	case L.G.CurrentThread == co:
		return "running"
	case co.Parent != nil: // it has resumed another one
		return "normal"
	}
	return "suspended"
}

// descend counts one more thread that waits for another, with its calls; ascend ends that. Each call may be one of the
// virtual machine within itself too, on the stack of the process, which ends when that is too large: descend returns
// ok=false when there are too many.
func (st *state) descend(L *vm.LState) (calls int, ok bool) {
	calls = depth(L)
	if st.threads >= maxNested || st.waiting+calls > maxWaiting {
		return 0, false
	}
	st.threads++
	st.waiting += calls
	return calls, true
}

func (st *state) ascend(calls int) {
	st.threads--
	st.waiting -= calls
}

// depth returns how many calls within calls there are in a thread.
func depth(L *vm.LState) int {
	d, ok := L.GetStack(0)
	if !ok {
		return 0
	}
	return int(reflect.ValueOf(d).Elem().FieldByIndex(debugFrame).Elem().FieldByIndex(frameIndex).Int()) + 1
}

// callsOnly reports whether the function that is running was called by the program, and so were all that wait for it: not
// by a function of a library, or in place of an operator, where it cannot be left to come back.
func callsOnly(L *vm.LState) bool {
	d, ok := L.GetStack(0)
	if !ok {
		return false
	}
	frame := reflect.ValueOf(d).Elem().FieldByIndex(debugFrame).Elem()
	for {
		if frame = frame.FieldByIndex(frameParent); frame.IsNil() {
			return true
		}
		frame = frame.Elem()
		f := frame.FieldByIndex(frameFunction).Elem()
		if f.FieldByIndex(functionIsGo).Bool() {
			return false
		}
		code := f.FieldByIndex(functionProto).Elem().FieldByIndex(protoCode)
		if inst := uint32(code.Index(int(frame.FieldByIndex(framePC).Int()) - 1).Uint()); !isCall(inst) {
			return false
		}
	}
}

// The fields of the frames of calls, which the virtual machine does not show.
var (
	debugFrame    = fieldOf(reflect.TypeFor[vm.Debug](), "frame")
	frameType     = reflect.TypeFor[vm.Debug]().FieldByIndex(debugFrame).Type.Elem()
	frameParent   = fieldOf(frameType, "Parent")
	frameIndex    = fieldOf(frameType, "Idx")
	framePC       = fieldOf(frameType, "Pc")
	frameFunction = fieldOf(frameType, "Fn")
	functionIsGo  = fieldOf(reflect.TypeFor[vm.LFunction](), "IsG")
	functionProto = fieldOf(reflect.TypeFor[vm.LFunction](), "Proto")
	protoCode     = fieldOf(reflect.TypeFor[vm.FunctionProto](), "Code")
)

func fieldOf(t reflect.Type, name string) []int {
	f, ok := t.FieldByName(name)
	if !ok {
		panic("lua: the virtual machine has no field " + t.Name() + "." + name)
	}
	return f.Index
}

// awaited returns how many values a coroutine waits for; ok=false when it takes any number.
func awaited(co *vm.LState) (n int, ok bool) {
	s, ok := siteOf(co, 0)
	if !ok || opcode(s.proto.Code[s.pc]) != vm.OP_CALL {
		return 0, false
	}
	n = argC(s.proto.Code[s.pc]) - 1
	return n, n >= 0
}

// start makes errors in a coroutine be worded where they are raised, if it is about to be resumed for the first time. No
// handler of errors can be given to the library, but a function that it calls then, and which it sets when the coroutine
// begins. So the next instruction, the first one of the coroutine, is made one that looks.
func (st *state) start(co *vm.LState) {
	if _, begun := co.GetStack(0); !begun && !co.Dead {
		st.begins = co
		st.ticks |= 63
	}
}

// begin is called before the first instruction of a coroutine.
func (st *state) begin() {
	st.begins.Panic = explainPanic
	st.begins = nil
}

// explainPanic is called where an error was raised in a coroutine, which it leaves with the error on top of its stack.
func explainPanic(L *vm.LState) {
	panic(&vm.ApiError{Type: vm.ApiErrorRun, Object: explain(L, L.Get(-1), 0)})
}
