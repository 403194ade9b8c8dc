package procs

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestWakeful(t *testing.T) {
	w := wakeful{nap: nap}
	defer w.release()
	step := func(own float64, want int) {
		t.Helper()
		if got := w.step(own); got != want {
			t.Errorf("%d places at %.1f cores, want %d", got, own, want)
		}
	}
	step(0, 0)
	step(idle, 1)
	for range 2 {
		for range forget - 1 {
			step(0.1, 1)
		}
		step(2, 1) // soon enough
	}
	for range forget - 1 {
		step(0.1, 1)
	}
	step(0.1, 0)
	step(0.1, 0)
	step(1, 1)
}

// Who stops all goroutines does not wait until the nap is over.
func TestPlaceIsGivenUp(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1))
	var released atomic.Bool
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		takePlace(24*time.Hour, &released)
		close(ended)
	}()
	go func() {
		for range 20 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
		}
		released.Store(true)
		runtime.GC()
		close(stopped)
	}()
	for _, c := range []chan struct{}{stopped, ended} {
		select {
		case <-c:
		case <-time.After(time.Minute):
			t.Fatal("the goroutines were not stopped within a minute")
		}
	}
}
