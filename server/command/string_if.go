package command

import (
	"bytes"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/str"
)

// The conditions of SET and DELEX on the value that a key has, and the other string commands of Redis 8.4.

var (
	errNotString    = engine.NewError("ERR", "Key should be of string type if conditions are specified")
	errNumKeysValue = engine.NewError("ERR", "invalid numkeys value")
)

// conditionKind says what a condition compares, and what the result must be.
type conditionKind uint8

const (
	ifEqual conditionKind = iota + 1
	ifNotEqual
	ifDigestEqual
	ifDigestNotEqual
)

var conditionNames = [...]string{
	ifEqual: "IFEQ", ifNotEqual: "IFNE", ifDigestEqual: "IFDEQ", ifDigestNotEqual: "IFDNE",
}

// condition is IFEQ, IFNE, IFDEQ or IFDNE with its argument. The zero condition is none.
type condition struct {
	kind conditionKind
	arg  []byte // a value, or a digest that has not been checked
}

// take takes a condition. A second one must be of the same kind as the first, and replaces it.
func (d *condition) take(o *options) bool {
	for kind := ifEqual; int(kind) < len(conditionNames); kind++ {
		if (d.kind == 0 || d.kind == kind) && o.value(conditionNames[kind], &d.arg) {
			d.kind = kind
			return true
		}
	}
	return false
}

// met compares the condition with the value of a key. Missing is the result for a key that does not exist;
// [engine.ErrWrongType] is the error for one that is neither a string nor a bitmap. The digest is checked when there is
// a value to compare it with, and only for its length, both as in Redis.
func (d *condition) met(c *Ctx, key []byte) (m str.Match, err error) {
	switch d.kind {
	case ifEqual, ifNotEqual:
		if m, err = str.Compare(c.Tx, key, d.arg); err == engine.ErrWrongType {
			var value []byte
			value, err = bitmapValue(c, key)
			m = matchOf(bytes.Equal(value, d.arg))
		}
		if err != nil || m == str.Missing {
			return m, err
		}
	default:
		value, found, err := stringValue(c, key)
		switch {
		case err != nil || !found:
			return str.Missing, err
		case len(d.arg) != str.DigestLen:
			return str.Differs, errorf("must be exactly 16 hexadecimal characters")
		}
		sum := str.Digest(value)
		m = matchOf(bytes.EqualFold(sum[:], d.arg))
	}
	if d.kind == ifNotEqual || d.kind == ifDigestNotEqual {
		m = matchOf(m != str.Equal)
	}
	return m, nil
}

func matchOf(yes bool) str.Match {
	if yes {
		return str.Equal
	}
	return str.Differs
}

// metBySet reports whether the condition lets SET write. A key that does not exist differs from every value.
func (d *condition) metBySet(c *Ctx) (bool, error) {
	m, err := d.met(c, c.Args[1])
	if m == str.Missing {
		return d.kind == ifNotEqual || d.kind == ifDigestNotEqual, err
	}
	return m == str.Equal, err
}

// digest is DIGEST key.
func digest(c *Ctx) error {
	value, found, err := stringValue(c, c.Args[1])
	if err != nil {
		return err
	}
	sum := str.Digest(value)
	bulkOrNull(c, sum[:], found)
	return nil
}

// delEx is DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]. As in Redis, the type of the key is
// checked before the name of the condition, and a missing key before both.
func delEx(c *Ctx) error {
	if len(c.Args) == 2 {
		return del(c)
	}
	if len(c.Args) != 4 {
		return wrongArgs("delex")
	}
	var d condition
	if !d.take(&options{args: c.Args[2:]}) {
		switch t, err := keys.TypeOf(c.Tx, c.Args[1]); {
		case err != nil:
			return err
		case t == cf.TypeNone:
			c.Out.Int(0)
			return nil
		case t != cf.TypeString && t != cf.TypeBitmap:
			return errNotString
		}
		return errorf("Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
	}
	if err := delIf(c, d); err != engine.ErrWrongType {
		return err
	}
	return errNotString
}

// delIfEq is DELIFEQ key value of Valkey 9.0.
func delIfEq(c *Ctx) error { return delIf(c, condition{ifEqual, c.Args[2]}) }

// delIf deletes the key if the condition is met, and replies with the number of deleted keys.
func delIf(c *Ctx, d condition) error {
	m, err := d.met(c, c.Args[1])
	if err != nil || m != str.Equal {
		return replyInt(c, 0, err)
	}
	n, err := keys.Del(c.Tx, c.Args[1])
	return replyInt(c, n, err)
}

// msetExPairs returns the keys and values of MSETEX numkeys key value ... [options], and the options.
func msetExPairs(args [][]byte) (pairs [][]byte, o options, err error) {
	n, ok := ParseInt(args[1])
	switch {
	case !ok || n < 1 || n > math.MaxInt32:
		return nil, o, errNumKeysValue
	case n*2 > int64(len(args)-2):
		return nil, o, errorf("wrong number of key-value pairs")
	}
	return args[2 : 2+n*2], options{args: args[2+n*2:]}, nil
}

func msetExKeys(args [][]byte, add func(argIndex int, write bool)) error {
	if len(args) < 2 {
		return errNumKeysValue
	}
	pairs, _, err := msetExPairs(args)
	for i := 0; i < len(pairs); i += 2 {
		add(2+i, true)
	}
	return err
}

// msetEx is MSETEX numkeys key value ... [NX | XX] [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds |
// KEEPTTL].
func msetEx(c *Ctx) error {
	pairs, w, err := msetExPairs(c.Args)
	if err != nil {
		return err
	}
	var o str.SetOptions
	var e expiryOption
	for w.more() {
		switch {
		case !o.IfExists && w.flag("NX", &o.IfMissing):
		case !o.IfMissing && w.flag("XX", &o.IfExists):
		case e.arg == nil && w.flag("KEEPTTL", &o.KeepTTL):
		case !o.KeepTTL && e.take(&w):
		default:
			return ErrSyntax
		}
	}
	if o.Expire, err = e.millis(c); err != nil {
		return err
	}
	if o != (str.SetOptions{Expire: o.Expire}) { // the keys are checked
		names := make([][]byte, 0, len(pairs)/2)
		for i := 0; i < len(pairs); i += 2 {
			names = append(names, pairs[i])
		}
		if err := c.Tx.Prefetch(names); err != nil {
			return err
		}
	}
	done, err := str.MSetIf(c.Tx, pairs, o)
	return replyBool(c, done, err)
}
