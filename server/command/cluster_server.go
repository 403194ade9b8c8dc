package command

import "github.com/basaltdb/basalt/cf"

// Cluster is the topology of the cluster, and the operations that change it.
type Cluster interface {
	// Version is the version of the topology, -1 without a topology. ID is the ID of this node, "" = none.
	Version() int64
	ID() string
	// SetNodeID, SetNodes and SetSlots are CLUSTERX SETNODEID, SETNODES and SETSLOT.
	SetNodeID(id string) error
	SetNodes(text []byte, version int64, force bool) error
	SetSlots(ranges []cf.SlotRange, id string, version int64) error
	// FlushSlots deletes the keys of slots.
	FlushSlots(ranges []cf.SlotRange) error
	// Reset is CLUSTER RESET.
	Reset() error

	// Migrate begins to move a range of slots from this node to another one. If the migration has begun, and done is
	// not nil, done is called once with the result.
	Migrate(r cf.SlotRange, id string, done func(error)) error
	// Import is sent by the source of a migration to its destination.
	Import(sess *Session, r cf.SlotRange, state ImportState) error
	Ingester

	// MayWrite returns why this node does not write a key, nil = it does. The lock of the key must be held.
	MayWrite(key []byte) error
	// Nodes, Info and Replicas return the replies of CLUSTER NODES, INFO and REPLICAS.
	Nodes() (string, error)
	Info() (string, error)
	Replicas(id string) (string, error)
	// Shards returns the masters with their slots and replicas.
	Shards() ([]Shard, error)
}

// ImportState is the state of a migration, as CLUSTER IMPORT has it.
type ImportState int

// The states.
const (
	ImportStart ImportState = iota
	ImportSuccess
	ImportFailed
	ImportNone
	// ImportVerify, which Kvrocks lacks: the source is a basalt and must be asked at the end. See package migration.
	ImportVerify ImportState = 64
	// ImportConfirm: the source sends clients here from now on, and need not be asked.
	ImportConfirm ImportState = 65
)

// Ingester brings records into the database as table files.
type Ingester interface {
	// Ingest is a step of that. In a cluster the source of a migration sends it that has begun an import on this
	// connection. records is a write batch for IngestRecords.
	Ingest(sess *Session, step IngestStep, records []byte) error
}

// FileLoader brings table files into the database that somebody else has made.
type FileLoader interface {
	// LoadFiles brings those of a directory, all or none, and returns their number. With move they are gone afterwards.
	LoadFiles(sess *Session, dir string, move bool) (n int, err error)
}

// IngestStep is a step of bringing records into the database as table files.
type IngestStep int

// The steps.
const (
	IngestBegin IngestStep = iota
	IngestRecords
	IngestEnd
)

// Shard is a master with its slots and its replicas.
type Shard struct {
	Slots []cf.SlotRange
	Nodes []ShardNode // the master is the first
}

// ShardNode is a node of a shard.
type ShardNode struct {
	ID, Host string
	Port     int
	Replica  bool
	Failed   bool
}
