// Package compaction holds the rules by which space is reclaimed: which records a running compaction drops, what is
// counted for each file, which files are compacted next, and when. Everything here is a pure function or a state
// machine with an injected clock: no I/O, no RocksDB.
//
// The rules are those of Apache Kvrocks 2.10, and for hashes whose fields expire those of its later versions. No active
// expiry cycle exists. A deleted, expired or overwritten key is invisible at once, because readers check its metadata
// record; a later compaction drops its bytes.
//
// All integer times are milliseconds since the Unix epoch.
package compaction

import "github.com/basaltdb/basalt/cf"

// Verdict is the decision of a compaction about a record.
type Verdict uint8

const (
	// Keep leaves the record unchanged. It is the verdict on everything that cannot be decoded.
	Keep Verdict = iota
	// Drop removes the record.
	Drop
	// The native side in engine/rocks, which has the value, decides by it about the following. They are asked for
	// without the value, because loading the value is expensive with blob files.

	// CheckValue removes a bitmap fragment that has no bit set: readers treat a missing fragment as zeros.
	CheckValue
	// CheckField removes a field that has expired. An undecodable value has not expired.
	//
	// Dropping such a field does not change the metadata record. That is correct, because the record counts expired
	// fields whether they are still stored or not (see [cf.HashTTL]). The stored value always has the field's own
	// expiry: a writer that gives a field a later expiry writes the whole value anew, above the value that is dropped.
	// Fields have the same grace as keys, for replicas whose clock is ahead: the master may prolong a field that has
	// already expired there.
	CheckField
	// CheckSeries removes a chunk of a time series if all its samples are older than [OldestSample], and a rule if
	// [RuleVerdict] says so.
	CheckSeries
)

// String returns the verdict as a word.
func (v Verdict) String() string {
	switch v {
	case Keep:
		return "keep"
	case Drop:
		return "drop"
	case CheckValue:
		return "check value"
	case CheckField:
		return "check field"
	case CheckSeries:
		return "check series"
	}
	return "unknown"
}

// Grace is how long, in milliseconds, the subkeys of a key are kept after its expiry. So a writer that reads the
// metadata just before the expiry, and makes the key persistent just after it, finds all subkeys of the key. The
// metadata record itself has no grace.
const Grace = 5 * 60 * 1000

// MetadataVerdict judges a record of the metadata family by its value. Expired records, emptied collections, and hashes
// whose last field has expired are dropped at once.
func MetadataVerdict(value []byte, now int64) Verdict {
	v, _ := JudgeMetadata(value, now)
	return v
}

// JudgeMetadata is [MetadataVerdict] that also returns the reason, wrapping [cf.ErrCorrupt], why an undecodable record
// is kept.
func JudgeMetadata(value []byte, now int64) (Verdict, error) {
	m, _, err := cf.DecodeMeta(value)
	if err != nil {
		return Keep, err
	}
	if m.Type.Known() && !m.Live(now) { // records of unknown types, from newer versions, are all kept
		return Drop, nil
	}
	return Keep, nil
}

// Settled reports whether [MetadataVerdict] certainly keeps a record at any time: the record has no expiry and is not
// empty. Most records are settled and need no verdict, so a running compaction does not ask for one: engine/rocks has
// the native twin of this function. Settled may also be false for a record that is kept.
func Settled(value []byte) bool {
	m, tail, err := cf.DecodeMeta(value)
	return err == nil && m.Expire == 0 && (m.Type.SingleRecord() || m.Size > 0) &&
		(m.Type != cf.TypeHash || len(tail) == 0)
}

// Lookup is the outcome of reading the metadata record that a subkey belongs to.
type Lookup struct {
	Raw   []byte // the record, when Found
	Found bool
	Err   error // the read failed; Raw and Found are undefined
}

// SubkeyVerdict judges a key of the default, zset_score or stream family by the metadata record of its collection. All
// subkeys of one version of a key get the same verdict: only the prefix of key up to the version matters, so a caller
// may ask once for each prefix. slots says whether keys carry their cluster slot.
func SubkeyVerdict(lookup Lookup, key []byte, slots bool, now int64) Verdict {
	sub, err := cf.ParseSubkey(key, slots)
	if err != nil || lookup.Err != nil {
		return Keep
	}
	if !lookup.Found {
		return Drop
	}
	m, tail, err := cf.DecodeMeta(lookup.Raw)
	if err != nil || !m.Type.Known() {
		return Keep
	}
	switch {
	case m.Type.SingleRecord(): // SET or JSON.SET overwrote a collection
		return Drop
	case m.Size == 0 && !m.Type.MayBeEmpty(): // emptied: no grace, because no expiry is involved
		return Drop
	case now > Grace && m.Expired(now-Grace):
		return Drop
	case sub.Version != m.Version:
		return Drop
	case m.Type == cf.TypeBitmap:
		return CheckValue
	case m.Type == cf.TypeTimeSeries:
		return CheckSeries
	case m.Type == cf.TypeHash:
		if _, on, err := cf.DecodeHashTail(tail); on && err == nil {
			return CheckField
		}
	}
	return Keep
}

// OldestSample returns the timestamp before which the retention of a time series makes samples garbage, by its metadata
// record; 0 = none are.
func OldestSample(record []byte) uint64 {
	_, tail, err := cf.DecodeMeta(record)
	if err != nil {
		return 0
	}
	m, err := cf.DecodeSeriesMeta(tail)
	if err != nil {
		return 0
	}
	return m.Oldest()
}

// RuleVerdict judges a rule of a time series by the metadata record of the one that is aggregated: it is garbage when
// that one no longer exists, or names another source than the user key of this one.
func RuleVerdict(target Lookup, source []byte, now int64) Verdict {
	if target.Err != nil {
		return Keep
	}
	if !target.Found {
		return Drop
	}
	m, tail, err := cf.DecodeMeta(target.Raw)
	switch {
	case err != nil || !m.Type.Known():
		return Keep
	case m.Type != cf.TypeTimeSeries || now > Grace && m.Expired(now-Grace):
		return Drop
	}
	if s, err := cf.DecodeSeriesMeta(tail); err == nil && string(s.Source) != string(source) {
		return Drop
	}
	return Keep
}

// IndexVerdict judges a key of the index family, or a TAG or NUMERIC entry of the search family, by the metadata record
// of its user key.
func IndexVerdict(key Lookup, now int64) Verdict {
	if key.Err != nil {
		return Keep
	}
	if !key.Found {
		return Drop
	}
	if m, _, err := cf.DecodeMeta(key.Raw); err == nil && now > Grace && m.Expired(now-Grace) {
		return Drop
	}
	return Keep
}

// PubSubVerdict judges a key of the pubsub family: messages only travel in the WAL.
func PubSubVerdict([]byte) Verdict { return Drop }

// PropagateVerdict judges a key of the propagate family: only the marker of SCRIPT FLUSH is dropped.
func PropagateVerdict(key []byte) Verdict {
	if string(key) == cf.PropagateScriptFlush {
		return Drop
	}
	return Keep
}

// SearchVerdict judges a key of the search family by the definition of its field, without which an entry is dropped.
// The verdict on the entry of a TAG or NUMERIC field is that of [IndexVerdict] on userKey, which is nil for other keys.
// The nodes and edges of a graph stay, because others depend on them.
//
// Entries of a key that has expired may be dropped: who gives such a key new fields writes all its entries anew.
func SearchVerdict(k *cf.SearchKey, field Lookup) (v Verdict, userKey []byte) {
	switch {
	case k.Kind != cf.SearchFieldData || field.Err != nil:
		return Keep, nil
	case !field.Found:
		return Drop, nil
	}
	f, err := cf.DecodeSearchField(field.Raw)
	if err == nil && f.Type == cf.SearchTag {
		_, userKey, _ = cf.ParseSearchTag(k.Data)
	} else if err == nil && f.Type == cf.SearchNumeric {
		_, userKey, _ = cf.ParseSearchNumeric(k.Data)
	}
	return Keep, userKey
}
