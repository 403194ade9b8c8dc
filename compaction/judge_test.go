package compaction

import "github.com/basaltdb/basalt/cf"

// metadataLookup reads metadata records for the judgement of subkeys, in their latest state and not in that of a
// snapshot.
type metadataLookup interface {
	// Lookup returns the record of a metadata key. A missing record is not an error.
	Lookup(nsKey []byte) (raw []byte, found bool, err error)
}

// rules applies the rule of each family to its records, as engine and engine/rocks do together.
type rules struct {
	Metadata metadataLookup
	Search   metadataLookup // of the search family
	Slots    bool           // keys carry their cluster slot
	Now      func() int64   // milliseconds since the epoch
}

// judge returns the final verdict, [Keep] or [Drop], on one record. Records of unknown families are kept.
func (r *rules) judge(id cf.ID, key, value []byte) Verdict {
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

func (r *rules) lookup(nsKey []byte) (l Lookup) {
	l.Raw, l.Found, l.Err = r.Metadata.Lookup(nsKey)
	return l
}

func (r *rules) subkey(key, value []byte) Verdict {
	nsKey, err := cf.AppendNSKeyOf(nil, key, r.Slots)
	if err != nil {
		return Keep
	}
	l := r.lookup(nsKey)
	now := r.Now()
	v := SubkeyVerdict(l, key, r.Slots, now)
	switch {
	case v == CheckValue && zeroFragment(value), v == CheckField && expiredField(value, now):
		return Drop
	case v == CheckSeries:
		return r.series(l, key, value)
	case v == CheckValue, v == CheckField:
		return Keep
	}
	return v
}

func (r *rules) series(l Lookup, key, value []byte) Verdict {
	s, err := cf.ParseSubkey(key, r.Slots)
	if err != nil {
		return Keep
	}
	switch part, rest, err := cf.SplitSeriesSub(s.Sub); {
	case err != nil:
	case part == cf.SeriesChunk && oldChunk(value, OldestSample(l.Raw)):
		return Drop
	case part == cf.SeriesRule:
		target := cf.AppendNSKey(nil, string(s.Namespace), rest, r.Slots)
		return RuleVerdict(r.lookup(target), s.UserKey, r.Now())
	}
	return Keep
}

// expiredField is what the native side does on CheckField.
func expiredField(value []byte, now int64) bool {
	expire, _, err := cf.DecodeHashValue(value)
	return err == nil && now > Grace && cf.FieldExpired(expire, now-Grace)
}

// oldChunk is what the native side does with chunks on CheckSeries.
func oldChunk(value []byte, oldest uint64) bool {
	samples, err := cf.ParseSeriesChunk(value)
	n := len(samples) / cf.SampleLen
	return err == nil && n > 0 && cf.SampleAt(samples, n-1).Timestamp < oldest
}

// zeroFragment is what the native side does on CheckValue.
func zeroFragment(value []byte) bool {
	for _, b := range value {
		if b != 0 {
			return false
		}
	}
	return true
}
