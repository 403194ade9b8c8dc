// Package history identifies the history that a write belongs to. Databases that share a history have the same writes
// up to some sequence number. A history has a replication id, which every write carries at its end in the log.
package history

import (
	"crypto/rand"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
)

func NewID() string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	id := make([]byte, 0, cf.ReplicationIDLen)
	for len(id) < cf.ReplicationIDLen {
		var b [cf.ReplicationIDLen]byte
		rand.Read(b[:])
		for _, x := range b {
			if int(x) < 256/len(letters)*len(letters) && len(id) < cf.ReplicationIDLen { // all letters equally often
				id = append(id, letters[int(x)%len(letters)])
			}
		}
	}
	return string(id)
}

// IDBefore returns the replication id of the write before a sequence number, or of the first write in the log; "" = it
// has none. known is false when neither the log nor the database tells.
//
// The log tells. If the write has no id there, because use-rsid-psync was off, or if the log was deleted behind the
// newest write, then the id counts that the database holds. It is part of the data, so replicas hold the same.
func IDBefore(db *engine.DB, next uint64) (id string, known bool, err error) {
	id, logged := idInLog(db, next)
	if id != "" || !logged && next != db.LatestSequence()+1 {
		return id, id != "", nil
	}
	id, err = db.StoredReplicationID()
	if !logged && next != db.LatestSequence()+1 {
		return "", false, err // a write that came meanwhile may have stored the id of a new history
	}
	return id, err == nil, err
}

// idInLog returns the replication id of the write before a sequence number, or of the first write in the log; "" = it
// has none. logged is false when the log does not contain the write.
func idInLog(db *engine.DB, next uint64) (id string, logged bool) {
	last := max(next, 1) - 1
	log, err := db.WAL(last)
	if err != nil {
		return "", false
	}
	defer log.Close()
	rep, _, err := log.Next()
	if err != nil || rep == nil {
		return "", false
	}
	return idOf(rep, last), true
}

// idOf returns the replication id of the write with a sequence number. Each write ends with its id. A batch of the log
// may contain several writes: of a group commit, or in the log of a replica.
func idOf(rep []byte, seq uint64) (id string) {
	r, err := batch.NewReader(rep)
	if err != nil {
		return ""
	}
	for at := r.Sequence(); ; {
		rec, ok := r.Next()
		switch {
		case !ok:
			return id
		case rec.Kind.Counted():
			at++
		case rec.Kind == batch.LogData:
			if found, err := cf.ParseLogData(rec.Value); err == nil && found != nil {
				if id = string(found); at > seq {
					return id
				}
			}
		}
	}
}
