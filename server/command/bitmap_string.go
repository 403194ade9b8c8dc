package command

import (
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/hll"
	"github.com/basaltdb/basalt/engine/str"
)

// In Redis a bitmap and a HyperLogLog are strings; here they are types of their own. So when a string command meets
// the wrong type, it tries again for these types; on real strings this costs nothing. A reading command sees the
// string that the key has in Redis, and a writing command converts the key to that string first. For bitmaps both
// work only up to max-bitmap-to-string-mb, since a sparse bitmap may be far longer than its stored data. (Kvrocks
// supports only GET.)

// defaultBitmapLimit is max-bitmap-to-string-mb where the setting does not exist.
const defaultBitmapLimit = 16

// bitmapLimit returns how many bytes of a bitmap may become a string.
func bitmapLimit(c *Ctx) uint64 {
	mb := uint64(defaultBitmapLimit)
	if text, ok := c.Srv.Settings.Get("max-bitmap-to-string-mb"); ok {
		if n, err := strconv.ParseUint(text, 10, 43); err == nil {
			mb = n
		}
	}
	return mb << 20
}

// likeString returns the type of a key that is not a string here but would be one in Redis; [engine.ErrWrongType] for
// a key of another type. Commands call it before they read the limit, which is text and must be parsed.
func likeString(c *Ctx, key []byte) (cf.Type, error) {
	rec, err := c.Tx.LoadHead(key)
	if err == nil && rec.Type != cf.TypeBitmap && rec.Type != cf.TypeHyperLogLog {
		err = engine.ErrWrongType
	}
	return rec.Type, err
}

// bitmapValue returns the value of a bitmap or HyperLogLog as a string; [engine.ErrWrongType] when the key is
// neither.
func bitmapValue(c *Ctx, key []byte) (value []byte, err error) {
	kind, err := likeString(c, key)
	switch {
	case err != nil:
	case kind == cf.TypeHyperLogLog:
		value, _, err = hll.Export(c.Tx, key)
	default:
		value, _, err = bitmap.Value(c.Tx, key, bitmapLimit(c))
	}
	return value, err
}

// stringValue returns the value of a string, bitmap or HyperLogLog.
func stringValue(c *Ctx, key []byte) (value []byte, found bool, err error) {
	if value, found, err = str.Get(c.Tx, key); err == engine.ErrWrongType {
		value, err = bitmapValue(c, key)
		found = true
	}
	return value, found, err
}

// bitmapRange is GETRANGE of a bitmap or HyperLogLog.
func bitmapRange(c *Ctx, start, end int64) ([]byte, error) {
	kind, err := likeString(c, c.Args[1])
	if err != nil {
		return nil, err
	}
	if kind == cf.TypeHyperLogLog {
		value, err := bitmapValue(c, c.Args[1])
		from, to := str.Within(start, end, int64(len(value)))
		return value[from:to], err
	}
	return bitmap.ValueRange(c.Tx, c.Args[1], bitmapLimit(c), start, end)
}

func stringLen(c *Ctx, key []byte) (int64, error) {
	n, err := str.Len(c.Tx, key)
	if err != engine.ErrWrongType {
		return int64(n), err
	}
	kind, err := likeString(c, key)
	if err == nil && kind == cf.TypeHyperLogLog {
		value, err := bitmapValue(c, key)
		return int64(len(value)), err
	}
	bytes, _, err := bitmap.Len(c.Tx, key)
	return int64(bytes), err
}

// onString runs a command that changes a string. If its key is a bitmap or HyperLogLog, it is made a string first.
func onString(c *Ctx, f func() error) error {
	err := f()
	if err != engine.ErrWrongType {
		return err
	}
	kind, err := likeString(c, c.Args[1])
	switch {
	case err != nil:
	case kind == cf.TypeHyperLogLog:
		err = hll.ToString(c.Tx, c.Args[1])
	default:
		err = bitmap.ToString(c.Tx, c.Args[1], bitmapLimit(c))
	}
	if err != nil {
		return err
	}
	return f()
}

// setGet is SET with GET, and GETSET: the returned value may come from a bitmap.
func setGet(c *Ctx, o str.SetOptions) (str.SetResult, error) {
	res, err := str.Set(c.Tx, c.Args[1], c.Args[2], o)
	if err != engine.ErrWrongType {
		return res, err
	}
	old, err := bitmapValue(c, c.Args[1])
	if err != nil {
		return res, err
	}
	o.Get = false
	res, err = str.Set(c.Tx, c.Args[1], c.Args[2], o)
	res.Old, res.Existed = old, true
	return res, err
}

// getExBitmap is GETEX of a bitmap or HyperLogLog. The key keeps its type.
func getExBitmap(c *Ctx, expiry func() (str.Expiry, error)) (value []byte, err error) {
	if value, err = bitmapValue(c, c.Args[1]); err != nil {
		return nil, err
	}
	e, err := expiry()
	if err != nil || !e.Change {
		return value, err
	}
	rec, err := c.Tx.LoadAny(c.Args[1])
	switch {
	case err != nil:
		return nil, err
	case e.At != 0 && e.At <= c.Tx.Now():
		c.Tx.LogData(cf.LogDel)
		c.Tx.Drop(&rec)
	case e.At != 0 || rec.Expire != 0: // the same time again is a change as well, as in Redis
		rec.Expire = uint64(e.At)
		c.Tx.LogData(cf.LogExpire)
		c.Tx.SaveAppend(&rec, rec.Tail)
	}
	return value, nil
}

// getDelBitmap is GETDEL of a bitmap or HyperLogLog.
func getDelBitmap(c *Ctx) ([]byte, error) {
	value, err := bitmapValue(c, c.Args[1])
	if err != nil {
		return nil, err
	}
	rec, err := c.Tx.LoadAny(c.Args[1])
	if err == nil {
		c.Tx.Drop(&rec)
	}
	return value, err
}
