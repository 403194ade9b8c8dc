package str_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

const (
	writers = 8
	rounds  = 200
)

// parallel runs f in several goroutines, each in rounds.
func parallel(t *testing.T, f func(writer, round int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				if err := f(w, r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestConcurrentIncr(t *testing.T) {
	db := enginetest.Open(t)
	parallel(t, func(int, int) error {
		return db.Update(ns, list("k"), func(tx *engine.Tx) error {
			_, err := str.IncrBy(tx, []byte("k"), 1)
			return err
		})
	})
	if got := value(t, db); got != strconv.Itoa(writers*rounds) {
		t.Errorf("%s after %d increments", got, writers*rounds)
	}
}

func TestConcurrentAppend(t *testing.T) {
	db := enginetest.Open(t)
	parallel(t, func(w, r int) error {
		word := string(rune('a'+w)) + strconv.Itoa(r) + ","
		return db.Update(ns, list("k"), func(tx *engine.Tx) error {
			_, err := str.Append(tx, []byte("k"), []byte(word), limit)
			return err
		})
	})
	// Every word is there, those of a writer in its order.
	next := make([]int, writers)
	for _, word := range strings.Split(strings.TrimSuffix(value(t, db), ","), ",") {
		w := int(word[0] - 'a')
		if word[1:] != strconv.Itoa(next[w]) {
			t.Fatalf("%q where writer %d is at %d", word, w, next[w])
		}
		next[w]++
	}
	for w, n := range next {
		if n != rounds {
			t.Errorf("%d words of writer %d", n, w)
		}
	}
}

// TestConcurrentMSetNX: of those who set the same keys at once, one wins, and its values are the ones there.
func TestConcurrentMSetNX(t *testing.T) {
	db := enginetest.Open(t)
	var mu sync.Mutex
	winner := map[int]int{}
	parallel(t, func(w, r int) error {
		// Every writer names the keys in an order of its own.
		a, b := "a"+strconv.Itoa(r), "b"+strconv.Itoa(r)
		if w%2 == 0 {
			a, b = b, a
		}
		text := strconv.Itoa(w)
		return db.Update(ns, list(a, b), func(tx *engine.Tx) error {
			done, err := str.MSetNX(tx, list(a, text, b, text))
			if done {
				mu.Lock()
				defer mu.Unlock()
				if other, twice := winner[r]; twice {
					t.Errorf("writers %d and %d have both set %s", other, w, a)
				}
				winner[r] = w
			}
			return err
		})
	})
	for r := range rounds {
		require.NoError(t, db.View(ns, nil, func(tx *engine.Tx) error {
			for _, k := range []string{"a", "b"} {
				v, found, err := str.Get(tx, []byte(k+strconv.Itoa(r)))
				if err != nil || !found || string(v) != strconv.Itoa(winner[r]) {
					t.Errorf("%s%d is %q, %v; writer %d has set it", k, r, v, err, winner[r])
				}
			}
			return nil
		}))
	}
}
