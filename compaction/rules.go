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
	// CheckValue removes the record if [ZeroFragment] holds for its value. The verdict was asked for without the value,
	// because loading the value is expensive with blob files.
	CheckValue
	// CheckField removes the record if [ExpiredField] holds for its value.
	CheckField
	// CheckSeries removes a chunk of a time series if [OldChunk] holds for its value, and a rule if [RuleVerdict] says
	// so.
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

// MetadataLookup reads metadata records for the judgement of subkeys, in their latest state and not in that of a
// snapshot.
type MetadataLookup interface {
	// Lookup returns the record of a metadata key. A missing record is not an error.
	Lookup(nsKey []byte) (raw []byte, found bool, err error)
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

// ExpiredField reports whether the stored value of a field, in a hash whose fields may expire, says that the field has
// expired. An undecodable value has not expired.
//
// Dropping such a field does not change the metadata record. That is correct, because the record counts expired fields
// whether they are still stored or not (see [cf.HashTTL]). The stored value always has the field's own expiry: a writer
// that gives a field a later expiry writes the whole value anew, above the value that is dropped. Fields have the same
// grace as keys, for replicas whose clock is ahead: the master may prolong a field that has already expired there.
func ExpiredField(value []byte, now int64) bool {
	expire, _, err := cf.DecodeHashValue(value)
	return err == nil && now > Grace && cf.FieldExpired(expire, now-Grace)
}

// OldestSample returns the timestamp before which the retention of a time series makes samples garbage, by its metadata
// record; 0 = none are.
func OldestSample(record []byte) uint64 {
	_, tail, err := cf.DecodeMeta(record)
	if err != nil {
		return 0
	}
	m, err := cf.DecodeSeriesMeta(tail)
	if err != nil || m.Retention == 0 || m.Retention >= m.LastTimestamp {
		return 0
	}
	return m.LastTimestamp - m.Retention
}

// OldChunk reports whether all samples of a chunk are older than [OldestSample].
func OldChunk(value []byte, oldest uint64) bool {
	samples, err := cf.ParseSeriesChunk(value)
	n := len(samples) / cf.SampleLen
	return err == nil && n > 0 && cf.SampleAt(samples, n-1).Timestamp < oldest
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

// ZeroFragment reports whether a bitmap fragment has no bit set. Readers treat a missing fragment as zeros, so such a
// fragment may be dropped.
func ZeroFragment(value []byte) bool {
	for _, b := range value {
		if b != 0 {
			return false
		}
	}
	return true
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

// Rules applies the rule of each family to its records.
type Rules struct {
	Metadata MetadataLookup
	Search   MetadataLookup // of the search family
	Slots    bool           // keys carry their cluster slot
	Now      func() int64   // milliseconds since the epoch
}

// Judge returns the final verdict, [Keep] or [Drop], on one record. Records of unknown families are kept.
func (r *Rules) Judge(id cf.ID, key, value []byte) Verdict {
	switch id {
	case cf.Metadata:
		return MetadataVerdict(value, r.Now())
	case cf.Default, cf.ZSetScore, cf.Stream:
		return r.subkey(key, value)
	case cf.PubSub:
		return PubSubVerdict(key)
	case cf.Propagate:
		return PropagateVerdict(key)
	case cf.Search:
		k, err := cf.ParseSearchKey(key)
		if err != nil {
			return Keep
		}
		var field Lookup
		field.Raw, field.Found, field.Err = r.Search.Lookup(k.FieldKey())
		v, userKey := SearchVerdict(&k, field)
		if userKey != nil {
			v = IndexVerdict(r.lookup(cf.AppendNSKey(nil, string(k.Namespace), userKey, r.Slots)), r.Now())
		}
		return v
	case cf.Index:
		k, err := cf.ParseIndexKey(key)
		if err != nil {
			return Keep
		}
		return IndexVerdict(r.lookup(cf.AppendNSKey(nil, string(k.Namespace), k.UserKey, r.Slots)), r.Now())
	}
	return Keep
}

func (r *Rules) lookup(nsKey []byte) (l Lookup) {
	l.Raw, l.Found, l.Err = r.Metadata.Lookup(nsKey)
	return l
}

func (r *Rules) subkey(key, value []byte) Verdict {
	nsKey, err := cf.AppendNSKeyOf(nil, key, r.Slots)
	if err != nil {
		return Keep
	}
	l := r.lookup(nsKey)
	now := r.Now()
	v := SubkeyVerdict(l, key, r.Slots, now)
	switch {
	case v == CheckValue && ZeroFragment(value), v == CheckField && ExpiredField(value, now):
		return Drop
	case v == CheckSeries:
		return r.series(l, key, value)
	case v == CheckValue, v == CheckField:
		return Keep
	}
	return v
}

func (r *Rules) series(l Lookup, key, value []byte) Verdict {
	s, err := cf.ParseSubkey(key, r.Slots)
	if err != nil {
		return Keep
	}
	switch part, rest, err := cf.SplitSeriesSub(s.Sub); {
	case err != nil:
	case part == cf.SeriesChunk && OldChunk(value, OldestSample(l.Raw)):
		return Drop
	case part == cf.SeriesRule:
		target := cf.AppendNSKey(nil, string(s.Namespace), rest, r.Slots)
		return RuleVerdict(r.lookup(target), s.UserKey, r.Now())
	}
	return Keep
}
