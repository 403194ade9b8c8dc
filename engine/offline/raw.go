package offline

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Record is one record of a key, with its meaning.
type Record struct {
	Family string   `json:"family"`
	Key    string   `json:"key"`   // hexadecimal, in ldb's form
	Value  string   `json:"value"` // hexadecimal
	Parts  []string `json:"key_parts"`
	Fields []string `json:"value_parts"`
	Ldb    string   `json:"ldb"` // the ldb command that prints the record
}

// Raw calls f with every record of a key, in a database that no server has open: the metadata record, then the subkeys
// of all its versions, including dead ones. Values are truncated to max bytes; 0 = no limit.
func Raw(dir, ns string, key []byte, max int, f func(Record) error) error {
	r, err := engine.OpenReadOnly(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	slots := r.Slots()
	nsKey := cf.AppendNSKey(nil, ns, key, slots)
	d := &describer{slots: slots, dir: filepath.Clean(dir), nsKey: nsKey, max: max}
	raw, found, err := r.Get(cf.Metadata, nsKey, nil)
	if err != nil {
		return err
	}
	if found {
		d.found = true
		d.meta, d.tail, d.err = cf.DecodeMeta(raw)
		if err := f(d.metadata(raw)); err != nil {
			return err
		}
	}
	prefix := cf.AppendSubkeyPrefix(nil, nsKey, slots, 0)
	prefix = prefix[:len(prefix)-8]
	end, _ := cf.AppendSuccessor(nil, prefix)
	for _, id := range []cf.ID{cf.Default, cf.ZSetScore, cf.Stream} {
		var damage error
		cur := r.Cursor(id, engine.CursorOptions{Lower: prefix, Upper: end,
			Damaged: func(_, _ []byte, err error) { damage = err }})
		for cur.Next() && damage == nil {
			// A user key of another length has another prefix.
			if err := f(d.subkey(id, cur.Key(), cur.Value(), len(prefix))); err != nil {
				cur.Close()
				return err
			}
			found = true
		}
		cur.Close()
		if damage != nil {
			return damage
		}
	}
	if !found {
		return fmt.Errorf("there is no key %s in namespace %s", Show(key), ns)
	}
	return nil
}

// describer decodes the records of one key.
type describer struct {
	slots bool
	dir   string
	nsKey []byte
	max   int
	found bool
	meta  cf.Meta
	tail  []byte
	err   error
}

// record returns the description of a record; its value may be truncated.
func (d *describer) record(id cf.ID, key, value []byte, parts, fields []string) Record {
	hexKey := fmt.Sprintf("0x%X", key)
	family := id.String()
	cut := value
	if d.max > 0 && len(cut) > d.max {
		cut = cut[:d.max]
	}
	text := fmt.Sprintf("0x%X", cut)
	if len(cut) < len(value) {
		text += fmt.Sprintf("... (%d bytes)", len(value))
	}
	return Record{Family: family, Key: hexKey, Value: text, Parts: parts, Fields: fields,
		Ldb: fmt.Sprintf("ldb --db=%s --column_family=%s --hex get %s", quoteShell(d.dir), family, hexKey)}
}

func quoteShell(s string) string {
	if strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/._-", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0 && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// part returns bytes in hexadecimal and their meaning.
func part(b []byte, format string, args ...any) string {
	const shown = 24
	if len(b) > shown {
		return fmt.Sprintf("%X... (%d bytes): ", b[:shown], len(b)) + fmt.Sprintf(format, args...)
	}
	return fmt.Sprintf("%X: ", b) + fmt.Sprintf(format, args...)
}

func (d *describer) head(key []byte) (parts []string, rest []byte) {
	n := 1 + int(key[0])
	parts = []string{part(key[:1], "length of the namespace"), part(key[1:n], "namespace %s", Show(key[1:n]))}
	if d.slots {
		parts = append(parts, part(key[n:n+2], "slot %d", binary.BigEndian.Uint16(key[n:])))
		n += 2
	}
	return parts, key[n:]
}

func when(ms uint64) string {
	if ms == 0 {
		return "no expiry"
	}
	return "expires " + time.UnixMilli(int64(ms)).UTC().Format("2006-01-02 15:04:05.000 UTC")
}

func (d *describer) metadata(raw []byte) Record {
	parts, userKey := d.head(d.nsKey)
	parts = append(parts, part(userKey, "key %s", Show(userKey)))
	if d.err != nil {
		return d.record(cf.Metadata, d.nsKey, raw, parts, []string{part(raw, "%v", d.err)})
	}
	m := &d.meta
	form := "64-bit numbers"
	at := 9
	if m.Narrow {
		form, at = "32-bit numbers", 5
	}
	fields := []string{part(raw[:1], "type %d %s, %s", m.Type, m.Type, form), part(raw[1:at], "%s", when(m.Expire))}
	if !m.Type.SingleRecord() {
		size := len(raw) - len(d.tail)
		fields = append(fields, part(raw[at:at+8], "version %d", m.Version), part(raw[at+8:size], "size %d", m.Size))
	}
	if tail := d.tailText(); tail != "" {
		fields = append(fields, part(d.tail, "%s", tail))
	}
	return d.record(cf.Metadata, d.nsKey, raw, parts, fields)
}

// textOr formats a text of something decoded, or returns the text of the error of the decoder.
func textOr(err error, format string, args ...any) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf(format, args...)
}

// tailText describes the part of the metadata record after its head.
func (d *describer) tailText() string {
	switch d.meta.Type {
	case cf.TypeString:
		return "value " + short(d.tail)
	case cf.TypeJSON:
		format, doc, err := cf.SplitJSONTail(d.tail)
		return textOr(err, "%s %s", [...]string{"JSON text", "CBOR"}[format], short(doc))
	case cf.TypeHash:
		t, on, err := cf.DecodeHashTail(d.tail)
		if err == nil && !on {
			return ""
		}
		return textOr(err, "%d fields without an expiry; others: the first %s, the last %s", t.Persist, when(t.Lower),
			when(t.Upper))
	case cf.TypeList:
		head, end, err := cf.DecodeListTail(d.tail)
		return textOr(err, "elements at indexes %d to %d", head, end-1)
	case cf.TypeStream:
		m, err := cf.DecodeStreamMeta(d.tail)
		return textOr(err, "last generated id %s, recorded first %s, max deleted %s, first %s, last %s, %d entries added, "+
			"%d groups", id(m.LastGenerated), id(m.RecordedFirst), id(m.MaxDeleted), id(m.First), id(m.Last),
			m.EntriesAdded, m.Groups)
	case cf.TypeBloom:
		m, err := cf.DecodeBloomMeta(d.tail)
		return textOr(err, "%d filters, expansion %d, capacity %d, error rate %v, %d bytes", m.Filters, m.Expansion,
			m.BaseCapacity, m.ErrorRate, m.Bytes)
	case cf.TypeCuckooFilter:
		m, err := cf.DecodeCuckooMeta(d.tail)
		return textOr(err, "%d filters, expansion %d, capacity %d, %d fingerprints in a bucket, %d iterations, %d deleted, "+
			"pages of %d bytes", m.Filters, m.Expansion, m.BaseCapacity, m.BucketSize, m.MaxIterations, m.Deleted, m.PageSize)
	case cf.TypeHyperLogLog:
		_, err := cf.DecodeHLLTail(d.tail)
		return textOr(err, "dense encoding")
	case cf.TypeTDigest:
		m, err := cf.DecodeTDigestMeta(d.tail)
		return textOr(err, "compression %d, capacity %d, %d unmerged, %d centroids, weight %d of %d, from %v to %v, "+
			"%d observations, %d merges", m.Compression, m.Capacity, m.Unmerged, m.Merged, m.MergedWeight, m.TotalWeight,
			m.Min, m.Max, m.Observations, m.Merges)
	}
	if len(d.tail) > 0 {
		return "further fields"
	}
	return ""
}

// short returns the beginning of a value.
func short(b []byte) string {
	const shown = 60
	if len(b) > shown {
		return Show(b[:shown]) + "..."
	}
	return Show(b)
}

func (d *describer) subkey(id cf.ID, key, value []byte, prefix int) Record {
	parts, rest := d.head(key)
	n := binary.BigEndian.Uint32(rest)
	parts = append(parts, part(rest[:4], "length of the key"), part(rest[4:4+n], "key %s", Show(rest[4:4+n])))
	sub, err := cf.ParseSubkey(key, d.slots)
	if err != nil {
		return d.record(id, key, value, append(parts, part(key[prefix:], "%v", err)), nil)
	}
	state := "the key's"
	switch {
	case !d.found:
		state = "garbage: the key was deleted"
	case d.err != nil:
		state = "the key's record cannot be decoded"
	case d.meta.Type.SingleRecord():
		state = "garbage: the key is a " + d.meta.Type.String() + " now"
	case d.meta.Version != sub.Version:
		state = "garbage: an old version"
	}
	parts = append(parts, part(key[prefix:prefix+8], "version %d, %s", sub.Version, state))
	name, fields := d.member(id, sub.Sub, value)
	return d.record(id, key, value, append(parts, part(sub.Sub, "%s", name)), fields)
}

// member describes a subkey and its value. Of garbage only the family is known.
func (d *describer) member(id cf.ID, sub, value []byte) (name string, fields []string) {
	fields = []string{part(value, "%s", short(value))}
	if len(value) == 0 {
		fields = []string{"no value"}
	}
	switch {
	case id == cf.ZSetScore:
		f, member, err := cf.SplitScoreSub(sub)
		return textOr(err, "score %v, member %s", f, Show(member)), fields
	case id == cf.Stream:
		return d.streamRecord(sub, value)
	case !d.found || d.err != nil:
		return Show(sub), fields
	}
	switch d.meta.Type {
	case cf.TypeHash:
		if _, on, _ := cf.DecodeHashTail(d.tail); on && len(value) >= cf.HashValueHead {
			expire, v, _ := cf.DecodeHashValue(value)
			fields = []string{part(value[:cf.HashValueHead], "%s", when(expire)), part(v, "%s", short(v))}
		}
		return "field " + Show(sub), fields
	case cf.TypeSet:
		return "member " + Show(sub), fields
	case cf.TypeZSet:
		if f, err := cf.ParseDouble(value); err == nil {
			fields = []string{part(value, "score %v", f)}
		}
		return "member " + Show(sub), fields
	case cf.TypeList:
		n, err := cf.ParseU64Sub(sub)
		return textOr(err, "index %d", n), fields
	case cf.TypeSortedInt:
		n, err := cf.ParseU64Sub(sub)
		return textOr(err, "member %d", n), fields
	case cf.TypeBitmap:
		at, err := cf.ParseBitmapSub(sub)
		return textOr(err, "fragment from byte %d", at), fields
	case cf.TypeHyperLogLog:
		n, err := cf.ParseHLLSub(sub)
		return textOr(err, "segment %d", n), fields
	case cf.TypeBloom:
		n, err := cf.ParseBloomSub(sub)
		return textOr(err, "filter %d", n), fields
	case cf.TypeCuckooFilter:
		filter, page, err := cf.ParseCuckooSub(sub)
		return textOr(err, "filter %d, page %d", filter, page), fields
	case cf.TypeTDigest:
		if bytes.Equal(sub, cf.AppendTDigestBufferSub(nil)) {
			return "buffer", fields
		}
		mean, err := cf.ParseTDigestCentroidSub(sub)
		if w, e := cf.ParseTDigestWeight(value); err == nil && e == nil {
			fields = []string{part(value, "weight %v", w)}
		}
		return textOr(err, "centroid of mean %v", mean), fields
	}
	return Show(sub), fields
}

func (d *describer) streamRecord(sub, value []byte) (name string, fields []string) {
	k, err := cf.ParseStreamSub(sub)
	if err != nil {
		return err.Error(), []string{part(value, "%s", short(value))}
	}
	var text string
	switch k.Kind {
	case cf.StreamEntry:
		name = "entry " + id(k.ID)
		words, err := cf.DecodeStreamEntry(nil, value)
		for pair := range slices.Chunk(words, 2) {
			text += " " + short(pair[0])
			if len(pair) > 1 {
				text += "=" + short(pair[1])
			}
		}
		text = textOr(err, "%s", strings.TrimSpace(text))
	case cf.StreamGroup:
		name = "group " + Show(k.Group)
		g, err := cf.DecodeStreamGroup(value)
		text = textOr(err, "%d consumers, %d pending, last delivered %s, %d read, lag %d", g.Consumers, g.Pending,
			id(g.LastDelivered), g.EntriesRead, g.Lag)
	case cf.StreamConsumer:
		name = "consumer " + Show(k.Consumer) + " of group " + Show(k.Group)
		c, err := cf.DecodeStreamConsumer(value)
		text = textOr(err, "%d pending, last attempt %d, last success %d", c.Pending, c.LastAttempted, c.LastSucceeded)
	case cf.StreamPending:
		name = "pending " + id(k.ID) + " of group " + Show(k.Group)
		p, err := cf.DecodeStreamPending(value)
		text = textOr(err, "consumer %s, delivered %d times, last at %d", Show(p.Consumer), p.DeliveryCount, p.DeliveryTime)
	case cf.StreamProducer:
		name = "producer " + Show(k.Producer)
		p, err := cf.DecodeStreamProducer(value)
		text = textOr(err, "queue from %d to %d, last ms %d", p.First, p.Next, p.LastMs)
	case cf.StreamIID:
		name = "iid " + Show(k.IID) + " of producer " + Show(k.Producer)
		i, err := cf.DecodeStreamIID(value)
		text = textOr(err, "entry %s", id(i))
	case cf.StreamQueued:
		name = fmt.Sprintf("place %d in the queue of producer %s", k.Place, Show(k.Producer))
		q, err := cf.DecodeStreamQueued(value)
		text = textOr(err, "iid %s, ms %d", Show(q.IID), q.Ms)
	case cf.StreamIdempotence:
		name = "idempotence"
		i, err := cf.DecodeStreamIdempotence(value)
		text = textOr(err, "%d seconds, %d iids a producer, %d added, %d duplicates", i.Duration, i.MaxSize, i.Added,
			i.Duplicates)
	}
	return name, []string{part(value, "%s", text)}
}
