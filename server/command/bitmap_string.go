package command

import (
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bitmap"
	"github.com/basaltdb/basalt/engine/str"
)

// In Redis a bitmap is a string; here it is a type of its own. The commands on strings therefore try again on a
// bitmap when they meet the wrong type, which costs those on strings nothing: commands that read see the string
// that the bitmap is in Redis, and those that change it make it that string first. Both only up to
// max-bitmap-to-string-mb, since a bitmap may be far longer than what is set in it. (Kvrocks has no more than GET.)

// defaultBitmapLimit is max-bitmap-to-string-mb where there is no such setting.
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

// requireBitmap returns [engine.ErrWrongType] when a key is no bitmap. The commands ask it before they look at the
// limit, which is text and has to be parsed.
func requireBitmap(c *Ctx, key []byte) error {
	rec, err := c.Tx.Look(key)
	if err == nil && rec.Type != cf.TypeBitmap {
		err = engine.ErrWrongType
	}
	return err
}

// bitmapValue returns the string that a bitmap is; [engine.ErrWrongType] when the key is none.
func bitmapValue(c *Ctx, key []byte) ([]byte, error) {
	if err := requireBitmap(c, key); err != nil {
		return nil, err
	}
	value, _, err := bitmap.Value(c.Tx, key, bitmapLimit(c))
	return value, err
}

// stringValue returns the value of a string or bitmap.
func stringValue(c *Ctx, key []byte) (value []byte, found bool, err error) {
	if value, found, err = str.Get(c.Tx, key); err == engine.ErrWrongType {
		value, err = bitmapValue(c, key)
		found = true
	}
	return value, found, err
}

// bitmapRange is GETRANGE of a bitmap.
func bitmapRange(c *Ctx, start, end int64) ([]byte, error) {
	if err := requireBitmap(c, c.Args[1]); err != nil {
		return nil, err
	}
	return bitmap.ValueRange(c.Tx, c.Args[1], bitmapLimit(c), start, end)
}

// stringLen returns the length of a string or bitmap.
func stringLen(c *Ctx, key []byte) (int64, error) {
	n, err := str.Len(c.Tx, key)
	if err == engine.ErrWrongType {
		n, _, err := bitmap.Len(c.Tx, key)
		return int64(n), err
	}
	return int64(n), err
}

// onString runs a command that changes a string. If its key is a bitmap, it is made a string first.
func onString(c *Ctx, f func() error) error {
	err := f()
	if err != engine.ErrWrongType {
		return err
	}
	if err := requireBitmap(c, c.Args[1]); err != nil {
		return err
	}
	if err := bitmap.ToString(c.Tx, c.Args[1], bitmapLimit(c)); err != nil {
		return err
	}
	return f()
}

// setGet is SET with GET, and GETSET: the value that is returned may be that of a bitmap.
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

// getExBitmap is GETEX of a bitmap, which stays one.
func getExBitmap(c *Ctx, expiry func() (str.Expiry, error)) (value []byte, err error) {
	if value, err = bitmapValue(c, c.Args[1]); err != nil {
		return nil, err
	}
	e, err := expiry()
	if err != nil || !e.Change {
		return value, err
	}
	rec, err := c.Tx.Load(c.Args[1], cf.TypeBitmap)
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

// getDelBitmap is GETDEL of a bitmap.
func getDelBitmap(c *Ctx) ([]byte, error) {
	value, err := bitmapValue(c, c.Args[1])
	if err != nil {
		return nil, err
	}
	rec, err := c.Tx.Load(c.Args[1], cf.TypeBitmap)
	if err == nil {
		c.Tx.Drop(&rec)
	}
	return value, err
}
