package command

import (
	"errors"
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/hll"
	"github.com/basaltdb/basalt/engine/list"
	sets "github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/rdb/rdbfile"
)

var dumpCommands = []Spec{
	{Name: "dump", Handler: dump, Arity: 2, Flags: ReadOnly},
	{Name: "restore", Handler: restore, Arity: -4, Flags: Write | DenyOOM},
	{Name: "restore-asking", Handler: restore, Arity: -4, Flags: Write | DenyOOM | Asking},
}

var errDumpSize = engine.NewError("ERR", "the value is too large to be dumped, see proto-max-bulk-len")

// dump is DUMP. All types that Redis has are written in plain forms, which Redis can RESTORE since 5.0; a bitmap and
// a HyperLogLog as strings, as in Redis.
func dump(c *Ctx) error {
	rec, err := c.Tx.LoadAny(c.Args[1])
	if err != nil {
		return err
	}
	if !rec.Exists {
		c.Out.Null()
		return nil
	}
	payload, err := dumpKey(c, c.Args[1], &rec)
	return replyBulk(c, payload, err)
}

// dumper writes the type and the value of a key, as a whole or in parts.
type dumper struct {
	b       []byte
	version uint16
	limit   int64 // of the value; if it is written in parts, of a string, and of what a stream has beside its entries
	full    bool  // the limit was reached, or sink takes no more: the rest is left out
	// sink takes what there is of the value, while the rest follows. It reports whether it takes more. nil = the value
	// is written as a whole.
	sink func(part []byte) bool
	// persistent: the expiries of the fields of hashes are left out; lost: there were some.
	persistent, lost bool
}

// room reports whether n more bytes fit.
func (d *dumper) room(n int) bool {
	if d.sink == nil {
		d.full = d.full || int64(len(d.b))+int64(n) > d.limit
	} else if len(d.b) >= rdbfile.PartBytes {
		d.pass(d.b)
		d.b = d.b[:0]
	}
	return !d.full
}

// pass gives a part to the sink.
func (d *dumper) pass(part []byte) { d.full = d.full || !d.sink(part) }

func (d *dumper) string(s []byte) {
	switch {
	case !d.room(len(s)):
	case d.sink != nil && len(s) >= rdbfile.PartBytes:
		d.pass(rdb.AppendLength(d.b, uint64(len(s))))
		d.pass(s)
		d.b = d.b[:0]
	default:
		d.b = rdb.AppendString(d.b, s)
	}
}

func (d *dumper) head(k rdb.Kind) func(n uint64) {
	return func(n uint64) { d.b = rdb.AppendHead(d.b, k, n) }
}

func (d *dumper) value(tx *engine.Tx, key []byte, rec *engine.Record) error {
	switch rec.Type {
	case cf.TypeString:
		if d.full = d.full || int64(len(rec.Tail)) > d.limit; d.full {
			return nil
		}
		d.head(rdb.String)(0)
		d.string(rec.Tail)
	case cf.TypeBitmap:
		if d.sink != nil {
			return d.bitmap(tx, key)
		}
		value, _, err := bitmap.Value(tx, key, uint64(d.limit))
		if err != nil {
			return err
		}
		d.head(rdb.String)(0)
		d.string(value)
	case cf.TypeHyperLogLog:
		value, _, err := hll.Export(tx, key)
		if err != nil {
			return err
		}
		d.head(rdb.String)(0)
		d.string(value)
	case cf.TypeList:
		return list.Range(tx, key, 0, -1, d.head(rdb.List), d.string)
	case cf.TypeSet:
		return sets.Each(tx, key, d.head(rdb.Set), d.string)
	case cf.TypeHash:
		return d.hash(tx, key)
	case cf.TypeZSet:
		return d.zset(tx, key, rec.Size)
	case cf.TypeStream:
		return d.stream(tx, key)
	default:
		return errorf("Invalid or Not supported object type %d", rec.Type)
	}
	return nil
}

// bitmapPart is the number of bytes of a bitmap that are in memory at once.
const bitmapPart = 1 << 20

// bitmap writes a bitmap, as a string, in parts.
func (d *dumper) bitmap(tx *engine.Tx, key []byte) error {
	n, _, err := bitmap.Len(tx, key)
	if err != nil {
		return err
	}
	if d.full = n > uint64(d.limit); d.full {
		return nil
	}
	d.head(rdb.String)(0)
	if n < bitmapPart {
		value, _, err := bitmap.Value(tx, key, bitmapPart)
		d.string(value)
		return err
	}
	d.b = rdb.AppendLength(d.b, n)
	for at := uint64(0); at < n && d.room(0); at += bitmapPart {
		part, err := bitmap.ValueRange(tx, key, bitmapPart, int64(at), int64(min(at+bitmapPart, n))-1)
		if err != nil {
			return err
		}
		d.pass(d.b)
		d.pass(part)
		d.b = d.b[:0]
	}
	return nil
}

// hash writes a hash, in the plain form unless one of its fields expires.
func (d *dumper) hash(tx *engine.Tx, key []byte) error {
	var e hash.Expiring
	begin := func(of hash.Expiring) {
		if e = of; d.persistent {
			d.lost, e.Expiring = e.Expiring > 0, 0
		}
		if d.full = d.full || d.sink != nil && e.Fields == 0; d.full { // all fields have expired
			return
		}
		if e.Expiring == 0 {
			d.head(rdb.Hash)(e.Fields)
			return
		}
		d.b, d.version = rdb.AppendExpiringHead(d.b, e.First, e.Fields), rdb.ExpiringVersion
	}
	return hash.EachExpiring(tx, key, begin, func(field, value []byte, at uint64) {
		if e.Expiring > 0 && d.room(9) {
			d.b = rdb.AppendExpiry(d.b, e.First, at)
		}
		d.string(field)
		d.string(value)
	})
}

// inParts is the number of members from which on a sorted set that is written in parts begins with the lowest score:
// backwards the set would be read as a whole first.
const inParts = 4096

// zset writes a sorted set with the highest score first: Redis loads that order fastest.
func (d *dumper) zset(tx *engine.Tx, key []byte, size uint64) error {
	d.head(rdb.ZSet)(size)
	n := uint64(0)
	q := zset.Query{Stop: -1, Reverse: d.sink == nil || size < inParts}
	err := zset.Range(tx, key, &q, func(member []byte, score float64) {
		n++
		if d.string(member); !d.full {
			d.b = rdb.AppendScore(d.b, score)
		}
	})
	if err == nil && n != size {
		err = fmt.Errorf("key %q: %w: %d members, the metadata says %d", key, cf.ErrCorrupt, n, size)
	}
	return err
}

// The errors of RESTORE. Their texts are those of Redis, except errRestoreSize.
var (
	errBusyKey     = engine.NewError("BUSYKEY", "Target key name already exists.")
	errIdleTime    = engine.NewError("ERR", "Invalid IDLETIME value, must be >= 0")
	errFreq        = engine.NewError("ERR", "Invalid FREQ value, must be >= 0 and <= 255")
	errRestoreTTL  = engine.NewError("ERR", "Invalid TTL value, must be >= 0")
	errDumpFooter  = engine.NewError("ERR", "DUMP payload version or checksum are wrong")
	errBadData     = engine.NewError("ERR", "Bad data format")
	errRestoreSize = engine.NewError("ERR", "the value is too large to be restored at once")
)

// maxRestore bounds the memory of RESTORE, in bytes: for the decoded value, and for the write batch made from the
// value. The payload may be far smaller than either. On a host with little memory, engine.DB.MaxResultBytes bounds the
// decoded value.
const maxRestore = 1 << 30

// restoreOptions are the options of RESTORE. IDLETIME and FREQ are checked and ignored: the server counts no
// accesses.
type restoreOptions struct {
	replace bool
	absTTL  bool
}

func parseRestoreOptions(args [][]byte) (o restoreOptions, err error) {
	idle, freq := int64(-1), int64(-1)
	w := options{args: args}
	for w.more() {
		switch {
		case w.flag("REPLACE", &o.replace):
		case w.flag("ABSTTL", &o.absTTL):
		case freq == -1 && w.int("IDLETIME", &idle):
			w.check(idle >= 0, errIdleTime)
		case idle == -1 && w.int("FREQ", &freq):
			w.check(freq >= 0 && freq <= 255, errFreq)
		default:
			w.err = ErrSyntax
		}
	}
	return o, w.err
}

// restore is RESTORE. The value is read and checked as a whole before anything is written, and the key's old value,
// the new one and its expiry go into one batch.
func restore(c *Ctx) error {
	o, err := parseRestoreOptions(c.Args[4:])
	if err != nil {
		return err
	}
	key := c.Args[1]
	old, err := c.Tx.LoadHead(key)
	switch {
	case err != nil:
		return err
	case old.Exists && !o.replace:
		return errBusyKey
	}
	ttl, ok := ParseInt(c.Args[2])
	switch {
	case !ok:
		return ErrNotInteger
	case ttl < 0:
		return errRestoreTTL
	}
	body, err := rdb.Open(c.Args[3])
	if err != nil {
		return errDumpFooter
	}
	v, err := rdb.Decode(body, min(maxRestore, c.Tx.DB().MaxResultBytes()))
	if err != nil {
		if errors.Is(err, rdb.ErrTooLarge) {
			return errRestoreSize
		}
		return errBadData
	}
	if ttl != 0 && !o.absTTL {
		if ttl > math.MaxInt64-c.Tx.Clock() {
			return invalidExpire(c.Spec.FullName())
		}
		ttl += c.Tx.Clock()
	}
	return replyOK(c, restoreKey(c.Tx, key, v, ttl, c.Srv.Settings.MaxBulk()))
}
