package metrics

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/basaltdb/basalt/server/command"
)

// Log keeps the newest entries of a log. Entries have rising numbers, which a reset does not begin anew. The zero value
// is an empty log without limit; any number of goroutines may use it.
type Log[T any] struct {
	mu      sync.Mutex
	entries []T // oldest first
	next    int64
	max     int // 0 = no limit
}

// SetLimit sets how many entries are kept; 0 = all.
func (l *Log[T]) SetLimit(n int) {
	l.mu.Lock()
	l.max = n
	l.trim()
	l.mu.Unlock()
}

func (l *Log[T]) trim() {
	if n := len(l.entries) - l.max; l.max > 0 && n > 0 {
		clear(l.entries[:n])
		l.entries = l.entries[n:] // append moves what is left to a new array now and then
	}
}

// Push adds the entry that f makes from its number.
func (l *Log[T]) Push(f func(id int64) T) {
	l.mu.Lock()
	l.entries = append(l.entries, f(l.next))
	l.next++
	l.trim()
	l.mu.Unlock()
}

// Newest returns up to n entries, newest first; n < 0 = all.
func (l *Log[T]) Newest(n int) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n > len(l.entries) {
		n = len(l.entries)
	}
	out := slices.Clone(l.entries[len(l.entries)-n:])
	slices.Reverse(out)
	return out
}

// Len returns how many entries are kept.
func (l *Log[T]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Reset forgets all entries.
func (l *Log[T]) Reset() {
	l.mu.Lock()
	l.entries = nil
	l.mu.Unlock()
}

// SlowLog is the log of SLOWLOG.
type SlowLog struct{ Log[command.SlowEntry] }

// What is kept of the arguments of a slow command, as in Redis: 32 of them, 128 bytes of each.
const (
	slowArgs  = 32
	slowBytes = 128
)

// Add adds a command of a client. The arguments are copied.
func (l *SlowLog) Add(sess *command.Session, spec *command.Spec, args [][]byte, took time.Duration) {
	e := command.SlowEntry{At: time.Now(), Took: took, Args: trimArgs(spec, args), Addr: sess.Addr, Name: sess.Name}
	l.Push(func(id int64) command.SlowEntry {
		e.ID = id
		return e
	})
}

// trimArgs copies arguments as the slow log shows them: secrets left out, long ones and long lists cut.
func trimArgs(spec *command.Spec, args [][]byte) []string {
	n := len(args)
	if n > slowArgs {
		n = slowArgs - 1
	}
	out := make([]string, 0, n+1)
	for i, a := range args[:n] {
		switch {
		case command.Secret(spec, args, i):
			out = append(out, command.Redacted)
		case len(a) > slowBytes:
			out = append(out, fmt.Sprintf("%s... (%d more bytes)", a[:slowBytes], len(a)-slowBytes))
		default:
			out = append(out, string(a))
		}
	}
	if n < len(args) {
		out = append(out, fmt.Sprintf("... (%d more arguments)", len(args)-n))
	}
	return out
}
