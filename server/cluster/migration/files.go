package migration

import (
	"bytes"
	"errors"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// The fast path between two basalts for the snapshot of raw-key-value: the records go in the order of the families, so
// that the destination can write them to table files, which it ingests at the end.
//
//	source                                      destination
//	_ingest BEGIN                       ----->  refuses while its log is followed: APPLYBATCH then
//	_ingest RECORDS batch ...           ----->  checks the records, writes table files
//	_ingest END                         ----->  ingests the table files, all or none
//
// It saves the destination its log, memtables, flushes and most of the work for each key. What is written meanwhile
// follows by APPLYBATCH in any case.

const needsFiles = "_ingest"

var ingestRecords = [][]byte{[]byte(needsFiles), []byte("RECORDS")}

// filesBatch is how many times larger batches are than with APPLYBATCH: they hold no locks, and waking the peers costs
// as much as the records. maxFilesBatch bounds that.
const (
	filesBatch    = 16
	maxFilesBatch = 1 << 20
)

// filesFrom is how many bytes a range must have to go by table files: for less, the files would be many and small.
const filesFrom = 32 << 20

// byFiles reports whether the snapshot goes by table files, for which the destination is ready then.
func (j *job) byFiles() (bool, error) {
	if !j.knows.commands[needsFiles] {
		return false, nil
	}
	lower, upper := engine.SlotBounds(j.slots)
	size := uint64(0)
	for _, id := range fileFamilies {
		size += j.DB.ApproximateSize(id, lower, upper)
	}
	if size < j.FilesFrom {
		return false, nil
	}
	_, err := j.peer.do(needsFiles, "BEGIN")
	var refused replyError
	if errors.As(err, &refused) {
		j.log.Info("the destination takes no table files: migrating by batches", zap.Error(err))
		return false, nil
	}
	if err == nil {
		j.log.Info("migrating by table files")
	}
	return err == nil, err
}

// fileFamilies hold the records of slots, in the order in which they are sent.
var fileFamilies = [...]cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream}

// sendFiles sends the snapshot for table files: the metadata records by calls of metadata, and all others.
func (j *job) sendFiles(s *rawSender, metadata func(k *key) error) error {
	s.command, s.times = ingestRecords, filesBatch
	defer func() { s.command, s.times = applyBatch, 1 }()
	if err := j.base.each(j.slots, metadata); err != nil {
		return err
	}
	for _, id := range fileFamilies[1:] {
		err := j.base.subkeys(id, j.slots, func(key, value []byte) error {
			return s.put(id, key, value, nil)
		})
		if err != nil {
			return err
		}
	}
	if err := s.finish(); err != nil {
		return err
	}
	if err := j.check(); err != nil {
		return err
	}
	_, err := j.peer.do(needsFiles, "END")
	return err
}

// subkeys calls f for the records of a family that belong to live keys of a range of slots, in their order.
func (r *reader) subkeys(id cf.ID, slots cf.SlotRange, f func(key, value []byte) error) error {
	lower, upper := engine.SlotBounds(slots)
	r.subs.Begin(cf.DefaultNamespace)
	defer r.subs.Release()
	it := r.subs.Iter(id, engine.IterOptions{Lower: lower, Upper: upper, Snapshot: r.snap, NoFill: true})
	defer it.Close()
	var prefix, nsKey []byte // of the collection at hand
	wanted := false
	for it.Next() {
		if len(prefix) == 0 || !bytes.HasPrefix(it.Key(), prefix) {
			sub, err := cf.ParseSubkey(it.Key(), true)
			if err != nil {
				return err
			}
			prefix = append(prefix[:0], it.Key()[:len(it.Key())-len(sub.Sub)]...)
			if nsKey, err = cf.AppendNSKeyOf(nsKey[:0], prefix, true); err != nil {
				return err
			}
			k, err := r.find(nsKey)
			if err != nil {
				return err
			}
			own, holds := cf.ID(0), false
			if k != nil {
				own, holds = subFamily(k.meta.Type)
			}
			wanted = holds && k.meta.Version == sub.Version &&
				(own == id || id == cf.ZSetScore && k.meta.Type == cf.TypeZSet)
		}
		if !wanted {
			continue
		}
		if err := f(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return it.Err()
}
