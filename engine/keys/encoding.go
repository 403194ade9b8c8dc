package keys

import (
	"fmt"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// The sizes up to which Redis, with its default settings, uses a compact encoding for a collection.
const (
	listpackEntries = 128  // elements of a hash, set or sorted set
	listpackValue   = 64   // bytes of each element
	intsetEntries   = 512  // elements of a set of integers
	listpackBytes   = 8192 // bytes of a list
)

// Encoding returns the encoding that Redis would use for a key that is not a string. It is only for clients that ask.
// It reads at most some hundred elements, of a list some thousand.
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
		if expiring { // Redis 7.4's name, even when no field has an expiry any more
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

// small reports whether a collection has at most entries elements, none of them long, and no stored value longer than
// longest; longest 0 = values do not count.
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

// shortList reports whether the elements of a list, with a header of two bytes each, fit into listpackBytes.
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
