package lua

import (
	"sync"

	vm "github.com/yuin/gopher-lua"
)

// The library's own resume fails where a coroutine cannot be resumed (up to a stack overflow that ends the process),
// and where fewer values are passed than the program waits for. So the arguments are checked here first.

// plainCoroutines returns the library's own create and resume.
var plainCoroutines = sync.OnceValues(func() (create, resume vm.LGFunction) {
	L := vm.NewState(vm.Options{SkipOpenLibs: true})
	defer L.Close()
	vm.OpenCoroutine(L)
	t := L.GetGlobal("coroutine").(*vm.LTable)
	return t.RawGetString("create").(*vm.LFunction).GFunction, t.RawGetString("resume").(*vm.LFunction).GFunction
})

func openCoroutine(st *state, L *vm.LState) {
	plainCreate, plainResume := plainCoroutines()
	create := L.NewFunction(plainCreate)
	functions := map[string]vm.LGFunction{}
	// resume resumes the coroutine in the first argument with the other arguments.
	resume := func(L *vm.LState) int {
		co := checkThread(L)
		if status := status(L, co); status != "suspended" {
			return push(L, vm.LFalse, vm.LString("cannot resume "+status+" coroutine"))
		}
		if st.calls >= maxNested {
			return push(L, vm.LFalse, vm.LString(textNested))
		}
		calls, waiting := st.calls, st.waiting
		st.waiting = 0 // a coroutine has its own calls
		if n, ok := awaited(co); ok {
			L.SetTop(1 + n)
		}
		n := plainResume(L)
		st.calls, st.waiting = calls, waiting
		if n == 2 && L.Get(-2) == vm.LFalse {
			text := translate(L.Get(-1))
			L.Pop(1)
			L.Push(text)
		}
		return n
	}
	functions["resume"] = resume
	newCoroutine := func(L *vm.LState) *vm.LState {
		if f, ok := L.Get(1).(*vm.LFunction); !ok || f.IsG {
			argError(L, 1, "Lua function expected")
		}
		charge(L, 64<<10) // the stacks
		co := call(L, create, L.Get(1)).(*vm.LState)
		stateOf(L).attach(co) // it is stopped together with the script
		return co
	}
	functions["create"] = func(L *vm.LState) int {
		return push(L, newCoroutine(L))
	}
	functions["wrap"] = func(L *vm.LState) int {
		co := newCoroutine(L)
		L.Push(L.NewFunction(func(L *vm.LState) int {
			L.Insert(co, 1)
			n := resume(L)
			if L.Get(-n) == vm.LFalse {
				if s, ok := L.Get(-1).(vm.LString); ok {
					L.Error(vm.LString(where(L, 1))+s, 0)
				}
				L.Error(L.Get(-1), 0)
			}
			return n - 1
		}))
		return 1
	}
	functions["running"] = func(L *vm.LState) int {
		if co := st.coroutine(L); co != st.main {
			return push(L, co)
		}
		return push(L, vm.LNil)
	}
	functions["yield"] = func(L *vm.LState) int {
		if L.Parent == nil || !callsOnly(L) {
			L.Error(vm.LString("attempt to yield across metamethod/C-call boundary"), 0)
		}
		return -1 // a special value for the virtual machine
	}
	functions["status"] = func(L *vm.LState) int { return pushString(L, status(L, checkThread(L))) }
	st.library(L, "coroutine", functions, nil)
}

func checkThread(L *vm.LState) *vm.LState {
	co, ok := L.Get(1).(*vm.LState)
	if !ok {
		argError(L, 1, "coroutine expected")
	}
	return co
}

func status(L *vm.LState, co *vm.LState) string {
	switch {
	case co.Dead:
		return "dead"
	case stateOf(L).coroutine(L) == co:
		return "running"
	case co.Parent != nil: // it has resumed another coroutine
		return "normal"
	}
	return "suspended"
}

// depth returns the number of nested calls in a thread.
func depth(L *vm.LState) int {
	if f := machineOf(L).currentFrame; f != nil {
		return f.Idx + 1
	}
	return 0
}

// callsOnly reports whether the running function and all its callers were called by the program, and not by a library
// function or in place of an operator: only then can the coroutine yield.
func callsOnly(L *vm.LState) bool {
	f := machineOf(L).currentFrame
	if f == nil {
		return false
	}
	for f = f.Parent; f != nil; f = f.Parent {
		if f.Fn.IsG || !isCall(f.Fn.Proto.Code[f.Pc-1]) {
			return false
		}
	}
	return true
}

// awaited returns how many values a coroutine waits for; ok is false if it accepts any number.
func awaited(co *vm.LState) (n int, ok bool) {
	s, ok := siteOf(co, 0)
	if !ok || opcode(s.proto.Code[s.pc]) != vm.OP_CALL {
		return 0, false
	}
	n = argC(s.proto.Code[s.pc]) - 1
	return n, n >= 0
}

// explainPanic is called where an error was raised in a coroutine; the coroutine ends with the error on top of its
// stack. The library accepts no error handler for a coroutine.
func explainPanic(L *vm.LState) {
	panic(&vm.ApiError{Type: vm.ApiErrorRun, Object: explain(L, L.Get(-1), 0)})
}
