package rocks

// #include <stdint.h>
// #include "shim/shim.h"
import "C"

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// EventKind is the kind of an Event.
type EventKind int

// The events.
const (
	FlushCompleted      EventKind = C.BK_EV_FLUSH
	CompactionCompleted EventKind = C.BK_EV_COMPACTION
	BackgroundError     EventKind = C.BK_EV_ERROR     // Code is the severity: 1 soft, 2 hard, 3 fatal, 4 unrecoverable
	StallChanged        EventKind = C.BK_EV_STALL     // Code is 0 delayed, 1 stopped, 2 normal
	Recovered           EventKind = C.BK_EV_RECOVERED // Code is 1 when the error remains
	MemtableSealed      EventKind = C.BK_EV_SEALED    // a new log was begun
	// Code is the number of bytes of a log that RocksDB leaves out at the start
	LogDropped EventKind = C.BK_EV_DROPPED
	// Code is the number of expired hash fields that a compaction has dropped
	FieldsDropped EventKind = C.BK_EV_FIELDS
	CorruptRead   EventKind = -1 // a call has met a damaged file; Text is its error
)

// Event is something that RocksDB reports.
type Event struct {
	Kind   EventKind
	Family string
	Text   string
	Code   int
}

// hooks maps the handles that C++ holds to the Go callbacks: C must not keep a Go pointer.
var (
	hooks      sync.Map // uintptr to *Options
	lastHandle atomic.Uintptr
)

//export bkGoVerdict
func bkGoVerdict(handle C.uintptr_t, kind C.int, key *C.char, klen C.size_t, val *C.char, vlen C.size_t,
	end, before *C.uint64_t) C.int {
	v, ok := hooks.Load(uintptr(handle))
	if !ok {
		return Keep
	}
	o := v.(*Options)
	if o.Verdict == nil {
		return Keep
	}
	verdict, at, fields := o.Verdict(FamilyKind(kind), unsafe.Slice((*byte)(unsafe.Pointer(key)), int(klen)),
		unsafe.Slice((*byte)(unsafe.Pointer(val)), int(vlen)))
	*end, *before = C.uint64_t(at), C.uint64_t(fields)
	return C.int(verdict)
}

// settled is the C++ implementation of compaction.Settled.
func settled(value []byte) bool { return C.bk_settled(bytesPtr(value), C.size_t(len(value))) != 0 }

// sendCorrupt reports damage, which a call found, to all open databases; text names the file.
func sendCorrupt(text string) {
	hooks.Range(func(_, v any) bool {
		if o := v.(*Options); o.Event != nil {
			o.Event(Event{Kind: CorruptRead, Text: text})
		}
		return true
	})
}

//export bkGoEvent
func bkGoEvent(handle C.uintptr_t, kind C.int, family, text *C.char, code C.int) {
	v, ok := hooks.Load(uintptr(handle))
	if !ok {
		return
	}
	if o := v.(*Options); o.Event != nil {
		o.Event(Event{Kind: EventKind(kind), Family: C.GoString(family), Text: C.GoString(text), Code: int(code)})
	}
}
