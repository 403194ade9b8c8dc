package procs

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// wakeful keeps sysmon, the thread of Go's scheduler that watches the others, from sleeping while the process is busy.
//
// Sysmon sleeps once it finds that no place among the running threads is taken, and the next system call of any
// goroutine wakes it up. With clients that do not pipeline all goroutines wait for their clients thousands of times a
// second, and sysmon, which looks every 20 microseconds after it was woken, nearly always finds one of these moments.
// Waking it took 15 % of the CPU time of GET; without that GET costs 17.5 instead of 22.7 microseconds, and SET 20.6
// instead of 25.2 (P = 1, 2 cores, clients beside it). While one place is always taken, sysmon looks every 10 ms.
type wakeful struct {
	nap      time.Duration
	little   int          // number of the latest consecutive idle steps
	released *atomic.Bool // ends the goroutine that takes the place; nil = the place is not taken
}

// step takes what this process has used since the last step, in cores, and returns the number of places that are taken:
// 1 while the process is busy and some idle seconds longer, else 0.
func (w *wakeful) step(own float64) int {
	if own >= idle {
		w.little = 0
		if w.released == nil {
			w.released = new(atomic.Bool)
			go takePlace(w.nap, w.released)
		}
	} else if w.little++; w.little >= forget {
		w.release()
	}
	if w.released == nil {
		return 0
	}
	return 1
}

func (w *wakeful) release() {
	if w.released != nil {
		w.released.Store(true)
		w.released = nil
	}
}

// nap is less than the 10 ms after which the scheduler interrupts a goroutine that has not given up its place.
const nap = 9 * time.Millisecond

// takePlace takes a place among the running threads until it is released, and uses no CPU. It sleeps in a raw system
// call: the scheduler takes the goroutine to be running. What stops all goroutines, such as the garbage collector,
// sends the thread a signal, which ends the sleep.
func takePlace(nap time.Duration, released *atomic.Bool) {
	for !released.Load() {
		t := syscall.NsecToTimespec(int64(nap))
		syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
		runtime.Gosched()
	}
}
