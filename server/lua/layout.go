package lua

import (
	"context"
	"fmt"
	"reflect"
	"unsafe"

	vm "github.com/yuin/gopher-lua"
)

// The virtual machine hides the state that its instructions work on. The types here have the same memory layout as its
// own. The layouts are compared when the process starts, so that a version with another layout is detected at once.

// machine is the layout of vm.LState.
type machine struct {
	G            *vm.Global
	Parent       *vm.LState
	Env          *vm.LTable
	Panic        func(*vm.LState)
	Dead         bool
	Options      vm.Options
	stop         int32
	reg          *registers
	stack        [2]unsafe.Pointer // an interface
	alloc        unsafe.Pointer
	currentFrame *frame
	wrapped      bool
	uvcache      *openVariable
	hasErrorFunc bool
	mainLoop     func(*vm.LState, *frame)
	ctx          context.Context
	ctxCancelFn  context.CancelFunc
}

// registers is the layout of the value stack, as far as it is used.
type registers struct {
	array []vm.LValue
	top   int
}

// frame is the layout of a call frame.
type frame struct {
	Idx        int // number of calls below it
	Fn         *vm.LFunction
	Parent     *frame
	Pc         int // the next instruction
	Base       int // the register of the function
	LocalBase  int // the register of the first local variable
	ReturnBase int
	NArgs      int
	NRet       int
	TailCall   int // number of calls that it has replaced
}

// openVariable is the layout of vm.Upvalue, as far as it is used: a captured variable that is still in a register.
type openVariable struct {
	next *openVariable
}

// contents is the layout of vm.LTable.
type contents struct {
	Metatable vm.LValue
	array     []vm.LValue             // t[1], t[2], ...
	dict      map[vm.LValue]vm.LValue // other keys, except strings
	strdict   map[string]vm.LValue    // string keys
	keys      []vm.LValue             // keys of both maps in insertion order, see contents.hash
	k2i       map[vm.LValue]int       // index of a key in keys; not maintained by this package
}

func machineOf(L *vm.LState) *machine   { return (*machine)(unsafe.Pointer(L)) }
func contentsOf(t *vm.LTable) *contents { return (*contents)(unsafe.Pointer(t)) }

// closeVariables closes all upvalues of a thread.
func closeVariables(L *vm.LState) {
	m := machineOf(L)
	for v := m.uvcache; v != nil; v = v.next {
		(*vm.Upvalue)(unsafe.Pointer(v)).Close()
	}
	m.uvcache = nil
}

func init() {
	verifyLayout(reflect.TypeFor[vm.LState](), reflect.TypeFor[machine]())
	verifyLayout(reflect.TypeFor[vm.LTable](), reflect.TypeFor[contents]())
}

// verifyLayout panics if our type does not begin with the same layout as theirs, including the targets of used
// pointers.
func verifyLayout(theirs, ours reflect.Type) {
	if theirs.NumField() < ours.NumField() {
		panic(fmt.Sprintf("lua: %v is not laid out as expected", theirs))
	}
	for i := range ours.NumField() {
		t, o := theirs.Field(i), ours.Field(i)
		if t.Name != o.Name || t.Offset != o.Offset || t.Type.Size() != o.Type.Size() {
			panic(fmt.Sprintf("lua: the field %v.%s is not laid out as expected", theirs, t.Name))
		}
		if o.Type.Kind() == reflect.Pointer && o.Type != t.Type && o.Type.Elem() != ours {
			verifyLayout(t.Type.Elem(), o.Type.Elem())
		}
	}
}
