package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/basaltdb/basalt/internal/transfer"
)

// Comparison is the result of a comparison.
type Comparison struct {
	Keys    int64 `json:"keys"` // of the source that were compared
	Sampled bool  `json:"sampled"`
	// Changing is the number of keys that changed during every one of their comparisons.
	Changing int64 `json:"changing"`
	// ByType are keys of types without a canonical form: only their type and expiry were compared.
	ByType *transfer.Examples `json:"by_type_only"`
	// Differ is the number of different keys. Differences lists at most maxListed of them.
	Differ      int64        `json:"differ"`
	Differences []Difference `json:"differences"`
	Seconds     float64      `json:"seconds"`
}

// Difference is a key that differs between the two sides.
type Difference struct {
	DB   int    `json:"db"`
	Key  string `json:"key"`
	What string `json:"what"`
}

// The bounds of a comparison.
const (
	maxListed = 1000
	// maxDoubtful is the max number of keys that are compared again. A key may differ the first time because a client
	// is changing it.
	maxDoubtful = 100_000
	// keysAtOnce is the number of keys that are compared at the same time. Memory holds a part of each.
	keysAtOnce = 128
	// comparisons is the max number of comparisons of one key.
	comparisons = 4
)

// key is a key of a database of the source.
type key struct {
	db   int
	name string
}

// comparer compares two servers.
type comparer struct {
	ctx      context.Context
	from, to *peer
	// databases maps the databases of the source to those of the target.
	databases map[int]int
	sample    int64 // keys of each side, 0 = all
	// settle waits until the target has all writes of the source; it may be nil.
	settle   func(ctx context.Context) error
	progress func(stage string, done, total int64)

	absolute bool // both know PEXPIRETIME
	fields   bool // both know HPEXPIRETIME

	src, dst map[int]*keyspace // by the database of the source

	done  atomic.Int64
	total int64

	mu     sync.Mutex
	result Comparison
	doubt  map[key]string
	// skipped are databases that exist on one side only.
	skipped []int
}

// run compares both sides.
func (c *comparer) run() (*Comparison, error) {
	begin := time.Now()
	err := c.all()
	for _, m := range []map[int]*keyspace{c.src, c.dst} {
		for _, k := range m {
			k.close()
		}
	}
	c.result.Seconds = time.Since(begin).Seconds()
	c.result.Sampled = c.sample > 0
	return &c.result, err
}

func (c *comparer) all() error {
	c.result.ByType, c.result.Differences = &transfer.Examples{First: []string{}}, []Difference{}
	c.absolute = c.from.knows("pexpiretime") && c.to.knows("pexpiretime")
	c.fields = c.from.knows("hpexpiretime") && c.to.knows("hpexpiretime")
	c.src, c.dst, c.doubt = map[int]*keyspace{}, map[int]*keyspace{}, map[key]string{}
	sizes, err := c.from.databases()
	if err != nil {
		return err
	}
	for db, home := range c.databases {
		src, err := open(c.ctx, c.from, db)
		if noDatabase(err) {
			c.skipped = append(c.skipped, db)
			continue
		}
		if err != nil {
			return err
		}
		c.src[db] = src
		dst, err := open(c.ctx, c.to, home)
		if noDatabase(err) && sizes[db] == 0 {
			c.skipped = append(c.skipped, db)
			delete(c.src, db)
			src.close()
			continue
		}
		if err != nil {
			return err
		}
		c.dst[db] = dst
		c.total += sizes[db]
	}
	if c.sample > 0 {
		c.total = min(c.total, c.sample*int64(len(c.databases)))
	}
	for _, db := range sortedKeys(c.dst) {
		if err := c.forward(db); err != nil {
			return err
		}
		if err := c.backward(db); err != nil {
			return err
		}
	}
	for range comparisons - 1 {
		if len(c.doubt) == 0 {
			break
		}
		if err := c.again(); err != nil {
			return err
		}
	}
	for k, what := range c.doubt {
		if what != changing {
			c.differs(k, what)
		}
	}
	return nil
}

// noDatabase reports whether a server has rejected SELECT because it has no database of that number.
func noDatabase(err error) bool { return err != nil && strings.Contains(err.Error(), "out of range") }

// differs counts a different key. mu must be held, or no other goroutine be running.
func (c *comparer) differs(k key, what string) {
	if c.result.Differ++; len(c.result.Differences) < maxListed {
		c.result.Differences = append(c.result.Differences, Difference{k.db, k.name, what})
	}
}

// note stores the first result for a key; "" = no difference.
func (c *comparer) note(k key, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if what == "" {
		return
	}
	if len(c.doubt) < maxDoubtful {
		c.doubt[k] = what
	} else if c.doubt[k] == "" {
		c.differs(k, what)
	}
}

// parallel runs f for keys, atOnce at the same time.
func parallel(keys []key, atOnce int, f func(k key) error) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error
	slots := make(chan struct{}, atOnce)
	for _, k := range keys {
		slots <- struct{}{}
		mu.Lock()
		stop := first != nil
		mu.Unlock()
		if stop {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			if err := f(k); err != nil {
				mu.Lock()
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return first
}

// names calls f with keys of a keyspace: all of them, or a sample.
func (c *comparer) names(k *keyspace, f func(names []string) error) error {
	if c.sample == 0 {
		return k.scan(f)
	}
	hosts := int64(len(k.masters()))
	return k.each(func(p *pipe) error {
		const atOnce = 256
		seen := map[string]bool{}
		want := (c.sample + hosts - 1) / hosts
		for asked := int64(0); asked < 2*want && int64(len(seen)) < want; asked += atOnce {
			commands := make([][]string, min(atOnce, want))
			for i := range commands {
				commands[i] = []string{"RANDOMKEY"}
			}
			replies, err := p.start(commands...)()
			if err != nil {
				return err
			}
			var names []string
			for i := range replies {
				if err := replies[i].Err(); err != nil {
					return fmt.Errorf("%s: RANDOMKEY: %w", p.addr, err)
				}
				name := string(replies[i].Text)
				if !replies[i].Null && name != PositionKey && !seen[name] && int64(len(seen)) < want {
					seen[name] = true
					names = append(names, name)
				}
			}
			if err := f(names); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *comparer) report(stage string, n int) {
	if c.progress != nil {
		c.progress(stage, c.done.Add(int64(n)), c.total)
	}
}

// forward compares the keys of a database of the source with the target.
func (c *comparer) forward(db int) error {
	return c.names(c.src[db], func(names []string) error {
		var there atomic.Int64
		err := parallel(inDB(db, names), keysAtOnce, func(k key) error {
			v, err := c.compare(k, true)
			if err != nil {
				return err
			}
			if v.gone {
				return nil
			}
			there.Add(1)
			c.note(k, v.differs)
			return nil
		})
		c.result.Keys += there.Load()
		c.report("comparing", len(names))
		return err
	})
}

// backward looks for keys that only the target has.
func (c *comparer) backward(db int) error {
	return c.names(c.dst[db], func(names []string) error {
		return parallel(inDB(db, names), keysAtOnce, func(k key) error {
			r, err := c.src[db].do("EXISTS", k.name)
			if err == nil && r.Int == 0 {
				c.note(k, onlyTarget)
			}
			return err
		})
	})
}

const onlyTarget = "only the target has it"

// again compares the doubtful keys again. It distinguishes keys that the source has changed meanwhile from different
// keys.
func (c *comparer) again() error {
	if c.settle != nil {
		if err := c.settle(c.ctx); err != nil {
			return err
		}
	}
	keys := slices.Collect(maps.Keys(c.doubt))
	before := make(map[key]uint64, len(keys))
	err := parallel(keys, dumpsAtOnce, func(k key) error {
		sum, err := c.fingerprint(k)
		c.mu.Lock()
		before[k] = sum
		c.mu.Unlock()
		return err
	})
	if err != nil {
		return err
	}
	if err := sleep(c.ctx, settleTime); err != nil {
		return err
	}
	c.result.Changing = 0
	return parallel(keys, dumpsAtOnce, func(k key) error {
		v, err := c.compare(k, false)
		if err != nil {
			return err
		}
		changed := false
		if v.differs != "" {
			sum, err := c.fingerprint(k)
			if err != nil {
				return err
			}
			changed = sum != before[k]
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case v.differs == "":
			delete(c.doubt, k)
		case changed:
			c.doubt[k] = changing
			c.result.Changing++
		default:
			c.doubt[k] = v.differs
		}
		return nil
	})
}

// changing marks a doubtful key that the source has changed during its comparison.
const changing = "changing"

// dumpsAtOnce is the number of keys that are read as a whole at the same time. Each may be large.
const dumpsAtOnce = 16

// fingerprint returns a number that changes when the source changes the key, if the key has a DUMP.
func (c *comparer) fingerprint(k key) (uint64, error) {
	replies, err := c.src[k.db].start(k.name, []string{"DUMP", k.name}, []string{"PTTL", k.name})()
	if err != nil {
		return 0, err
	}
	return xxh3.Hash(replies[0].Text) + uint64(min(replies[1].Int, 0)), nil
}

// settleTime is the time for a change to reach the target, and for an expiry that the two clocks see at different
// times.
const settleTime = 200 * time.Millisecond

func inDB(db int, names []string) []key {
	keys := make([]key, len(names))
	for i, name := range names {
		keys[i] = key{db, name}
	}
	return keys
}

// verdict is the result for one key.
type verdict struct {
	gone    bool   // neither side has the key, or only the target has it, whose keys are compared separately
	differs string // "" = no difference
}

// errDiffers ends the comparison of a value early.
type errDiffers string

func (e errDiffers) Error() string { return string(e) }

func differ(format string, args ...any) error { return errDiffers(fmt.Sprintf(format, args...)) }

// compare compares a key. first: this is the key's first comparison, and the keys of the target are compared
// separately.
func (c *comparer) compare(k key, first bool) (verdict, error) {
	x := &pair{c: c, key: k.name, src: c.src[k.db], dst: c.dst[k.db]}
	gone, err := x.compare()
	var d errDiffers
	switch {
	case gone == neither, gone == noSource && first:
		return verdict{gone: true}, nil
	case gone == noSource:
		return verdict{differs: onlyTarget}, nil
	case errors.As(err, &d):
		return verdict{differs: string(d)}, nil
	}
	return verdict{}, err
}
