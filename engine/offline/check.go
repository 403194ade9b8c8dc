package offline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Options configure [Check] and [Repair] and receive their progress.
type Options struct {
	// Phase, unless nil, is called when a phase begins, with the total work in bytes or records. The returned function
	// is called with the work done since its last call.
	Phase func(name string, total int64, bytes bool) (advance func(n int64))
	// Problem, unless nil, is called with each problem when it is found.
	Problem func(*Problem)
	// Dropped is the name of the file for the records that Repair drops; empty = a new file beside the database.
	Dropped string
	Now     func() time.Time // nil = time.Now
}

func (o *Options) fill() {
	if o.Phase == nil {
		o.Phase = func(string, int64, bool) func(int64) { return func(int64) {} }
	}
	if o.Problem == nil {
		o.Problem = func(*Problem) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Check reads everything in the database in dir: the checksums of its files, all records, and whether the records are
// consistent. It changes nothing. Problems are in the report; an error says what stopped the check.
func Check(ctx context.Context, dir string, o Options) (*Report, error) {
	o.fill()
	began := o.Now()
	r, err := engine.OpenDamaged(dir)
	if errors.Is(err, engine.ErrDamaged) {
		return unopenable(dir, err, &o), nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	c := newChecker(ctx, r, &o)
	if err := c.files(); err != nil {
		return nil, err
	}
	if err := c.records(); err != nil {
		return nil, err
	}
	c.report.Seconds = o.Now().Sub(began).Seconds()
	return c.report, nil
}

// checker checks one database.
type checker struct {
	ctx    context.Context
	r      *engine.ReadOnly
	o      *Options
	report *Report
	now    int64 // milliseconds since the epoch
	slots  bool
	mend   *mender // nil = nothing is changed
	err    error   // error of a repair

	// wanted and found are sums of hashes, one for each family: of the collections that must have members, and of those
	// that have some. Only when the two sums differ, a second pass looks for the missing ones.
	seed          maphash.Seed
	wanted, found [cf.NumFamilies]uint64
}

func newChecker(ctx context.Context, r *engine.ReadOnly, o *Options) *checker {
	return &checker{ctx: ctx, r: r, o: o, now: o.Now().UnixMilli(), slots: r.Slots(), seed: maphash.MakeSeed(),
		report: newReport(r.Dir(), r.Slots())}
}

// problem records a problem. repair, unless nil, mends it and describes what it did; only Repair calls it.
func (c *checker) problem(p Problem, repair func(m *mender) string) {
	if c.mend != nil && repair != nil && c.err == nil {
		p.Repair = repair(c.mend)
		if c.err = c.mend.commit(); c.err != nil {
			p.Repair = ""
		}
	}
	c.report.add(p)
	c.o.Problem(&p)
}

func (c *checker) records() error {
	for _, step := range []func() error{c.metadata, c.members, c.streams, c.missing, c.propagate, c.search} {
		if err := step(); err != nil {
			return err
		}
		if c.err != nil {
			return c.err
		}
	}
	for _, name := range c.r.UnknownFamilies() {
		if name == cf.IndexName { // not checked, as time series
			continue
		}
		c.problem(Problem{Kind: UnknownFamily, Family: name, Detail: "column family " + name + " of a newer version"}, nil)
	}
	return nil
}

// walk calls f with all records of a family until the context ends or a repair fails. It reads at most valueMax bytes
// of a value.
func (c *checker) walk(id cf.ID, phase string, valueMax int, f func(key, value []byte)) error {
	advance := c.o.Phase(phase, c.r.Records(id), false)
	cur := c.cursor(id, valueMax)
	defer cur.Close()
	for n := int64(1); cur.Next(); n++ {
		f(cur.Key(), cur.Value())
		if c.err != nil {
			return c.err
		}
		if n%advanceEvery == 0 {
			advance(advanceEvery)
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
	}
	return c.ctx.Err()
}

// advanceEvery is how many records are read between two checks of the context.
const advanceEvery = 1024

func (c *checker) cursor(id cf.ID, valueMax int) *engine.Cursor {
	return c.r.Cursor(id, engine.CursorOptions{ValueMax: valueMax, Damaged: func(from, to []byte, err error) {
		c.problem(Problem{Kind: Unreadable, Family: id.String(),
			Detail: fmt.Sprintf("records between 0x%x and 0x%x cannot be read: %v", from, to, err)}, nil)
	}})
}

// under returns a cursor over the records whose keys begin with a prefix. It reads at most valueMax bytes of a value.
func under(r *engine.ReadOnly, id cf.ID, prefix []byte, valueMax int) *engine.Cursor {
	end, _ := cf.AppendSuccessor(nil, prefix)
	return r.Cursor(id, engine.CursorOptions{Lower: prefix, Upper: end, ValueMax: valueMax})
}

// owner is a user key with its metadata record.
type owner struct {
	nsKey  []byte
	ns     string
	key    []byte
	meta   cf.Meta
	tail   []byte
	raw    []byte
	prefix []byte // of the key's subkeys
}

func (o *owner) problem(kind Kind, format string, args ...any) Problem {
	return Problem{Kind: kind, Namespace: o.ns, Key: Show(o.key), Type: o.meta.Type.String(),
		Detail: fmt.Sprintf(format, args...)}
}

// wants reports whether a live key must have subkeys.
func (o *owner) wants() bool {
	switch o.meta.Type {
	case cf.TypeHash:
		t, on, err := cf.DecodeHashTail(o.tail)
		return err == nil && (!on || t.Persist > 0) // fields with an expiry may all have expired
	case cf.TypeSet, cf.TypeZSet, cf.TypeList, cf.TypeSortedInt, cf.TypeBloom:
		return true
	case cf.TypeStream, cf.TypeCuckooFilter:
		return o.meta.Size > 0
	}
	return false // bitmaps and HyperLogLogs may be all zeros
}

func (c *checker) hash(b []byte) uint64 { return maphash.Bytes(c.seed, b) }

// jsonMax is how many bytes of a value of the metadata family are read at first; a longer JSON document is read again.
const jsonMax = 4 << 10

// metadata checks the metadata records alone.
func (c *checker) metadata() error {
	return c.walk(cf.Metadata, "metadata", jsonMax, func(key, value []byte) {
		o := owner{nsKey: key, raw: value}
		ns, userKey, err := cf.SplitNSKey(key, c.slots)
		if err != nil {
			c.problem(Problem{Kind: BadKey, Family: cf.Metadata.String(), Key: Show(key), Detail: err.Error()},
				func(m *mender) string { return m.drop(cf.Metadata, key, "bad key") })
			return
		}
		o.ns, o.key = string(ns), userKey
		if o.meta, o.tail, err = cf.DecodeMeta(value); err == nil && o.meta.Type == cf.TypeNone {
			err = fmt.Errorf("%w: type 0", cf.ErrCorrupt)
		}
		if err != nil {
			p := o.problem(BadRecord, "%v", err)
			p.Type = ""
			c.problem(p, func(m *mender) string { return m.drop(cf.Metadata, key, "bad record") })
			return
		}
		if c.slots {
			if n := len(key) - len(userKey) - 2; binary.BigEndian.Uint16(key[n:]) != cf.Slot(userKey) {
				c.problem(o.problem(BadSlot, "it carries slot %d, its own is %d", binary.BigEndian.Uint16(key[n:]),
					cf.Slot(userKey)), nil)
			}
		}
		if !o.meta.Type.Known() {
			c.problem(o.problem(UnknownType, "type %d of a newer version", o.meta.Type), nil)
			return
		}
		count := c.report.count(o.meta.Type)
		switch {
		case o.meta.Live(c.now):
			count.Keys++
		case o.meta.Expired(c.now) || o.meta.FieldsEnd() != 0:
			count.Expired++
			return
		default:
			count.Empty++
			return
		}
		if err := c.tail(&o); err != nil {
			c.problem(o.problem(BadRecord, "%v", err),
				func(m *mender) string { return m.drop(cf.Metadata, key, "bad record") })
			return
		}
		if o.wants() {
			o.prefix = cf.AppendSubkeyPrefix(o.prefix, key, c.slots, o.meta.Version)
			c.wanted[o.meta.Type.Family()] += c.hash(o.prefix)
		}
	})
}

// tail decodes the part of a metadata record after its head.
func (c *checker) tail(o *owner) error {
	switch o.meta.Type {
	case cf.TypeHash:
		_, _, err := cf.DecodeHashTail(o.tail)
		return err
	case cf.TypeList:
		_, _, err := cf.DecodeListTail(o.tail)
		return err
	case cf.TypeStream:
		_, err := cf.DecodeStreamMeta(o.tail)
		return err
	case cf.TypeBloom:
		_, err := cf.DecodeBloomMeta(o.tail)
		return err
	case cf.TypeCuckooFilter:
		_, err := cf.DecodeCuckooMeta(o.tail)
		return err
	case cf.TypeHyperLogLog:
		_, err := cf.DecodeHLLTail(o.tail)
		return err
	case cf.TypeTDigest:
		_, err := cf.DecodeTDigestMeta(o.tail)
		return err
	case cf.TypeJSON:
		return c.document(o)
	}
	return nil
}

// state is the state of the key that a subkey belongs to.
type state int

const (
	live        state = iota
	orphan            // the key does not exist, or is a string now, or empty
	oldVersion        // the key was created again
	expired           // the key has expired
	notChecked        // the key's record is damaged, or of an unknown type
	notReadable       // an error
)

// find reads the metadata record of the subkeys with a prefix.
func (c *checker) find(key []byte) (o *owner, st state) {
	sub, err := cf.ParseSubkey(key, c.slots)
	if err != nil {
		return nil, notChecked
	}
	o = &owner{ns: string(sub.Namespace)}
	o.prefix = append(o.prefix, key[:len(key)-len(sub.Sub)]...)
	if o.nsKey, err = cf.AppendNSKeyOf(nil, key, c.slots); err != nil {
		return nil, notChecked
	}
	o.key = o.nsKey[len(o.nsKey)-len(sub.UserKey):]
	var found bool
	switch o.raw, found, err = c.r.Get(cf.Metadata, o.nsKey, nil); {
	case err != nil:
		return o, notReadable
	case !found:
		return o, orphan
	}
	if o.meta, o.tail, err = cf.DecodeMeta(o.raw); err != nil || !o.meta.Type.Known() {
		return o, notChecked
	}
	switch {
	case o.meta.Type == cf.TypeTimeSeries:
		return o, notChecked
	case o.meta.Type.SingleRecord(), o.meta.Size == 0 && !o.meta.Type.MayBeEmpty():
		return o, orphan
	case o.meta.Version != sub.Version:
		return o, oldVersion
	case !o.meta.Live(c.now):
		return o, expired
	case errors.Is(c.tail(o), cf.ErrCorrupt):
		return o, notChecked
	}
	return o, live
}

// garbage counts a subkey that commands do not see.
func (c *checker) garbage(st state) {
	switch st {
	case orphan:
		c.report.Garbage.Orphans++
	case oldVersion:
		c.report.Garbage.OldVersions++
	case expired:
		c.report.Garbage.Expired++
	}
}
