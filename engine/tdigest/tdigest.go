// Package tdigest is the t-digest type on an [engine.Tx]: a sketch of a set of numbers that estimates its quantiles,
// most exactly at the ends. The newest observations are in a buffer. When it is full, they are merged into centroids.
// The buffer and each centroid are records of the default family:
//
//	prefix · 0                          -> observations, f64 each
//	prefix · 1 · f64 mean · u32 number  -> f64 weight
//
// The metadata record is described at [cf.TDigestMeta]. The layout and the merging are those of Apache Kvrocks. Unlike
// Kvrocks, a read-only command does not write: it merges the buffer in memory.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. A key of another type gives [engine.ErrWrongType].
package tdigest

import (
	"fmt"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

const (
	// DefaultCompression is the compression when none is given.
	DefaultCompression = 100
	// MaxCompression limits the compression, because every merge writes all centroids, about that many.
	MaxCompression = 10_000
	// maxBuffer is the max number of observations in the buffer.
	maxBuffer = 1024
	// maxWeight is the max number of observations: sums of them must fit into 64 bits.
	maxWeight = 1 << 62
)

// Errors that become replies.
var (
	ErrExists   = engine.NewError("ERR", "T-Digest: key already exists")
	ErrNotFound = engine.NewError("ERR", "T-Digest: key does not exist")
	ErrOverflow = engine.NewError("ERR", "T-Digest: overflow detected")
)

// Digest is a t-digest in a transaction.
type Digest struct {
	tx   *engine.Tx
	rec  engine.Record
	Meta cf.TDigestMeta // read-only
}

// capacityOf returns the capacity of the buffer, in observations, for a compression.
func capacityOf(compression uint32) uint32 { return uint32(min(6*uint64(compression)+10, maxBuffer)) }

// Create creates an empty t-digest. An existing one gives [ErrExists].
func Create(tx *engine.Tx, key []byte, compression uint32) error {
	rec, err := tx.Load(key, cf.TypeTDigest)
	if err != nil {
		return err
	}
	if rec.Exists {
		return ErrExists
	}
	d := Digest{tx: tx, rec: rec, Meta: cf.NewTDigestMeta(compression, capacityOf(compression))}
	tx.LogData(cf.LogTDigest)
	d.save()
	return nil
}

// Open returns a t-digest. A missing one gives [ErrNotFound].
func Open(tx *engine.Tx, key []byte) (Digest, error) {
	d := Digest{tx: tx}
	var err error
	if d.rec, err = tx.Load(key, cf.TypeTDigest); err != nil {
		return d, err
	}
	if !d.rec.Exists {
		return d, ErrNotFound
	}
	if d.Meta, err = cf.DecodeTDigestMeta(d.rec.Tail); err != nil {
		return d, d.corrupt(err)
	}
	m := &d.Meta
	if m.TotalWeight > maxWeight || m.TotalWeight > 0 && !(m.Min <= m.Max) {
		return d, d.corrupt(fmt.Errorf("%w: t-digest of %d observations from %v to %v", cf.ErrCorrupt, m.TotalWeight,
			m.Min, m.Max))
	}
	return d, nil
}

// corrupt adds the key to an error.
func (d *Digest) corrupt(err error) error { return fmt.Errorf("key %q: %w", d.tx.UserKey(&d.rec), err) }

func (d *Digest) save() {
	var buf [80]byte
	d.tx.Save(&d.rec, d.Meta.Append(buf[:0]))
}

func (d *Digest) bufferKey() []byte {
	var sub [1]byte
	return d.tx.Subkey(&d.rec, cf.AppendTDigestBufferSub(sub[:0]))
}

// buffer returns the value of the buffer. Its length must match the metadata.
func (d *Digest) buffer() ([]byte, error) {
	if d.Meta.Unmerged == 0 {
		return nil, nil
	}
	v, _, err := d.tx.Get(cf.Default, d.bufferKey())
	if err != nil {
		return nil, err
	}
	if d.Meta.Unmerged > uint64(len(v)/8) {
		return nil, d.corrupt(fmt.Errorf("%w: t-digest buffer of %d bytes, the metadata says %d observations",
			cf.ErrCorrupt, len(v), d.Meta.Unmerged))
	}
	return v[:8*d.Meta.Unmerged], nil
}

// observations returns the observations in the buffer, with capacity for more others.
func (d *Digest) observations(more int) ([]float64, error) {
	v, err := d.buffer()
	if err != nil {
		return nil, err
	}
	list, err := cf.AppendTDigestBuffer(make([]float64, 0, len(v)/8+more), v, uint64(len(v)/8))
	if err != nil {
		return nil, d.corrupt(err)
	}
	return list, nil
}

// centroids returns the centroids ordered by mean. If each is not nil, it is called with the subkey of every centroid.
func (d *Digest) centroids(each func(sub []byte)) ([]Centroid, error) {
	if d.Meta.Merged == 0 && each == nil {
		return nil, nil
	}
	prefix := d.tx.SubkeyPrefix(&d.rec)
	it := d.tx.Iter(cf.Default, engine.IterOptions{
		Prefix: prefix, Lower: cf.AppendTDigestCentroids(slices.Clone(prefix)), Limit: int(min(d.Meta.Merged,
			math.MaxInt32)) + 1,
	})
	defer it.Close()
	list := make([]Centroid, 0, min(d.Meta.Merged, 2*DefaultCompression))
	for it.Next() {
		mean, err := cf.ParseTDigestCentroidSub(it.Key())
		if err != nil {
			return nil, d.corrupt(err)
		}
		weight, err := cf.ParseTDigestWeight(it.Value())
		if err != nil {
			return nil, d.corrupt(err)
		}
		list = append(list, Centroid{mean, weight})
		if each != nil {
			each(it.Key())
		}
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if uint64(len(list)) != d.Meta.Merged {
		return nil, d.corrupt(fmt.Errorf("%w: %d t-digest centroids, the metadata says %d", cf.ErrCorrupt, len(list),
			d.Meta.Merged))
	}
	return list, nil
}

// Sketch returns the t-digest in memory, with the buffer merged. It does not change the t-digest.
func (d *Digest) Sketch() (*Sketch, error) {
	observations, err := d.observations(0)
	if err != nil {
		return nil, err
	}
	list, err := d.centroids(nil)
	if err != nil {
		return nil, err
	}
	d.tx.ReadsDone()
	if len(observations) > 0 {
		list = merge(list, observations, d.Meta.Compression)
	}
	return &Sketch{centroids: list, weight: weightOf(list), min: d.Meta.Min, max: d.Meta.Max}, nil
}

// Add adds observations, which must be finite.
func (d *Digest) Add(values []float64) error {
	if len(values) == 0 {
		return nil
	}
	m := &d.Meta
	n := uint64(len(values))
	if m.TotalWeight+n > maxWeight {
		return ErrOverflow
	}
	var err error
	if m.Unmerged+n <= uint64(m.Capacity) {
		err = d.append(values)
	} else {
		err = d.merge(values)
	}
	if err != nil {
		return err
	}
	m.Observations += n
	m.TotalWeight += n
	m.Min, m.Max = min(m.Min, slices.Min(values)), max(m.Max, slices.Max(values))
	d.save()
	return nil
}

// append appends observations to the buffer.
func (d *Digest) append(values []float64) error {
	old, err := d.buffer()
	if err != nil {
		return err
	}
	var room [8 * maxBuffer]byte // large enough for a full buffer, unless another program made a larger one
	v := append(room[:0], old...)
	for _, f := range values {
		v = cf.AppendDouble(v, f)
	}
	d.tx.LogData(cf.LogTDigest)
	d.tx.Put(cf.Default, d.bufferKey(), v)
	d.Meta.Unmerged += uint64(len(values))
	return nil
}

// merge replaces the centroids and the buffer by new centroids that include more observations.
func (d *Digest) merge(values []float64) error {
	m := &d.Meta
	observations, err := d.observations(len(values))
	if err != nil {
		return err
	}
	var subs []byte // subkeys of the old centroids, concatenated
	var ends []int
	list, err := d.centroids(func(sub []byte) {
		subs = append(subs, sub...)
		ends = append(ends, len(subs))
	})
	if err != nil {
		return err
	}
	list = merge(list, append(observations, values...), m.Compression)
	d.tx.LogData(cf.LogTDigest)
	d.tx.Delete(cf.Default, d.bufferKey())
	from := 0
	for _, to := range ends {
		d.tx.Delete(cf.Default, d.tx.Subkey(&d.rec, subs[from:to]))
		from = to
	}
	d.putCentroids(list)
	m.MergedWeight = m.TotalWeight + uint64(len(values))
	m.Merges++
	return nil
}

// putCentroids writes the centroids, which hold all observations. The caller sets the merged weight, because the sum of
// their weights is not exact beyond 2^53.
func (d *Digest) putCentroids(list []Centroid) {
	var sub [16]byte
	var weight [8]byte
	for i, c := range list {
		key := d.tx.Subkey(&d.rec, cf.AppendTDigestCentroidSub(sub[:0], c.Mean, uint32(i)))
		d.tx.Put(cf.Default, key, cf.AppendDouble(weight[:0], c.Weight))
	}
	d.Meta.Unmerged, d.Meta.Merged = 0, uint64(len(list))
}

// Restore creates a t-digest from centroids ordered by mean, which hold all observations from min to max. The key must
// not exist. Weights are rounded to whole observations in sum.
func Restore(tx *engine.Tx, key []byte, compression uint32, list []Centroid, min, max float64) error {
	rec, err := tx.Load(key, cf.TypeTDigest)
	if err != nil {
		return err
	}
	d := Digest{tx: tx, rec: rec, Meta: cf.NewTDigestMeta(compression, capacityOf(compression))}
	tx.LogData(cf.LogTDigest)
	if len(list) > 0 {
		weight := weightOf(list)
		if !(weight < maxWeight) {
			return ErrOverflow
		}
		m := &d.Meta
		m.Min, m.Max, m.Merges = min, max, 1
		m.TotalWeight = uint64(math.Round(weight))
		m.MergedWeight, m.Observations = m.TotalWeight, m.TotalWeight
		d.putCentroids(list)
	}
	d.save()
	return nil
}

// Reset empties the t-digest. Kvrocks deletes the range of the old records; here a new version makes them unreachable,
// as for a deleted key.
func (d *Digest) Reset() {
	d.Meta = cf.NewTDigestMeta(d.Meta.Compression, d.Meta.Capacity)
	d.tx.LogData(cf.LogTDigest)
	d.tx.NewVersion(&d.rec)
	d.save()
}

// MergeOptions say how t-digests are merged.
type MergeOptions struct {
	// Compression of the result; 0 = that of the destination if it is kept, otherwise the largest one of the sources.
	Compression uint32
	// Override ignores the content of the destination, unless it is also a source.
	Override bool
}

// Merge merges t-digests into destination, which is created if it is missing and loses its expiry. A missing source
// gives [ErrNotFound].
func Merge(tx *engine.Tx, destination []byte, sources [][]byte, o MergeOptions) error {
	var parts []Digest
	compression := o.Compression
	to, err := Open(tx, destination)
	switch {
	case err == ErrNotFound:
	case err != nil:
		return err
	case !o.Override:
		parts = append(parts, to)
		if compression == 0 {
			compression = to.Meta.Compression
		}
	}
	largest := uint32(0)
	for _, key := range sources {
		d, err := Open(tx, key)
		if err != nil {
			return err
		}
		largest = max(largest, d.Meta.Compression)
		parts = append(parts, d)
	}
	if compression == 0 {
		compression = largest
	}
	result := Digest{tx: tx, Meta: cf.NewTDigestMeta(compression, capacityOf(compression))}
	m := &result.Meta
	var all []Centroid
	for i := range parts {
		s, err := parts[i].Sketch()
		if err != nil {
			return err
		}
		all = append(all, s.centroids...)
		p := &parts[i].Meta
		if m.TotalWeight += p.TotalWeight; m.TotalWeight > maxWeight {
			return ErrOverflow
		}
		m.Observations += p.Observations
		m.Min, m.Max = min(m.Min, p.Min), max(m.Max, p.Max)
	}
	list := mergeAll(all, compression)
	tx.LogData(cf.LogTDigest)
	result.rec = tx.Fresh(destination, cf.TypeTDigest)
	result.putCentroids(list)
	m.MergedWeight = m.TotalWeight
	if len(list) > 0 {
		m.Merges = 1
	}
	result.save()
	return nil
}

// Bytes returns the size of the buffer and the centroids in bytes, without keys.
func (d *Digest) Bytes() uint64 { return 8*d.Meta.Unmerged + 16*d.Meta.Merged }
