package carry

import (
	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
	"github.com/basaltdb/basalt/server/cluster/peer"
)

// The fast path between two basalts for the snapshot of raw-key-value: the records go in the order of the families, so
// that the destination can write them to table files, which it ingests at the end.
//
//	source                                      destination
//	_ingest BEGIN                       ----->  refuses while its log is followed: APPLYBATCH then
//	_ingest RECORDS batch ...           ----->  checks the records, writes table files
//	_ingest END                         ----->  ingests the table files, all or none
//
// It saves the destination the log, memtables, flushes and most of the work for each key. Writes made meanwhile always
// follow by APPLYBATCH.

const ingest = "_ingest"

var ingestRecords = [][]byte{[]byte(ingest), []byte("RECORDS")}

// filesBatch is the factor by which these batches are larger than those of APPLYBATCH: they hold no locks, and waking
// the peers costs as much as the records. maxFilesBatch is the upper bound.
const (
	filesBatch    = 16
	maxFilesBatch = 1 << 20
)

// FilesFrom is the min size in bytes of a range that goes by table files: a smaller range would make many small files.
// Tests lower it.
var FilesFrom uint64 = 32 << 20

// fileFamilies are the column families with records of slots, in the order in which they are sent.
var fileFamilies = [...]cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream}

// BeginFiles reports whether the snapshot goes by table files. If so, the destination is ready for them.
func (s *Raw) BeginFiles(base *slotdata.Reader, slots cf.SlotRange, log *zap.Logger) (bool, error) {
	if !s.Knows.commands[ingest] {
		return false, nil
	}
	size := uint64(0)
	for _, id := range fileFamilies {
		size += base.Size(id, slots)
	}
	if size < FilesFrom {
		return false, nil
	}
	_, err := s.Peer.Do(ingest, "BEGIN")
	if peer.IsReply(err) {
		log.Info("the destination takes no table files: migrating by batches", zap.Error(err))
		return false, nil
	}
	if err == nil {
		log.Info("migrating by table files")
	}
	return err == nil, err
}

// SendFiles sends a snapshot for table files. It calls before with each key.
func (s *Raw) SendFiles(base *slotdata.Reader, slots cf.SlotRange, before func(k *slotdata.Key) error) error {
	s.command, s.times = ingestRecords, filesBatch
	defer func() { s.command, s.times = applyBatch, 1 }()
	err := base.Each(slots, func(k *slotdata.Key) error {
		if err := before(k); err != nil {
			return err
		}
		return s.metadata(k)
	})
	if err != nil {
		return err
	}
	for _, id := range fileFamilies[1:] {
		err := base.Subkeys(id, slots, func(key, value []byte) error { return s.put(id, key, value, nil) })
		if err != nil {
			return err
		}
	}
	if err := s.Flush(); err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	_, err = s.Peer.Do(ingest, "END")
	return err
}
