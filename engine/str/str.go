// Package str is the string type. A string is one record of the metadata family: the head of all types (flags and
// expiry), then the value.
//
//	flags (type 1) · expire · value
//
// The functions work in a transaction that holds the lock of the key. They take the user's key; the transaction knows
// the namespace. Returned values are valid until the end of the transaction and must not be changed. Unless a function
// says otherwise, an existing key of another type gives [engine.ErrWrongType].
//
// A caller that works on many keys calls [engine.Tx.Prefetch] with them first, so that their records are read in
// batches.
package str

import (
	"math"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/longdouble"
)

// Errors of the functions of this package.
var (
	ErrTooLong    = engine.NewError("ERR", "string exceeds maximum allowed size (proto-max-bulk-len)")
	ErrNotInteger = engine.NewError("ERR", "value is not an integer or out of range")
	ErrOverflow   = engine.NewError("ERR", "increment or decrement would overflow")
	ErrNotFloat   = engine.NewError("ERR", "value is not a valid float")
	ErrNaN        = engine.NewError("ERR", "increment would produce NaN or Infinity")
)

// Get returns the value of a key.
func Get(tx *engine.Tx, key []byte) (value []byte, found bool, err error) {
	rec, err := tx.Load(key, cf.TypeString)
	return rec.Tail, rec.Exists, err
}

// SetOptions say when Set writes, and what it keeps and returns.
type SetOptions struct {
	IfMissing bool  // only if the key does not exist
	IfExists  bool  // only if the key exists
	KeepTTL   bool  // the key keeps its expiry
	Get       bool  // return the old value; a key of another type is then an error
	Expire    int64 // the new expiry in milliseconds since the epoch; 0 = never
}

// SetResult is the result of Set.
type SetResult struct {
	Done    bool   // the value was set
	Existed bool   // the key held a string; only with Get
	Old     []byte // the old value; only with Get
}

// Set sets a key to a value, whatever the key held before. An expiry in the past leaves no key.
//
// Without options it does not read the old record.
func Set(tx *engine.Tx, key, value []byte, o SetOptions) (SetResult, error) {
	var res SetResult
	expire := uint64(o.Expire)
	passed := o.Expire != 0 && o.Expire <= tx.Now()
	if o.IfMissing || o.IfExists || o.KeepTTL || o.Get || passed {
		look := tx.LoadHead
		if o.Get {
			look = tx.LoadAny
		}
		old, err := look(key)
		if err != nil {
			return res, err
		}
		if o.Get && old.Exists {
			if old.Type != cf.TypeString {
				return res, engine.ErrWrongType
			}
			res.Existed, res.Old = true, old.Tail
		}
		if o.IfMissing && old.Exists || o.IfExists && !old.Exists {
			return res, nil
		}
		if passed {
			if old.Exists {
				expireNow(tx, &old)
			}
			res.Done = true
			return res, nil
		}
		if o.KeepTTL {
			expire = old.Expire
		}
	}
	put(tx, key, value, expire)
	res.Done = true
	return res, nil
}

// put writes a new record in the 64-bit form, whatever the form of the old record.
func put(tx *engine.Tx, key, value []byte, expire uint64) {
	tx.LogData(cf.LogString)
	putBare(tx, key, value, expire)
}

func putBare(tx *engine.Tx, key, value []byte, expire uint64) {
	rec := tx.Fresh(key, cf.TypeString)
	rec.Expire = expire
	tx.SaveAppend(&rec, value)
}

// save writes a changed record in the form in which it was read.
func save(tx *engine.Tx, rec *engine.Record, value []byte) { tx.SaveString(rec, value) }

// change makes a long value n bytes long and writes part into it at an offset. It copies the value only into the batch.
func change(tx *engine.Tx, rec *engine.Record, n, offset int, part []byte) error {
	tx.LogData(cf.LogString)
	value, err := tx.SaveFrom(rec, rec, n)
	if err == nil {
		copy(value[offset:], part)
	}
	return err
}

// expireNow deletes a key whose new expiry has passed.
func expireNow(tx *engine.Tx, rec *engine.Record) {
	tx.LogData(cf.LogDel)
	tx.Drop(rec)
}

// MSet sets keys to values, given in turn in pairs, whatever the keys held before.
func MSet(tx *engine.Tx, pairs [][]byte) {
	tx.LogData(cf.LogString)
	for i := 0; i+1 < len(pairs); i += 2 {
		putBare(tx, pairs[i], pairs[i+1], 0)
	}
}

// MSetNX is MSet if none of the keys exists; it reports whether it set them.
func MSetNX(tx *engine.Tx, pairs [][]byte) (bool, error) {
	for i := 0; i+1 < len(pairs); i += 2 {
		rec, err := tx.LoadHead(pairs[i])
		if err != nil || rec.Exists {
			return false, err
		}
	}
	MSet(tx, pairs)
	return true, nil
}

// MSetIf is MSet with the options of Set except Get: IfMissing requires that none of the keys exists, IfExists that all
// exist. It reports whether it set them. An expiry in the past leaves none of the keys.
//
// Without options it does not read the old records.
func MSetIf(tx *engine.Tx, pairs [][]byte, o SetOptions) (bool, error) {
	if o.IfMissing || o.IfExists {
		for i := 0; i+1 < len(pairs); i += 2 {
			rec, err := tx.LoadHead(pairs[i])
			if err != nil || rec.Exists == o.IfMissing {
				return false, err
			}
		}
	}
	each := SetOptions{KeepTTL: o.KeepTTL, Expire: o.Expire}
	for i := 0; i+1 < len(pairs); i += 2 {
		if _, err := Set(tx, pairs[i], pairs[i+1], each); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Expiry is a change of the expiry of a key.
type Expiry struct {
	Change bool
	At     int64 // milliseconds since the epoch; 0 = never
}

// GetEx returns the value of a key and changes its expiry. It calls expiry only when the key exists: otherwise a
// malformed expiry is no error. An expiry in the past deletes the key.
func GetEx(tx *engine.Tx, key []byte, expiry func() (Expiry, error)) (value []byte, found bool, err error) {
	rec, err := tx.Load(key, cf.TypeString)
	if err != nil || !rec.Exists {
		return nil, false, err
	}
	e, err := expiry()
	if err != nil {
		return nil, false, err
	}
	switch {
	case !e.Change:
	case e.At != 0 && e.At <= tx.Now():
		expireNow(tx, &rec)
	case e.At != 0 || rec.Expire != 0: // setting the same expiry again is a change as well, as in Redis
		rec.Expire = uint64(e.At)
		save(tx, &rec, rec.Tail)
	}
	return rec.Tail, true, nil
}

// GetDel returns the value of a key and deletes it.
func GetDel(tx *engine.Tx, key []byte) (value []byte, found bool, err error) {
	rec, err := tx.Load(key, cf.TypeString)
	if err != nil || !rec.Exists {
		return nil, false, err
	}
	tx.Drop(&rec)
	return rec.Tail, true, nil
}

// joined is the max size of a new value that is assembled on the stack.
const joined = 512

// Append appends to a value and returns the new length. It creates a missing key, with an empty value if tail is empty.
func Append(tx *engine.Tx, key, tail []byte, maxLen int64) (int, error) {
	rec, err := tx.LoadShort(key, cf.TypeString, joined)
	if err != nil {
		return 0, err
	}
	if !rec.Exists {
		save(tx, &rec, tail)
		return len(tail), nil
	}
	had := len(rec.Tail) + rec.Rest
	n := had + len(tail)
	if int64(n) > maxLen {
		return 0, ErrTooLong
	}
	if rec.Rest > 0 {
		return n, change(tx, &rec, n, had, tail)
	}
	var buf [joined]byte
	value := buf[:0]
	if n > joined {
		value = make([]byte, 0, n)
	}
	value = append(append(value, rec.Tail...), tail...)
	save(tx, &rec, value)
	return n, nil
}

// SetRange overwrites the bytes from offset, which must not be negative, and returns the new length. Zero bytes fill a
// gap. An empty part changes nothing.
func SetRange(tx *engine.Tx, key []byte, offset int64, part []byte, maxLen int64) (int, error) {
	rec, err := tx.LoadShort(key, cf.TypeString, joined)
	if err != nil {
		return 0, err
	}
	had := len(rec.Tail) + rec.Rest
	if len(part) == 0 {
		return had, nil
	}
	if offset > maxLen-int64(len(part)) {
		return 0, ErrTooLong
	}
	n := max(had, int(offset)+len(part))
	if rec.Rest > 0 {
		return n, change(tx, &rec, n, int(offset), part)
	}
	var buf [joined]byte
	value := buf[:min(n, joined)]
	if n > joined {
		value = make([]byte, n)
	}
	copy(value, rec.Tail)
	copy(value[offset:], part)
	save(tx, &rec, value)
	return n, nil
}

// Len returns the length of a value, 0 when the key does not exist.
func Len(tx *engine.Tx, key []byte) (int, error) {
	rec, err := tx.LoadHead(key)
	if err == nil && rec.Exists && rec.Type != cf.TypeString {
		err = engine.ErrWrongType
	}
	return len(rec.Tail) + rec.Rest, err
}

// Range returns the bytes of a value from start to end, both included. Negative positions count from the end (-1 = the
// last byte); positions outside are clamped. Only the returned bytes are copied.
func Range(tx *engine.Tx, key []byte, start, end int64) ([]byte, error) {
	rec, err := tx.LoadPart(key, func(t cf.Type, n int) (from, to int) {
		if t != cf.TypeString {
			return 0, 0
		}
		return Within(start, end, int64(n))
	})
	if err == nil && rec.Exists && rec.Type != cf.TypeString {
		err = engine.ErrWrongType
	}
	if err != nil || len(rec.Tail) == 0 {
		return nil, err
	}
	return rec.Tail, nil
}

// Within returns the bounds [from, to) of the range of GETRANGE in a value of n bytes.
func Within(start, end, n int64) (from, to int) {
	if start < 0 && end < 0 && start > end {
		return 0, 0
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	end = min(end, n-1)
	if start > end {
		return 0, 0
	}
	return int(start), int(end + 1)
}

// IncrBy adds by to the integer value of a key (0 when the key is missing) and returns the sum.
func IncrBy(tx *engine.Tx, key []byte, by int64) (int64, error) {
	rec, n, err := loadInt(tx, key)
	if err != nil {
		return 0, err
	}
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		return 0, ErrOverflow
	}
	n += by
	var text [20]byte
	save(tx, &rec, strconv.AppendInt(text[:0], n, 10))
	return n, nil
}

// IncrByFloat adds by to the number in a key (0 when the key is missing) and returns the sum; both are decimal strings.
// Numbers and arithmetic are those of package longdouble.
func IncrByFloat(tx *engine.Tx, key, by []byte) ([]byte, error) {
	rec, x, err := loadFloat(tx, key)
	if err != nil {
		return nil, err
	}
	y, ok := longdouble.Parse(by)
	if !ok {
		return nil, ErrNotFloat
	}
	sum, ok := longdouble.Add(x, y)
	if !ok {
		return nil, ErrNaN
	}
	text := longdouble.Append(nil, sum)
	save(tx, &rec, text)
	return text, nil
}

// Match is the result of a comparison with a key's value.
type Match int

// The results of Compare, CompareAndSet and CompareAndDelete, with Kvrocks's numbers.
const (
	Missing Match = iota - 1
	Differs
	Equal
)

// CompareAndSet sets a key to a new value with the given expiry (milliseconds since the epoch, 0 = never) if its value
// equals old.
func CompareAndSet(tx *engine.Tx, key, old, value []byte, expire int64) (Match, error) {
	rec, m, err := compare(tx, key, old)
	if err != nil || m != Equal {
		return m, err
	}
	if expire != 0 && expire <= tx.Now() {
		expireNow(tx, &rec)
	} else {
		put(tx, key, value, uint64(expire))
	}
	return m, nil
}

// CompareAndDelete deletes a key if its value equals old.
func CompareAndDelete(tx *engine.Tx, key, old []byte) (Match, error) {
	rec, m, err := compare(tx, key, old)
	if err == nil && m == Equal {
		tx.Drop(&rec)
	}
	return m, err
}

// Compare compares the value of a key with value.
func Compare(tx *engine.Tx, key, value []byte) (Match, error) {
	_, m, err := compare(tx, key, value)
	return m, err
}

func compare(tx *engine.Tx, key, old []byte) (engine.Record, Match, error) {
	rec, err := tx.LoadShort(key, cf.TypeString, len(old))
	switch {
	case err != nil || !rec.Exists:
		return rec, Missing, err
	case rec.Rest > 0 || string(rec.Tail) != string(old):
		return rec, Differs, nil
	}
	return rec, Equal, nil
}

// Encoding returns the encoding that Redis would use for a value: int, embstr or raw.
func Encoding(value []byte) string {
	if _, ok := parseInt(value); ok {
		return "int"
	}
	if len(value) <= 44 {
		return "embstr"
	}
	return "raw"
}

const maxIntLen = len("-9223372036854775808")

// parseInt parses a decimal integer: an optional minus sign, no leading zeros, no blanks, no "-0".
func parseInt(b []byte) (int64, bool) {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(b) > 1 {
		return 0, false
	}
	var u uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0') // 19 digits fit
	}
	if len(digits) < len(b) {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u <= math.MaxInt64
}
