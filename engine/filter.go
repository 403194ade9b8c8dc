package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine/lock"
	"github.com/basaltdb/basalt/engine/rocks"
)

// verdict is the decision of a running compaction about a record, by the rules of package compaction. It runs on
// RocksDB's threads. The native side does not ask about metadata records that compaction.Settled keeps.
//
// Subkeys are judged by the current metadata record, and the judgement must not change while a writer is at work.
// Otherwise a writer that has read the record before its expiry, and makes it persistent after the compaction has
// judged it expired, would keep a key whose subkeys are gone. So a subkey is dropped only under the key's lock, and
// kept (until the next compaction) when a writer holds the lock. A transaction that takes the lock later also finds the
// key expired or gone, and gives it a new version.
//
// end is when the collection of a subkey expires, 0 = never. before is set for a hash whose fields must be checked:
// fields that have expired before that time are dropped. For a time series it is the timestamp before which samples are
// garbage; then the native side asks again about each of its rules, with the whole key. A replica goes by a clock of
// its own, see replica.go.
func (db *DB) verdict(kind rocks.FamilyKind, key, value []byte) (verdict int, end, before uint64) {
	if !db.opened.Load() {
		return rocks.Keep, 0, 0
	}
	// Close and Replace free the families while compactions may still run.
	if !db.filterLane.Enter() {
		return rocks.Keep, 0, 0
	}
	defer db.filterLane.Leave()
	now := db.compactionTime(db.CompactionClock())
	switch kind {
	case rocks.Meta:
		v := compaction.MetadataVerdict(value, now)
		if v == compaction.Drop {
			if m, _, err := cf.DecodeMeta(value); err == nil {
				db.droppedSubkeys.Add(m.Size)
			}
		}
		return native(v), 0, 0
	case rocks.PubSub:
		return native(compaction.PubSubVerdict(key)), 0, 0
	case rocks.Propagate:
		return native(compaction.PropagateVerdict(key)), 0, 0
	case rocks.Search:
		k, err := cf.ParseSearchKey(key)
		if err != nil {
			return rocks.Keep, 0, 0
		}
		var field compaction.Lookup
		field.Raw, field.Found, field.Err = db.rocks.Get(db.fam[cf.Search], k.FieldKey(), nil)
		v, userKey := compaction.SearchVerdict(&k, field)
		if userKey != nil {
			nsKey := cf.AppendNSKey(nil, string(k.Namespace), userKey, db.slots)
			l, unlock := db.lookup(nsKey)
			defer unlock()
			v = compaction.IndexVerdict(l, now)
			if v == compaction.Keep && l.Err == nil && db.entryGone(nsKey, l.Raw, &k, field.Raw) {
				v = compaction.Drop
			}
		}
		return native(v), 0, 0
	case rocks.Index:
		k, err := cf.ParseIndexKey(key)
		if err != nil {
			return rocks.Keep, 0, 0
		}
		nsKey := cf.AppendNSKey(nil, string(k.Namespace), k.UserKey, db.slots)
		l, unlock := db.lookup(nsKey)
		defer unlock()
		v := compaction.IndexVerdict(l, now)
		if v == compaction.Keep && l.Err == nil && !db.hasLabel(nsKey, l.Raw, &k) {
			v = compaction.Drop
		}
		return native(v), 0, 0
	case rocks.Subkeys:
		nsKey, err := cf.AppendNSKeyOf(nil, key, db.slots)
		if err != nil {
			return rocks.Keep, 0, 0
		}
		l, unlock := db.lookup(nsKey)
		defer unlock()
		if m, _, err := cf.DecodeMeta(l.Raw); err == nil {
			end = m.End()
		}
		v := compaction.SubkeyVerdict(l, key, db.slots, now)
		if v == compaction.CheckSeries {
			if sub, err := cf.ParseSubkey(key, db.slots); err == nil && len(sub.Sub) > 0 {
				return native(db.ruleVerdict(&sub, now)), end, 0
			}
			return rocks.CheckSeries, end, compaction.OldestSample(l.Raw)
		}
		return native(v), end, uint64(max(now-compaction.Grace, 0))
	}
	panic(fmt.Sprintf("unknown family kind %d", kind))
}

// lookup reads a metadata record under the lock of its key, until unlock is called. It fails when a writer holds the
// lock.
func (db *DB) lookup(nsKey []byte) (l compaction.Lookup, unlock func()) {
	v := lock.Of(db.locks.Name(nsKey), false)
	if !db.locks.TryLock(v) {
		return compaction.Lookup{Err: errLocked}, func() {}
	}
	if db.locks.Fails(v) {
		l.Err = errLocked
	} else {
		l.Raw, l.Found, l.Err = db.rocks.Get(db.fam[cf.Metadata], nsKey, nil)
	}
	return l, func() { db.locks.Unlock(v) }
}

// hasLabel reports whether a key has the label of an index key. It may not: the key was deleted, and made anew before a
// compaction met its index keys. Kvrocks keeps such an index key as long as the key exists.
func (db *DB) hasLabel(nsKey, record []byte, k *cf.IndexKey) bool {
	m, _, err := cf.DecodeMeta(record)
	if err != nil || !m.Type.Known() {
		return true
	}
	if m.Type != cf.TypeTimeSeries {
		return false
	}
	label := append(cf.AppendSubkeyPrefix(nil, nsKey, db.slots, m.Version), byte(cf.SeriesLabel))
	value, found, err := db.rocks.Get(db.fam[cf.Default], append(label, k.Label...), nil)
	return err != nil || found && bytes.Equal(value, k.Value)
}

// entryGone reports whether a key does not have what a TAG or NUMERIC entry of the search family says. No writer of the
// key knows of such an entry: a compaction has dropped the field, which had expired, or the whole key, which was made
// anew since. What it cannot tell stays: a tag that is a part of the value, and the entries of a JSON document.
func (db *DB) entryGone(nsKey, record []byte, k *cf.SearchKey, definition []byte) bool {
	m, tail, err := cf.DecodeMeta(record)
	if err != nil || !m.Type.Known() || m.Type != cf.TypeHash {
		return err == nil && m.Type.Known() && m.Type != cf.TypeJSON
	}
	f, err := cf.DecodeSearchField(definition)
	if err != nil {
		return false
	}
	sub := append(cf.AppendSubkeyPrefix(nil, nsKey, db.slots, m.Version), k.Field...)
	value, found, err := db.rocks.Get(db.fam[cf.Default], sub, nil)
	if err != nil || !found {
		return err == nil
	}
	if _, ttl, err := cf.DecodeHashTail(tail); err != nil {
		return false
	} else if ttl {
		if _, value, err = cf.DecodeHashValue(value); err != nil {
			return false
		}
	}
	if f.Type == cf.SearchTag {
		tag, _, err := cf.ParseSearchTag(k.Data)
		return err == nil && !bytes.Contains(f.TagKey(value), tag)
	}
	n, _, err := cf.ParseSearchNumeric(k.Data)
	x, bad := strconv.ParseFloat(string(value), 64)
	return err == nil && bad == nil && x != n
}

var errLocked = errors.New("a writer has the lock")

// ruleVerdict judges a rule of a time series, whose lock is held.
func (db *DB) ruleVerdict(sub *cf.Subkey, now int64) compaction.Verdict {
	part, target, err := cf.SplitSeriesSub(sub.Sub)
	if err != nil || part != cf.SeriesRule {
		return compaction.Keep
	}
	l, unlock := db.lookup(cf.AppendNSKey(nil, string(sub.Namespace), target, db.slots))
	defer unlock()
	return compaction.RuleVerdict(l, sub.UserKey, now)
}

func native(v compaction.Verdict) int {
	switch v {
	case compaction.Drop:
		return rocks.Drop
	case compaction.CheckValue:
		return rocks.DropIfZero
	case compaction.CheckField:
		return rocks.DropIfExpired
	}
	return rocks.Keep
}
