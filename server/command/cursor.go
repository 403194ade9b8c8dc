package command

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/glob"
	"github.com/basaltdb/basalt/server/resp"
)

// Cursors of SCAN, HSCAN, SSCAN and ZSCAN.
//
// The scans visit keys in the order of the database, so the position of a scan is the last element that it has read.
// A client wants a number instead. The number is
//
//	bits 51-52: the kind of scan · bit 50: 1 · bits 26-49: position · bits 0-25: ticket
//
// It has 53 bits, because some clients convert cursors to floating-point numbers, as JavaScript does (BullMQ).
//
// The ticket finds the last element in a ring that the process keeps. When the ring has wrapped around, or the
// process was restarted, only the position remains: the first 24 bits of the last element. The scan then continues at
// the first element that may begin with them. It may return elements twice, but never skips one.
//
// With the setting redis-cursor-compatible off, a cursor is the last element itself after a _, and nothing is kept.

// scanKind distinguishes the cursors of the commands: no command accepts the cursor of another.
type scanKind uint8

const (
	scanKeys scanKind = iota
	scanHash
	scanSet
	scanZSet
)

const (
	cursorSlots    = 16384    // scans that can be active at once without losing their position
	cursorMemory   = 16 << 20 // bytes of elements that the ring holds
	cursorKindAt   = 51
	cursorMark     = 1 << 50 // no cursor is 0, and no small number is a cursor
	cursorPosAt    = 26
	cursorPosBits  = 24
	cursorTickets  = 1 << cursorPosAt // a multiple of cursorSlots
	cursorSlotKeep = 256              // a larger buffer of a slot is not reused
)

// cursors is the ring. It is safe for several goroutines.
type cursors struct {
	mu     sync.Mutex
	seed   maphash.Seed
	slots  []cursorSlot
	ticket uint32 // of the next cursor
	oldest uint32 // the first ticket whose element is still there
	bytes  int
}

type cursorSlot struct {
	cursor uint64 // 0 = free
	scope  uint64
	last   []byte
}

// scans holds the cursors of this process.
var scans cursors

// Next makes a cursor for a scan whose last element was last. key is the key of the collection, nil for SCAN.
func (r *cursors) Next(kind scanKind, ns string, key, last []byte) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots == nil {
		r.slots = make([]cursorSlot, cursorSlots)
		r.seed = maphash.MakeSeed()
		// An early cursor of an earlier process must not look like a cursor of this process.
		r.ticket = rand.Uint32()
		r.oldest = r.ticket
	}
	if r.ticket-r.oldest == cursorSlots {
		r.evict()
	}
	for r.bytes+len(last) > cursorMemory && r.oldest != r.ticket {
		r.evict()
	}
	cursor := uint64(kind)<<cursorKindAt | cursorMark | cursorPosition(last)<<cursorPosAt |
		uint64(r.ticket%cursorTickets)
	s := &r.slots[r.ticket%cursorSlots]
	s.cursor, s.scope, s.last = cursor, r.scope(ns, key), append(s.last[:0], last...)
	r.bytes += len(last)
	r.ticket++
	return cursor
}

func (r *cursors) evict() {
	s := &r.slots[r.oldest%cursorSlots]
	r.bytes -= len(s.last)
	s.cursor = 0
	if cap(s.last) > cursorSlotKeep {
		s.last = nil
	}
	s.last = s.last[:0]
	r.oldest++
}

// Resolve returns where a scan continues: at the first element that is not less than from. It is nil at the
// beginning; a cursor of another kind also starts at the beginning.
func (r *cursors) Resolve(kind scanKind, ns string, key []byte, cursor uint64) (from []byte) {
	if cursor>>cursorKindAt != uint64(kind) || cursor&cursorMark == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots != nil {
		s := &r.slots[cursor%cursorSlots]
		if s.cursor == cursor && s.scope == r.scope(ns, key) {
			return append(bytes.Clone(s.last), 0) // the next string after it
		}
	}
	return positionFloor(cursor >> cursorPosAt & (1<<cursorPosBits - 1))
}

func (r *cursors) scope(ns string, key []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	h.WriteByte(byte(len(ns)))
	h.WriteString(ns)
	h.Write(key)
	return h.Sum64()
}

// cursorPosition returns the first bits of an element, as if zeros followed it.
func cursorPosition(last []byte) uint64 {
	var b [4]byte
	copy(b[:], last)
	return uint64(binary.BigEndian.Uint32(b[:]) >> (32 - cursorPosBits))
}

// positionFloor returns a string that is not greater than any element with this position.
func positionFloor(pos uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(pos<<(32-cursorPosBits)))
	return bytes.TrimRight(b, "\x00")
}

// textCursors is the setting redis-cursor-compatible, inverted.
var textCursors atomic.Bool

// SetTextCursors sets whether cursors are strings, as in Kvrocks with redis-cursor-compatible off.
func SetTextCursors(on bool) { textCursors.Store(on) }

// scanCursor is a cursor as a client has sent it.
type scanCursor struct {
	number uint64
	after  []byte // of a string cursor: the last element; aliases the argument
	text   bool
}

// parseCursor reads a cursor like C's strtoul, as Redis does: a sign, leading zeros and nothing at all (0) are
// allowed, and a zero byte ends it.
func parseCursor(b []byte) (scanCursor, error) {
	if len(b) > 0 && b[0] == '_' && textCursors.Load() {
		return scanCursor{after: b[1:], text: true}, nil
	}
	b = cString(b)
	if len(b) == 0 {
		return scanCursor{}, nil
	}
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	for len(b) > 1 && b[0] == '0' {
		b = b[1:]
	}
	n, ok := ParseUint(b)
	if !ok {
		return scanCursor{}, ErrInvalidCursor
	}
	if negative {
		n = -n
	}
	return scanCursor{number: n}, nil
}

// from returns where a scan with this cursor continues, as Resolve does.
func (s scanCursor) from(kind scanKind, ns string, key []byte) []byte {
	switch {
	case s.text:
		return append(bytes.Clone(s.after), 0)
	case s.number == 0:
		return nil
	}
	return scans.Resolve(kind, ns, key, s.number)
}

// scanOptions are the options of the scans.
type scanOptions struct {
	Match    *glob.Pattern // nil = everything
	Count    int64         // elements to read, at least 1
	NoValues bool          // HSCAN only
	Type     []byte
	HasType  bool
}

const defaultScanCount = 10

// parseScanOptions reads the arguments after the cursor: MATCH, COUNT, TYPE for a scan of keys ([cf.TypeNone]), and
// NOVALUES for the scan of a hash.
func parseScanOptions(args [][]byte, t cf.Type) (o scanOptions, err error) {
	o.Count = defaultScanCount
	w := options{args: args}
	for w.more() {
		switch {
		case w.int("COUNT", &o.Count):
			w.check(o.Count > 0, ErrSyntax)
		case w.has("MATCH", 1):
			o.Match = glob.Compile(w.next())
		case t == cf.TypeNone && w.has("TYPE", 1):
			o.Type, o.HasType = w.next(), true
		case t == cf.TypeHash && w.flag("NOVALUES", &o.NoValues):
		default:
			w.err = ErrSyntax
		}
	}
	if o.Match != nil && o.Match.MatchesAll() {
		o.Match = nil
	}
	return o, w.err
}

// limit is how many entries an iterator of the scan expects to read: one more than are returned, to see whether
// the scan has ended.
func (o *scanOptions) limit() int { return int(min(o.Count, 1<<20)) + 1 }

// scanTypes are the types of the collections that are scanned.
var scanTypes = [...]cf.Type{scanHash: cf.TypeHash, scanSet: cf.TypeSet, scanZSet: cf.TypeZSet}

// scanElement writes an element of a collection and returns how many replies it has written.
type scanElement func(c *Ctx, rec *engine.Record, o *scanOptions, sub, value []byte) (int, error)

// scanCollection makes the handler of HSCAN, SSCAN or ZSCAN key cursor [options], whose elements are the subkeys in the
// default family. As in Redis the options are not read if the key does not exist.
func scanCollection(kind scanKind, emit scanElement) Handler {
	return func(c *Ctx) error {
		t := scanTypes[kind]
		cur, err := parseCursor(c.Args[2])
		if err != nil {
			return err
		}
		rec, err := c.Tx.Load(c.Args[1], t)
		if err != nil {
			return err
		}
		if !rec.Exists {
			writeScan(c, c.Out.Mark(), 0, kind, nil, nil, false)
			return nil
		}
		o, err := parseScanOptions(c.Args[3:], t)
		if err != nil {
			return err
		}
		prefix := c.Tx.SubkeyPrefix(&rec)
		lower, upper := scanBounds(prefix, cur.from(kind, c.Tx.Namespace(), c.Args[1]), o.Match)
		// The values of a hash with a tail say which fields have expired.
		keysOnly := t == cf.TypeSet || o.NoValues && len(rec.Tail) == 0
		it := c.Tx.Iter(cf.Default, engine.IterOptions{Prefix: prefix, Lower: lower, Upper: upper, KeysOnly: keysOnly,
			Limit: o.limit()})
		defer it.Close()
		c.Tx.ReadsDone()
		mark, n := c.Out.Mark(), 0
		var last []byte
		more := false
		for seen := int64(0); it.Next(); seen++ {
			if seen == o.Count {
				more = true
				break
			}
			sub := it.Key()
			if o.Match == nil || o.Match.Match(sub) {
				m, err := emit(c, &rec, &o, sub, it.Value())
				if err != nil {
					return err
				}
				n += m
			}
			if seen == o.Count-1 {
				last = bytes.Clone(sub)
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
		writeScan(c, mark, n, kind, c.Args[1], last, more)
		return nil
	}
}

// scanBounds returns the range of a scan among the keys with a prefix: from the element from on, restricted to the
// common prefix of all matches.
func scanBounds(prefix, from []byte, match *glob.Pattern) (lower, upper []byte) {
	if match == nil || len(match.Prefix()) == 0 && !match.Literal() {
		if from != nil {
			lower = append(bytes.Clone(prefix), from...)
		}
		return lower, nil
	}
	common := match.Prefix()
	if bytes.Compare(from, common) < 0 {
		from = common
	}
	lower = append(bytes.Clone(prefix), from...)
	upper = append(bytes.Clone(prefix), common...)
	if match.Literal() {
		return lower, append(upper, 0)
	}
	upper, _ = cf.AppendSuccessor(nil, upper)
	return lower, upper
}

// writeScan completes the reply of a scan whose n elements were written from mark on. With more, the scan continues
// after last.
func writeScan(c *Ctx, mark, n int, kind scanKind, key, last []byte, more bool) {
	head := resp.Writer{Proto: c.Out.Proto}
	head.Array(2)
	switch {
	case !more:
		head.BulkString("0")
	case textCursors.Load():
		head.Bulk(append([]byte{'_'}, last...))
	default:
		var text [20]byte
		head.Bulk(strconv.AppendUint(text[:0], scans.Next(kind, c.Tx.Namespace(), key, last), 10))
	}
	head.Array(n)
	c.Out.InsertRaw(mark, head.Bytes())
}
