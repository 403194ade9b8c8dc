package list_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/list"
)

// model holds lists in memory, with random operations that are done to them and to the stored lists alike.
type model struct {
	r    *rand.Rand
	have map[string][]string
}

// elem returns one of a few elements, so that searches find several.
func (m *model) elem() string { return []string{"", "a", "b", "c", "\x00\xff", "dd"}[m.r.IntN(6)] }

func (m *model) elems() []string {
	list := make([]string, 1+m.r.IntN(4))
	for i := range list {
		list[i] = m.elem()
	}
	return list
}

// index returns one that is mostly in the list or close to it.
func (m *model) index(n int) int64 { return int64(m.r.IntN(2*n+5) - n - 2) }

// bounds are those of Redis: [from, to).
func bounds(start, stop int64, n int) (from, to int) {
	size := int64(n)
	if start < 0 {
		start = max(start+size, 0)
	}
	if stop < 0 {
		stop += size
	}
	stop = min(stop, size-1)
	if start > stop {
		return 0, 0
	}
	return int(start), int(stop) + 1
}

// step does one operation and returns an error where the stored list behaves otherwise.
func (m *model) step(tx *engine.Tx, key []byte) error {
	k := string(key)
	l := m.have[k]
	left := m.r.IntN(2) == 0
	differ := func(what string, got, want any) error {
		return fmt.Errorf("%s on %q: %v, want %v", what, l, got, want)
	}
	switch m.r.IntN(12) {
	case 0, 1, 2:
		elems, existing := m.elems(), m.r.IntN(4) == 0
		n, err := list.Push(tx, key, raw(elems...), left, existing)
		if existing && len(l) == 0 {
			elems = nil
		}
		if left {
			slices.Reverse(elems)
			m.have[k] = slices.Concat(elems, l)
		} else {
			m.have[k] = slices.Concat(l, elems)
		}
		if err == nil && n != uint64(len(m.have[k])) {
			err = differ("push", n, len(m.have[k]))
		}
		return err
	case 3:
		n := m.r.IntN(4)
		var got []string
		begun := -1
		err := list.Pop(tx, key, uint64(n), left, func(n uint64) { begun = int(n) },
			func(e []byte) { got = append(got, string(e)) })
		n = min(n, len(l))
		want := slices.Clone(l[:n])
		m.have[k] = l[n:]
		if !left {
			want = slices.Clone(l[len(l)-n:])
			slices.Reverse(want)
			m.have[k] = l[:len(l)-n]
		}
		if len(l) == 0 {
			n = -1
		}
		if err == nil && (begun != n || !slices.Equal(got, want)) {
			err = differ(fmt.Sprintf("pop, left %v", left), fmt.Sprintf("%d: %q", begun, got), fmt.Sprintf("%d: %q", n, want))
		}
		return err
	case 4:
		i, e := m.index(len(l)), m.elem()
		err := list.Set(tx, key, i, []byte(e))
		at := i
		if at < 0 {
			at += int64(len(l))
		}
		switch {
		case len(l) == 0:
			if !errors.Is(err, list.ErrNoKey) {
				return differ("set", err, list.ErrNoKey)
			}
			return nil
		case at < 0 || at >= int64(len(l)):
			if !errors.Is(err, list.ErrIndex) {
				return differ("set", err, list.ErrIndex)
			}
			return nil
		}
		m.have[k] = slices.Clone(l)
		m.have[k][at] = e
		return err
	case 5:
		start, stop := m.index(len(l)), m.index(len(l))
		if m.r.IntN(3) > 0 { // mostly little
			start, stop = int64(m.r.IntN(2)), -1-int64(m.r.IntN(2))
		}
		from, to := bounds(start, stop, len(l))
		m.have[k] = l[from:to]
		return list.Trim(tx, key, start, stop)
	case 6:
		pivot, e := m.elem(), m.elem()
		n, err := list.Insert(tx, key, []byte(pivot), []byte(e), left)
		want := int64(-1)
		if at := slices.Index(l, pivot); at >= 0 {
			if !left {
				at++
			}
			m.have[k] = slices.Insert(slices.Clone(l), at, e)
			want = int64(len(m.have[k]))
		} else if len(l) == 0 {
			want = 0
		}
		if err == nil && n != want {
			err = differ("insert", n, want)
		}
		return err
	case 7:
		e, count := m.elem(), int64(m.r.IntN(7)-3)
		n, err := list.Remove(tx, key, count, []byte(e))
		rest := slices.Clone(l)
		if count < 0 {
			slices.Reverse(rest)
		}
		removed := int64(0)
		rest = slices.DeleteFunc(rest, func(x string) bool {
			if x != e || count != 0 && removed == max(count, -count) {
				return false
			}
			removed++
			return true
		})
		if count < 0 {
			slices.Reverse(rest)
		}
		m.have[k] = rest
		if err == nil && n != removed {
			err = differ(fmt.Sprintf("remove %d %q", count, e), n, removed)
		}
		return err
	case 8:
		return m.move(tx, key)
	case 9:
		return m.pos(tx, key)
	case 10:
		return m.moveMany(tx, key)
	}
	return m.check(tx, key)
}

// moveMany is Redis's LMOVEM: all elements are popped, ordered and pushed.
func (m *model) moveMany(tx *engine.Tx, key []byte) error {
	to := keys[m.r.IntN(len(keys))]
	o := list.MoveOptions{Min: 1, Max: uint64(m.r.IntN(4) + 1), FromLeft: m.r.IntN(2) == 0, ToLeft: m.r.IntN(2) == 0,
		Bulk: m.r.IntN(2) == 0}
	if m.r.IntN(2) == 0 {
		o.Min = o.Max
	}
	got, err := list.MoveMany(tx, key, to, o)
	l := m.have[string(key)]
	n := min(int(o.Max), len(l))
	if uint64(n) < o.Min {
		n = 0
	}
	at := 0
	if !o.FromLeft {
		at = len(l) - n
	}
	block := slices.Clone(l[at : at+n])
	if !o.Bulk && o.FromLeft == o.ToLeft {
		slices.Reverse(block)
	}
	m.have[string(key)] = slices.Delete(slices.Clone(l), at, at+n)
	d := m.have[string(to)]
	if o.ToLeft {
		m.have[string(to)] = slices.Concat(block, d)
	} else {
		m.have[string(to)] = slices.Concat(d, block)
	}
	if err == nil && !slices.EqualFunc(got, block, func(g []byte, w string) bool { return string(g) == w }) {
		err = fmt.Errorf("%+v moved %q out of %q, want %q", o, got, l, block)
	}
	return err
}

func (m *model) move(tx *engine.Tx, key []byte) error {
	to := keys[m.r.IntN(len(keys))]
	fromLeft, toLeft := m.r.IntN(2) == 0, m.r.IntN(2) == 0
	got, found, err := list.Move(tx, key, to, fromLeft, toLeft)
	l := m.have[string(key)]
	if len(l) == 0 {
		if err == nil && found {
			err = fmt.Errorf("%q moved out of nothing", got)
		}
		return err
	}
	var e string
	if fromLeft {
		e, m.have[string(key)] = l[0], l[1:]
	} else {
		e, m.have[string(key)] = l[len(l)-1], l[:len(l)-1]
	}
	d := m.have[string(to)]
	if toLeft {
		m.have[string(to)] = slices.Concat([]string{e}, d)
	} else {
		m.have[string(to)] = slices.Concat(d, []string{e})
	}
	if err == nil && (!found || string(got) != e) {
		err = fmt.Errorf("moved %q, found %v, want %q", got, found, e)
	}
	return err
}

func (m *model) pos(tx *engine.Tx, key []byte) error {
	l := m.have[string(key)]
	e := m.elem()
	o := list.PosOptions{Rank: int64(m.r.IntN(3) + 1), Count: uint64(m.r.IntN(3)), MaxLen: uint64(m.r.IntN(8))}
	if m.r.IntN(2) == 0 {
		o.Rank = -o.Rank
	}
	var want []uint64
	skip := max(o.Rank, -o.Rank) - 1
	for n := range l {
		i := n
		if o.Rank < 0 {
			i = len(l) - 1 - n
		}
		if o.MaxLen > 0 && uint64(n) == o.MaxLen {
			break
		}
		if l[i] != e {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if want = append(want, uint64(i)); uint64(len(want)) == o.Count {
			break
		}
	}
	var got []uint64
	err := list.Pos(tx, key, []byte(e), o, func(i uint64) { got = append(got, i) })
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("pos %q %+v in %q: %v, want %v", e, o, l, got, want)
	}
	return err
}

// check compares everything, a part, and one element.
func (m *model) check(tx *engine.Tx, key []byte) error {
	l := m.have[string(key)]
	got, err := slice(tx, key, 0, -1)
	if err == nil && !slices.Equal(got, l) {
		err = fmt.Errorf("the list %s holds %q, want %q", key, got, l)
	}
	n, err2 := list.Len(tx, key)
	if err2 == nil && n != uint64(len(l)) {
		err2 = fmt.Errorf("%d elements, want %d", n, len(l))
	}
	start, stop := m.index(len(l)), m.index(len(l))
	from, to := bounds(start, stop, len(l))
	got, err3 := slice(tx, key, start, stop)
	if err3 == nil && !slices.Equal(got, l[from:to]) {
		err3 = fmt.Errorf("%d to %d of %q: %q", start, stop, l, got)
	}
	return errors.Join(err, err2, err3)
}

var keys = raw("l1", "l2")

// TestModel does random operations to two lists and to slices, several in a transaction, some of which are rolled
// back.
func TestModel(t *testing.T) {
	abandoned := errors.New("abandoned")
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := enginetest.Open(t)
			m := &model{r: rand.New(rand.NewPCG(seed, 3)), have: map[string][]string{}}
			for round := range 600 {
				before := map[string][]string{}
				for k, l := range m.have {
					before[k] = slices.Clone(l)
				}
				abandon := m.r.IntN(5) == 0
				err := db.Update(ns, keys, func(tx *engine.Tx) error {
					for range 1 + m.r.IntN(8) {
						if err := m.step(tx, keys[m.r.IntN(len(keys))]); err != nil {
							return err
						}
					}
					if abandon {
						return abandoned
					}
					return m.check(tx, keys[0])
				})
				if abandon && errors.Is(err, abandoned) {
					m.have, err = before, nil
				}
				for _, k := range keys {
					if err == nil {
						err = db.View(ns, keys, func(tx *engine.Tx) error {
							if rec, _ := tx.LoadAny(k); rec.Exists != (len(m.have[string(k)]) > 0) {
								return fmt.Errorf("the key %s exists: %v", k, rec.Exists)
							}
							got, err := slice(tx, k, 0, -1)
							if err == nil && !slices.Equal(got, m.have[string(k)]) {
								err = fmt.Errorf("%s holds %q, want %q", k, got, m.have[string(k)])
							}
							return err
						})
					}
				}
				if err != nil {
					t.Fatalf("transaction %d: %v", round, err)
				}
			}
		})
	}
}

// TestQueue pushes and pops long: every element comes out once and in order, in runs of one and of several.
func TestQueue(t *testing.T) {
	for _, run := range []int{1, 7, 64} {
		t.Run(strconv.Itoa(run), func(t *testing.T) {
			db := enginetest.Open(t)
			key := []byte("q")
			const total = 6000
			in, out := 0, 0
			for out < total {
				update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
					for range run {
						if in < total && in-out < 2000 {
							if _, err := list.Push(tx, key, raw(strconv.Itoa(in), strconv.Itoa(in+1)), false, false); err != nil {
								return err
							}
							in += 2
						}
						err := list.Pop(tx, key, 1, true, func(uint64) {}, func(e []byte) {
							if string(e) != strconv.Itoa(out) {
								t.Errorf("element %d is %q", out, e)
							}
							out++
						})
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
				rec, err := tx.LoadAny(key)
				if rec.Exists {
					t.Errorf("the queue is left with %d elements", rec.Size)
				}
				return err
			})
		})
	}
}

// TestConcurrent lets some push, some pop and some move on, while readers read all: every element must turn up
// exactly once, and no reader may miss one between head and tail.
func TestConcurrent(t *testing.T) {
	db := enginetest.Open(t)
	a, b := keys[0], keys[1]
	const pushers, each = 3, 200
	var mu sync.Mutex
	count := map[string]int{}
	var pushing, others sync.WaitGroup
	done := make(chan struct{})
	for w := range pushers {
		pushing.Go(func() {
			for i := range each {
				err := db.Update(ns, keys[:1], func(tx *engine.Tx) error {
					_, err := list.Push(tx, a, raw(fmt.Sprintf("%d:%d", w, i)), i%2 == 0, false)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	repeat := func(f func() error) {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 2 {
		repeat(func() error {
			var got []string
			err := db.Update(ns, keys[:1], func(tx *engine.Tx) error {
				got = got[:0]
				return list.Pop(tx, a, uint64(i+1), i == 0, func(uint64) {}, func(e []byte) { got = append(got, string(e)) })
			})
			mu.Lock()
			defer mu.Unlock()
			for _, e := range got {
				count[e]++
			}
			return err
		})
	}
	repeat(func() error {
		return db.Update(ns, keys, func(tx *engine.Tx) error {
			_, _, err := list.Move(tx, a, b, false, true)
			return err
		})
	})
	repeat(func() error {
		return db.View(ns, keys[:1], func(tx *engine.Tx) error { _, err := slice(tx, a, 0, -1); return err })
	})
	pushing.Wait()
	close(done)
	others.Wait()
	view(t, db, keys, func(tx *engine.Tx) error {
		for _, k := range keys {
			elems, err := slice(tx, k, 0, -1)
			if err != nil {
				return err
			}
			for _, e := range elems {
				count[e]++
			}
		}
		return nil
	})
	for w := range pushers {
		for i := range each {
			if e := fmt.Sprintf("%d:%d", w, i); count[e] != 1 {
				t.Errorf("%q turned up %d times", e, count[e])
			}
		}
	}
}
