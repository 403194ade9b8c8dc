package keys

import (
	"crypto/sha1"
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Size returns the approximate size of a key's records in bytes: keys and values, without file overhead and
// compression. Of a collection with more than samples elements it reads the first samples elements and extrapolates;
// samples 0 reads all. exists is false when the key does not exist.
func Size(tx *engine.Tx, key []byte, samples uint64) (bytes uint64, exists bool, err error) {
	rec, err := tx.LoadHead(key)
	if err != nil || !rec.Exists {
		return 0, false, err
	}
	bytes = metaSize(&rec)
	if rec.Type.SingleRecord() {
		return bytes, true, nil
	}
	prefix := tx.SubkeyPrefix(&rec)
	o := engine.IterOptions{Prefix: prefix, Limit: int(min(samples, fillMax)), NoFill: samples == 0 || samples > fillMax}
	it := tx.Iter(rec.Type.Family(), o)
	defer it.Close()
	var n, sum uint64
	for (samples == 0 || n < samples) && it.Next() {
		n++
		one := uint64(len(prefix) + len(it.Key()) + len(it.Value()))
		if rec.Type == cf.TypeZSet { // the index repeats each element, with the score in the key
			one *= 2
		}
		sum += one
	}
	if n > 0 && n == samples {
		// The size of a bitmap is in bytes; records returns its number of subkeys.
		sum = uint64(float64(sum) / float64(n) * float64(max(records(&rec), n)))
	}
	return bytes + sum, true, it.Err()
}

func metaSize(rec *engine.Record) uint64 {
	return uint64(len(rec.NSKey()) + len(rec.Meta.Append(nil)) + len(rec.Tail) + rec.Rest)
}

// bitmapPart is how many bytes of a bitmap one record holds.
const bitmapPart = 1024

// records returns the approximate number of subkeys of a key.
func records(rec *engine.Record) uint64 {
	if rec.Type == cf.TypeBitmap {
		return (rec.Size + bitmapPart - 1) / bitmapPart
	}
	return rec.Size
}

// DiskUsage returns RocksDB's estimate of how many bytes a key occupies in files and memtables. Replaced records that
// are not dropped yet count too.
func DiskUsage(tx *engine.Tx, key []byte) (bytes uint64, exists bool, err error) {
	rec, err := tx.LoadHead(key)
	if err != nil || !rec.Exists {
		return 0, false, err
	}
	db := tx.DB()
	if rec.Type.SingleRecord() {
		return max(db.ApproximateSize(cf.Metadata, rec.NSKey(), append(append([]byte(nil), rec.NSKey()...), 0)),
			metaSize(&rec)), true, nil
	}
	prefix := tx.SubkeyPrefix(&rec)
	end, ok := cf.AppendSuccessor(nil, prefix)
	if !ok {
		return 0, true, nil
	}
	bytes = db.ApproximateSize(rec.Type.Family(), prefix, end)
	if rec.Type == cf.TypeZSet {
		bytes += db.ApproximateSize(cf.ZSetScore, prefix, end)
	}
	return bytes, true, nil
}

// Digest returns a SHA-1 digest of what a key holds: its type, whether it expires, and its elements, independent of the
// order in which they were written. Equal content has equal digests in every database; a missing key gives all zeros.
func Digest(tx *engine.Tx, key []byte) (d [sha1.Size]byte, err error) {
	rec, err := tx.LoadHead(key)
	if err != nil || !rec.Exists {
		return d, err
	}
	head := sha1.New()
	head.Write([]byte{byte(rec.Type)})
	if rec.Expire != 0 {
		head.Write([]byte("expires"))
	}
	if rec.Type.SingleRecord() {
		head.Write(rec.Tail)
	} else {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], rec.Size)
		head.Write(size[:])
	}
	head.Sum(d[:0])
	if rec.Type.SingleRecord() {
		return d, nil
	}
	it := tx.Iter(rec.Type.Family(), engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec), NoFill: rec.Size > fillMax})
	defer it.Close()
	var n uint64
	for it.Next() {
		one := sha1.New()
		sub := it.Key()
		var at [8]byte
		if rec.Type == cf.TypeList { // the subkeys depend on where the list's indexes began
			binary.BigEndian.PutUint64(at[:], n)
			sub = at[:]
		}
		n++
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(sub)))
		one.Write(length[:])
		one.Write(sub)
		one.Write(it.Value())
		xor(&d, one.Sum(nil))
	}
	return d, it.Err()
}

// DigestAll returns a digest of all keys of the namespace and their content; all zeros when no key exists.
func DigestAll(tx *engine.Tx) (d [sha1.Size]byte, err error) {
	walkErr := Walk(tx, Range{}, func(e *Entry) bool {
		if !e.Live {
			return true
		}
		var value [sha1.Size]byte
		key := append([]byte(nil), e.Key...)
		if value, err = Digest(tx, key); err != nil {
			return false
		}
		sum := sha1.Sum(append(value[:], key...))
		xor(&d, sum[:])
		return true
	})
	if err == nil {
		err = walkErr
	}
	return d, err
}

func xor(d *[sha1.Size]byte, with []byte) {
	for i := range d {
		d[i] ^= with[i]
	}
}
