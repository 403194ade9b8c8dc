package lua

import (
	"context"
	"fmt"
	"reflect"
	"unsafe"

	vm "github.com/yuin/gopher-lua"
)

// The virtual machine hides what its instructions work on. The types here have the same layout as its own, which is
// verified when the process starts, so that a version that differs is found out at once.

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

// registers is the layout of the stack of values, up to what is used.
type registers struct {
	array []vm.LValue
	top   int
}

// frame is the layout of the frame of a call.
type frame struct {
	Idx        int // how many calls there are before it
	Fn         *vm.LFunction
	Parent     *frame
	Pc         int // the next instruction
	Base       int // the register of the function
	LocalBase  int // that of its first local variable
	ReturnBase int
	NArgs      int
	NRet       int
	TailCall   int // how many calls it has taken the place of
}

// openVariable is the layout of vm.Upvalue, up to what is used: a variable that is still a register.
type openVariable struct {
	next *openVariable
}

// contents is the layout of vm.LTable.
type contents struct {
	Metatable vm.LValue
	array     []vm.LValue             // t[1], t[2], ...
	dict      map[vm.LValue]vm.LValue // under keys that are neither places in the array nor texts
	strdict   map[string]vm.LValue    // under texts
	keys      []vm.LValue             // of both, in the order of insertion, see contents.hash
	k2i       map[vm.LValue]int       // where a key is in that list; not kept up here
}

func machineOf(L *vm.LState) *machine   { return (*machine)(unsafe.Pointer(L)) }
func contentsOf(t *vm.LTable) *contents { return (*contents)(unsafe.Pointer(t)) }

// closeVariables makes all variables of a thread that functions share stand for themselves.
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

// verifyLayout ends the process if ours does not begin as theirs does, pointers that are followed included.
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
