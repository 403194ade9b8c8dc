package engine

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/derived"
)

// Random members of a collection, without reading the whole collection.
//
// A small collection (up to sampleAll entries) is read whole, and members are drawn uniformly. A collection of up to
// poolWhole entries makes a pool, from which later calls draw as uniformly. In a bigger collection a random walk finds
// a place, see walk. The end of each walk yields a short run of neighbours; a run that reaches the end of the
// collection continues at its beginning. Several runs, shuffled, make a pool, so that many draws share the cost of a
// walk.
const (
	sampleAll  = 128     // collections up to this size are read at each call
	wholeShare = 8       // a collection is read too if more than one of so many entries is wanted: walks cost more
	poolWhole  = 4096    // collections up to this size are pooled whole: that costs no more than the walks ...
	wholeMost  = 16384   // ... unless so many entries exist, because most of them are dead
	poolRuns   = 8       // walks for one pool
	poolRun    = 64      // min neighbours for each walk ...
	poolRunMax = 1024    // ... and max, for draws with replacement
	poolDraws  = 2       // how often each is drawn from a pool, on average
	popPool    = 1024    // subkeys in the first pool for pops, which use up every neighbour; each later pool is ...
	popGrowth  = 4       // ... so many times bigger, because a collection is often popped repeatedly, up to ...
	popPoolMax = 1 << 16 // ... this size. Such collections are read whole: walks over tombstones cost more.
	walkDepth  = 8
	walkSpan   = 2048 // max subkeys that a walk skips at its end
	walkSkip   = 256  // max tombstones that one step of a walk skips before it gives up
	readSkip   = 4096 // the same for the reading of neighbours
	poolMaxKey = 4096 // longer subkeys are not pooled: memory
)

// SampleMost is how many subkeys a caller should ask for at once: a draw of so many takes some MiB.
const SampleMost = 1 << 17

// Sample returns n random subkeys of the collection with this prefix in a family; size is its number of live subkeys. A
// subkey may occur several times. Sample returns fewer than n only when the collection has none.
func (tx *Tx) Sample(id cf.ID, prefix []byte, size uint64, n int) ([][]byte, error) {
	d, err := tx.sample(id, prefix, size, n, false)
	return d.Subs, err
}

// Drawn is what a draw returns.
type Drawn struct {
	Subs [][]byte
	// Values are the values of Subs, nil if the draw has not read them. To look up one after the other the values of a
	// large part of a collection, in random order, takes a hundred times as long as to read all of it.
	Values [][]byte
}

// Draw is Sample, or with distinct SampleDistinct. With values it returns the values, too, if it reads all of a
// collection anyway and they do not take too much memory.
func (tx *Tx) Draw(id cf.ID, prefix []byte, size uint64, n int, distinct, values bool) (Drawn, error) {
	if distinct {
		return tx.sampleDistinct(id, prefix, size, n, values)
	}
	return tx.sample(id, prefix, size, n, values)
}

func (tx *Tx) sample(id cf.ID, prefix []byte, size uint64, n int, values bool) (Drawn, error) {
	if size <= sampleAll {
		all, err := tx.allSubkeys(id, prefix)
		if err != nil || len(all) == 0 {
			return Drawn{}, err
		}
		out := make([][]byte, n)
		for i := range out {
			out[i] = all[rand.IntN(len(all))]
		}
		return Drawn{Subs: out}, nil
	}
	if uint64(n)*wholeShare >= size {
		return tx.drawFromAll(id, prefix, size, n, true, values)
	}
	out, err := tx.drawFromPools(id, prefix, size, n)
	return Drawn{Subs: out}, err
}

// drawFromPools is Sample for a part of a big collection.
func (tx *Tx) drawFromPools(id cf.ID, prefix []byte, size uint64, n int) ([][]byte, error) {
	out := make([][]byte, 0, n)
	for misses := 0; len(out) < n && misses < 256; misses++ { // what was found may be deleted again and again
		want := n - len(out)
		got := tx.findPool(prefix).draw(want)
		had := len(out)
		if len(got) == 0 {
			p, err := tx.fillPool(id, prefix, drawPool(size), misses > 4)
			if err != nil || p == nil {
				return out, err
			}
			out = append(out, p.draw(want)...) // read just now: they exist
		} else {
			var err error
			if out, err = tx.verified(id, prefix, got, out); err != nil {
				return nil, err
			}
		}
		if len(out) > had {
			misses = 0
		}
	}
	return out, nil
}

// PopSample returns up to n different random subkeys that the caller is about to delete. Repeated calls share the cost
// of finding them, and earlier deletes do not slow them down.
func (tx *Tx) PopSample(id cf.ID, prefix []byte, size uint64, n int) ([][]byte, error) {
	if uint64(n) >= size {
		return tx.allSubkeys(id, prefix)
	}
	if size <= sampleAll && n > 1 || n >= popPool && uint64(n)*wholeShare >= size {
		d, err := tx.drawFromAll(id, prefix, size, n, false, false)
		return d.Subs, err
	}
	var out [][]byte
	repeats := NewRepeats(n)
	for fills := 0; len(out) < n; {
		want := n - len(out)
		got := tx.findPool(prefix).take(want)
		fresh := len(got) == 0 // read just now: they exist
		if fresh {
			if fills++; fills > 8 { // the size is wrong, or the pools hold nothing new: read everything
				d, err := tx.drawCounted(id, prefix, n, false, false)
				return d.Subs, err
			}
			p, err := tx.fillPool(id, prefix, tx.nextPopPool(prefix, size, n), fills > 4)
			if err != nil || p == nil {
				return out, err
			}
			got = p.take(want)
		}
		live := got
		if !fresh {
			var err error
			if live, err = tx.verified(id, prefix, got, nil); err != nil {
				return nil, err
			}
		}
		for _, k := range live {
			if !repeats.Again(k) {
				out = append(out, k)
			}
		}
	}
	return out, nil
}

// drawFromAll returns n random subkeys, with again possibly some of them repeatedly, and with values their values, too.
// It passes over the whole collection, whose number of subkeys is size, and copies what it draws.
func (tx *Tx) drawFromAll(id cf.ID, prefix []byte, size uint64, n int, again, values bool) (d Drawn, err error) {
	if int64(n) > tx.db.MaxResultBytes()/drawnBytes {
		return d, ErrResultSize
	}
	places := make([]uint64, 0, n)
	if again {
		for range n {
			places = append(places, rand.Uint64N(size))
		}
		slices.Sort(places)
	} else {
		for at := uint64(0); at < size && len(places) < n; at++ {
			if rand.Uint64N(size-at) < uint64(n-len(places)) {
				places = append(places, at)
			}
		}
	}
	it := tx.Iter(id, IterOptions{Prefix: prefix, KeysOnly: !values})
	defer it.Close()
	d.Subs = make([][]byte, 0, n)
	if values {
		d.Values = make([][]byte, 0, n)
	}
	room := tx.db.MaxResultBytes() / 4 // for values
	next := uint64(0)                  // place of the subkey after the iterator's
	for i, at := range places {
		if at >= next {
			if it.Skip(at - next); !it.Next() { // the size is too large: that of a hash counts expired fields that are gone
				if err := it.Err(); err != nil {
					return Drawn{}, err
				}
				return tx.drawCounted(id, prefix, n, again, values)
			}
			d.Subs = append(d.Subs, tx.arena.copy(it.Key()))
			if room -= int64(len(it.Value())); room < 0 {
				d.Values = nil
			}
			if d.Values != nil {
				d.Values = append(d.Values, tx.arena.copy(it.Value()))
			}
			next = at + 1
		} else {
			d.Subs = append(d.Subs, d.Subs[i-1])
			if d.Values != nil {
				d.Values = append(d.Values, d.Values[i-1])
			}
		}
	}
	rand.Shuffle(len(d.Subs), func(i, j int) {
		d.Subs[i], d.Subs[j] = d.Subs[j], d.Subs[i]
		if d.Values != nil {
			d.Values[i], d.Values[j] = d.Values[j], d.Values[i]
		}
	})
	return d, it.Err()
}

// drawnBytes is the memory in bytes of a drawn subkey, without its bytes: its place, and a slice.
const drawnBytes = 32

// drawCounted is drawFromAll for a collection whose size is not known. It returns none only if there are none.
func (tx *Tx) drawCounted(id cf.ID, prefix []byte, n int, again, values bool) (Drawn, error) {
	upper, _ := cf.AppendSuccessor(nil, prefix)
	size, err := tx.Count(id, prefix, upper)
	if err != nil || size == 0 {
		return Drawn{}, err
	}
	return tx.drawFromAll(id, prefix, size, n, again, values)
}

// SampleDistinct returns n different random subkeys; if n is not below size, all subkeys in their order.
func (tx *Tx) SampleDistinct(id cf.ID, prefix []byte, size uint64, n int) ([][]byte, error) {
	d, err := tx.sampleDistinct(id, prefix, size, n, false)
	return d.Subs, err
}

func (tx *Tx) sampleDistinct(id cf.ID, prefix []byte, size uint64, n int, values bool) (Drawn, error) {
	switch {
	case uint64(n) >= size:
		all, err := tx.allSubkeys(id, prefix)
		return Drawn{Subs: all}, err
	case uint64(n)*wholeShare >= size || size <= sampleAll:
		return tx.drawFromAll(id, prefix, size, n, false, values)
	}
	repeats := NewRepeats(n)
	out := make([][]byte, 0, n)
	for range 64 {
		got, err := tx.Sample(id, prefix, size, (n-len(out))+(n-len(out))/4+1)
		if err != nil {
			return Drawn{}, err
		}
		for _, k := range got {
			if len(out) < n && !repeats.Again(k) {
				out = append(out, k)
			}
		}
		if len(out) == n {
			return Drawn{Subs: out}, nil
		}
		if p := tx.findPool(prefix); p != nil {
			p.Drop()
		}
	}
	return tx.drawCounted(id, prefix, n, false, values) // a clustered keyspace that the walks do not cover
}

// verified appends the subkeys that still exist to out.
func (tx *Tx) verified(id cf.ID, prefix []byte, subs, out [][]byte) ([][]byte, error) {
	if len(subs) == 1 {
		tx.keyBuf = append(append(tx.keyBuf[:0], prefix...), subs[0]...)
		_, _, found, err := tx.read(id, tx.keyBuf, cf.MaxHead, nil) // a metadata record may have any length
		if err == nil && found {
			out = append(out, subs[0])
		}
		return out, err
	}
	l := tx.Keys()
	for _, s := range subs {
		tx.keyBuf = append(append(tx.keyBuf[:0], prefix...), s...)
		l.Add(tx.keyBuf)
	}
	vals, err := tx.MultiGet(id, l)
	if err != nil {
		return nil, err
	}
	for i, v := range vals {
		if v != nil {
			out = append(out, subs[i])
		}
	}
	return out, nil
}

func (tx *Tx) allSubkeys(id cf.ID, prefix []byte) ([][]byte, error) {
	it := tx.Iter(id, IterOptions{Prefix: prefix, KeysOnly: true})
	defer it.Close()
	var all [][]byte
	for it.Next() {
		all = append(all, tx.arena.copy(it.Key()))
	}
	return all, it.Err()
}

// drawPool returns how many subkeys are pooled for draws with replacement. The pool is larger for bigger collections,
// because the walks are the main cost.
func drawPool(size uint64) int {
	if size <= poolWhole {
		return poolBounded
	}
	return poolRuns * int(min(max(size/128, poolRun), poolRunMax))
}

// nextPopPool returns how many subkeys are pooled for a pop of n; all when that is nearly the whole collection.
func (tx *Tx) nextPopPool(prefix []byte, size uint64, n int) int {
	want := popPool
	if p := tx.findPool(prefix); p != nil { // the previous pool is used up
		want = max(want, min(p.size*popGrowth, popPoolMax))
	}
	want = max(want, min(n, popPoolMax))
	if size <= uint64(want+want/2) {
		return poolAll
	}
	return want
}

const (
	poolAll     = math.MaxInt     // asks for a pool of the whole collection
	poolBounded = math.MaxInt - 1 // the same, unless the collection turns out to be bigger than its size says
)

// fillPool collects about want random subkeys for later draws. With scan it reads from a random point on and does not
// give up over tombstones. The pool is nil when no subkey was found.
func (tx *Tx) fillPool(id cf.ID, prefix []byte, want int, scan bool) (*samplePool, error) {
	f := poolFiller{tx: tx, id: id, prefix: prefix}
	// half of the memory may be unused, and the refs take memory too
	maxPool := int(max(min(maxPool, tx.db.derived.MaxState()/4), 16<<10))
	switch {
	case want == poolAll || want == poolBounded && !scan:
		most, maxSkip := want, uint64(0)
		if want == poolBounded {
			most, maxSkip, want = wholeMost, readSkip, poolRuns*poolRun
		}
		missing, err := f.take(nil, nil, most, maxPool, maxSkip)
		if err != nil {
			return nil, err
		}
		if missing == 0 { // further subkeys exist, which would never be drawn
			f.pool = pool{}
			if err := f.runs(poolRuns*poolRunMax, maxPool); err != nil {
				return nil, err
			}
		}
	case scan:
		at, err := tx.walk(id, prefix)
		if err != nil {
			return nil, err
		}
		if _, err := f.take(at, nil, want, maxPool, 0); err != nil {
			return nil, err
		}
		if f.pool.len() < want/poolRuns {
			if _, err := f.take(nil, at, want, maxPool, 0); err != nil {
				return nil, err
			}
		}
	default:
		if err := f.runs(want, maxPool); err != nil {
			return nil, err
		}
	}
	p := f.pool
	if p.len() == 0 {
		if want != poolAll && !scan {
			return tx.fillPool(id, prefix, want, true)
		}
		return nil, nil
	}
	rand.Shuffle(p.len(), func(i, j int) { p.refs[i], p.refs[j] = p.refs[j], p.refs[i] })
	made := &samplePool{pool: p, draws: poolDraws * p.len(), size: p.len()}
	poolKind.Put(tx.db.derived, prefix, 0, made, cap(p.buf)+8*cap(p.refs))
	return made, nil
}

// poolFiller reads the subkeys of one collection into a pool.
type poolFiller struct {
	tx     *Tx
	id     cf.ID
	prefix []byte
	pool   pool
}

// take pools up to n subkeys from lower (inclusive, nil = the first) to upper (exclusive, nil = no bound), until the
// pool has about most bytes. It returns how many of the n were missing at the upper end: none if it stopped because of
// the memory limit or because it met more than maxSkip tombstones (0 = no limit).
func (f *poolFiller) take(lower, upper []byte, n, most int, maxSkip uint64) (missing int, err error) {
	it := f.tx.Iter(f.id, IterOptions{Prefix: f.prefix, Lower: lower, Upper: upper, KeysOnly: true, Limit: n,
		MaxSkip: maxSkip})
	defer it.Close()
	for n > 0 {
		if len(f.pool.buf) >= most {
			return 0, nil
		}
		if !it.Next() {
			if err := it.Err(); err != nil {
				if incomplete(err) {
					err = nil
				}
				return 0, err
			}
			return n, nil
		}
		if len(it.Key()) <= poolMaxKey {
			f.pool.add(it.Key())
		}
		n--
	}
	return 0, nil
}

// runs pools the neighbours of several random points, about want in all. It treats the subkeys as a circle: a run that
// reaches the last subkey continues with the first, because otherwise the first subkeys would hardly ever be drawn. The
// pool gets at most about maxPool bytes.
func (f *poolFiller) runs(want, maxPool int) error {
	starts := make([][]byte, poolRuns)
	for i := range starts {
		var err error
		if starts[i], err = f.tx.walk(f.id, f.prefix); err != nil {
			return err
		}
	}
	slices.SortFunc(starts, bytes.Compare)
	missing := 0
	for i, at := range starts {
		if f.pool.len() > 0 { // a run that begins inside the previous run begins at its end instead
			after := append(append(append([]byte(nil), f.prefix...), f.pool.at(f.pool.len()-1)...), 0)
			if bytes.Compare(at, after) < 0 {
				at = after
			}
		}
		m, err := f.take(at, nil, want/poolRuns, maxPool/poolRuns*(i+1), readSkip)
		if err != nil {
			return err
		}
		missing += m
	}
	if missing == 0 {
		return nil
	}
	_, err := f.take(nil, starts[0], missing, maxPool, readSkip)
	return err
}

// poolKind is the state of random subkeys of collections. Each subkey is verified before it is used, so writers need
// not keep the state current.
var poolKind = derived.Kind[*samplePool]{ID: derived.Pools}

func (tx *Tx) findPool(prefix []byte) *samplePool {
	if !poolKind.Any(tx.db.derived) {
		return nil
	}
	return poolKind.Find(tx.db.derived, prefix, 0)
}

// samplePool is the pool of one collection.
type samplePool struct {
	derived.Entry
	size  int // how many subkeys it had at first
	mu    sync.Mutex
	pool  pool
	draws int // how many more draws with replacement it permits
}

// draw returns up to n subkeys, possibly with repetitions.
func (p *samplePool) draw(n int) (got [][]byte) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(got) < n && p.draws > 0 && p.pool.len() > 0 {
		got = append(got, p.pool.at(rand.IntN(p.pool.len())))
		p.draws--
	}
	return got
}

// take removes up to n subkeys from the pool.
func (p *samplePool) take(n int) (got [][]byte) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(got) < n && p.pool.len() > 0 {
		got = append(got, p.pool.pop())
	}
	p.draws = min(p.draws, p.pool.len())
	return got
}

// pool holds subkeys in one block of memory, in any order.
type pool struct {
	buf  []byte
	refs []poolRef
}

type poolRef struct{ at, len uint32 }

// maxPool is the approximate max size in bytes of one pool's subkeys.
const maxPool = 4 << 20

func (p *pool) len() int { return len(p.refs) }

func (p *pool) add(k []byte) {
	p.refs = append(p.refs, poolRef{uint32(len(p.buf)), uint32(len(k))})
	p.buf = append(p.buf, k...)
}

// at returns a subkey. The slice stays valid, because the content of a pool is never overwritten.
func (p *pool) at(i int) []byte {
	r := p.refs[i]
	return p.buf[r.at : r.at+r.len : r.at+r.len]
}

// pop removes the last subkey from the pool.
func (p *pool) pop() []byte {
	k := p.at(len(p.refs) - 1)
	p.refs = p.refs[:len(p.refs)-1]
	return k
}

// incomplete reports whether an iteration ended because it met too many tombstones.
func incomplete(err error) bool {
	return errors.As(err, new(*rocksError)) && strings.HasPrefix(err.Error(), "Result incomplete")
}
