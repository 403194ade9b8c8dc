package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

const (
	// slotSample is the number of metadata records from which checkSlots infers whether keys carry the cluster slot. A
	// key without a slot seems to have its own slot in one of 16384 cases.
	slotSample = 16
	// slotSampleLarge is slotSample when reading the records takes long: the metadata record of a string is its value.
	slotSampleLarge = 2
	// slotLarge is from how many bytes on, on average, records are large.
	slotLarge = 1 << 20
	// slotFiles is the max number of table files in whose bounds checkSlots looks for keys.
	slotFiles = 64
)

// slotSkip is the max number of tombstones that are skipped to find a record. Beyond them the form is unknown, and the
// setting is trusted.
const slotSkip = 1 << 16

// checkSlots compares the form of the keys with Options.Slots, which the format does not record. In the wrong form
// every key seems to be missing, and keys that are written are missing once the database is opened in the right form.
//
// A key that does not begin with its own slot proves the plain form. Two or more keys that begin with their slots are
// accepted as proof of the other form.
//
// The bounds of the table files are examined first, because they are known without reading a record: 16 records with
// values of 512 MiB took 13 s. Small records are read as well, until slotSample keys are known.
func (db *DB) checkSlots() error {
	keys, size := db.boundKeys()
	plain := false
	for key := range keys {
		plain = plain || !ownSlot([]byte(key))
	}
	sample := slotSample
	if size >= slotLarge {
		sample = slotSampleLarge
	}
	if !plain && len(keys) < sample {
		var err error
		if plain, err = db.readSlots(keys, sample); err != nil {
			return err
		}
	}
	switch {
	case db.slots && plain:
		return fmt.Errorf("%w: they do not carry the cluster slot: %s", ErrSlots, db.dir)
	case !db.slots && !plain && len(keys) > 1:
		return fmt.Errorf("%w: they carry the cluster slot: %s", ErrSlots, db.dir)
	}
	return nil
}

// readSlots adds the keys of the first metadata records to keys until it has sample keys, and reports whether it has
// met one that does not begin with its own slot.
func (db *DB) readSlots(keys map[string]bool, sample int) (plain bool, err error) {
	tx := db.NewTx()
	tx.Begin("")
	defer tx.Release()
	it := tx.Iter(cf.Metadata, IterOptions{KeysOnly: true, Limit: sample, NoFill: true, MaxSkip: slotSkip})
	defer it.Close()
	for len(keys) < sample && !plain && it.Next() {
		keys[string(it.Key())] = true
		plain = !ownSlot(it.Key())
	}
	if err := it.Err(); err != nil && !incomplete(err) {
		return false, err
	}
	return plain, nil
}

// ownSlot reports whether a key of the metadata family begins with its own slot.
func ownSlot(key []byte) bool {
	_, userKey, err := cf.SplitNSKey(key, true)
	return err == nil && binary.BigEndian.Uint16(key[len(key)-len(userKey)-2:]) == cf.Slot(userKey)
}

// boundKeys returns up to slotSample keys of metadata records that certainly exist, and how many bytes a record has on
// average, 0 = unknown. It reads no record: the keys are bounds of table files. The key of a tombstone may be a bound,
// and a tombstone may delete the record of a bound, so bounds are left out where any file of that range has tombstones.
func (db *DB) boundKeys() (keys map[string]bool, size uint64) {
	keys = map[string]bool{}
	family := db.fam[cf.Metadata]
	var bytes, entries uint64
	var bounds [][]byte
	for _, f := range db.rocks.LiveFiles() {
		if f.ColumnFamilyName != family.Name {
			continue
		}
		if f.Entries > 0 { // otherwise RocksDB has not looked
			bytes += uint64(f.Size)
			entries += f.Entries
		}
		bounds = append(bounds, f.SmallestKey, f.LargestKey)
	}
	size = bytes / max(entries, 1)
	for _, kind := range []string{"active-mem-table", "imm-mem-tables"} {
		n, ok := db.rocks.IntProperty(family, "rocksdb.num-entries-"+kind)
		if !ok || n > 0 {
			return keys, size // tombstones may be among them; there are none after the recovery
		}
	}
	for _, key := range bounds[:min(len(bounds), 2*slotFiles)] {
		if len(keys) == slotSample {
			break
		}
		if n, err := db.rocks.DeletesAt(family, key); err == nil && n == 0 {
			keys[string(key)] = true
		}
	}
	return keys, size
}
