package keys

import (
	"fmt"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// The sizes from which Redis keeps a collection in another form, with its default settings.
const (
	listpackEntries = 128  // elements of a hash, set or sorted set
	listpackValue   = 64   // bytes of each of them
	intsetEntries   = 512  // elements of a set of integers
	listpackBytes   = 8192 // bytes of a list
)

// Encoding names the form in which Redis would keep a key that is no string. Here nothing depends on it; clients
// look at it. At most some hundred elements are read to find out, some thousand of a list.
func Encoding(tx *engine.Tx, rec *engine.Record) (string, error) {
	var fits bool
	var err error
	compact, otherwise := "listpack", "hashtable"
	switch rec.Type {
	case cf.TypeHash:
		_, expiring, err := cf.DecodeHashTail(rec.Tail)
		if err != nil {
			return "", fmt.Errorf("key %q: %w", tx.UserKey(rec), err)
		}
		longest := listpackValue
		if expiring { // as Redis 7.4 calls it, also when no field expires any more
			compact = "listpackex"
			longest += cf.HashValueHead
		}
		if fits, err = small(tx, rec, listpackEntries, longest); err != nil {
			return "", err
		}
	case cf.TypeZSet:
		otherwise = "skiplist"
		fits, err = small(tx, rec, listpackEntries, 0)
	case cf.TypeSet:
		if fits, err = integers(tx, rec); fits || err != nil {
			compact = "intset"
		} else {
			fits, err = small(tx, rec, listpackEntries, 0)
		}
	case cf.TypeList:
		otherwise = "quicklist"
		fits, err = shortList(tx, rec)
	case cf.TypeSortedInt:
		return "intset", nil
	case cf.TypeStream:
		return "stream", nil
	default:
		return "raw", nil
	}
	if fits {
		return compact, err
	}
	return otherwise, err
}

// small reports whether a collection has at most so many elements, none of them long, and none whose stored value is
// longer than longest; 0 = values do not count.
func small(tx *engine.Tx, rec *engine.Record, entries uint64, longest int) (bool, error) {
	if rec.Size > entries {
		return false, nil
	}
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), KeysOnly: longest == 0,
		ValueMax: longest + 1})
	defer it.Close()
	for it.Next() {
		if len(it.Key()) > listpackValue || longest > 0 && len(it.Value()) > longest {
			return false, nil
		}
	}
	return true, it.Err()
}

func integers(tx *engine.Tx, rec *engine.Record) (bool, error) {
	if rec.Size > intsetEntries {
		return false, nil
	}
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), KeysOnly: true})
	defer it.Close()
	for it.Next() {
		n, err := strconv.ParseInt(string(it.Key()), 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != string(it.Key()) {
			return false, nil
		}
	}
	return true, it.Err()
}

// shortList reports whether the elements of a list fit into listpackBytes, each with a head of two bytes.
func shortList(tx *engine.Tx, rec *engine.Record) (bool, error) {
	if rec.Size > listpackBytes/2 {
		return false, nil
	}
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), ValueMax: listpackBytes})
	defer it.Close()
	sum := 0
	for it.Next() {
		if sum += len(it.Value()) + 2; sum > listpackBytes {
			return false, nil
		}
	}
	return true, it.Err()
}
