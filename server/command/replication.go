package command

import (
	"errors"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/wire"
)

// Replication is the server's part in replication. The methods that take a connection own it until they return, and
// close it; done is closed when the connection or the server is being closed.
type Replication interface {
	// Role returns the present role of the server.
	Role() Role
	IsReplica() bool
	// Follow makes the server the replica of a master. It does not wait for the link.
	Follow(host string, port int) error
	// Disconnect closes the connection to the master, which is made again, or to the master of an address unless it is
	// empty. It reports whether there was such a connection.
	Disconnect(addr string) bool
	// Accept checks whether a replica can continue from its sequence number. Its errors are replies.
	Accept(p proto.PSync) error
	// Feed sends a replica, which Accept has accepted, everything from a sequence number on.
	Feed(c *wire.Conn, done <-chan struct{}, sess *Session, p proto.PSync)
	// SendList sends a replica the names of the files of a checkpoint, SendFiles the content of some of them.
	SendList(c *wire.Conn, done <-chan struct{})
	SendFiles(c *wire.Conn, done <-chan struct{}, list []byte)
	// SendRDB sends a client of Redis the data as an RDB file, in the form that it has announced.
	SendRDB(c *wire.Conn, done <-chan struct{}, sess *Session)
	// AckedBy returns how many replicas have acknowledged a sequence number. AskAck asks them to do so soon.
	AckedBy(seq uint64) int
	AskAck(seq uint64)
	// SyncedBy and AskSync are the same for what is on the disks of replicas.
	SyncedBy(seq uint64) int
	AskSync(seq uint64)
	// Failover begins to swap roles with a replica, AbortFailover cancels that.
	Failover(f Failover) error
	AbortFailover() error
}

// Role is the reply of ROLE.
type Role struct {
	Offset   uint64        // the sequence number of the newest write
	Replicas []ReplicaRole // the connected replicas
	Replica  bool          // the server is a replica itself, of the following master
	Host     string
	Port     int
	State    string // of the link: connect, connecting, sync, connected
}

// ReplicaRole is a replica as shown by ROLE and INFO of its master.
type ReplicaRole struct {
	IP     string
	Port   int    // port that the replica listens on, 0 = unknown
	Offset uint64 // acknowledged; or sent, if the replica does not acknowledge
}

// detaching are the flags of commands that hand over their connection.
const detaching = Solo | Waits | NoMulti | NoScript | Admin | NoAsyncLoading

// The commands that a replica of Kvrocks sends to its master, and SYNC of Redis. As in Kvrocks 2.16, the commands that
// return data are for administrators.
var replicationCommands = []Spec{
	{Name: "_db_name", Handler: dbName, Arity: 1, Flags: Solo | Admin | NoScript | NoMulti},
	{Name: "replconf", Handler: replConf, Arity: -3,
		Flags: Solo | Admin | NoScript | NoMulti | Loading | Stale},
	{Name: "sync", Handler: syncRDB, Arity: 1, Flags: detaching | AdminOnly},
	{Name: "psync", Handler: psync, Arity: -2, Flags: detaching | AdminOnly},
	{Name: "_fetch_meta", Handler: fetchMeta, Arity: 1, Flags: detaching | AdminOnly},
	{Name: "_fetch_file", Handler: fetchFile, Arity: 2, Flags: detaching | AdminOnly},
}

// dbName replies with a line that is not RESP.
func dbName(c *Ctx) error {
	name, _ := c.Srv.Settings.Get("db-name")
	c.Out.Raw(proto.AppendName(nil, name))
	return nil
}

func replConf(c *Ctx) error {
	if err := proto.ParseConf(&c.Sess.Replica, c.Args[1:]); err != nil {
		return syncError(err)
	}
	return replyOK(c, nil)
}

// psync is PSYNC [replication-id] sequence. The reply is sent by the new owner of the connection.
func psync(c *Ctx) error {
	p, err := proto.ParsePSync(c.Args[1:])
	if err == nil {
		err = c.Srv.Replication.Accept(p)
	}
	if err != nil {
		return syncError(err)
	}
	r, sess, done := c.Srv.Replication, c.Sess, c.Sess.Control.Done()
	sess.Control.Detach(func(conn *wire.Conn) { r.Feed(conn, done, sess, p) })
	return nil
}

var errNoMasterLink = engine.NewError("NOMASTERLINK", "Can't SYNC while not connected with my master")

// syncRDB is SYNC of a client that wants a copy of the data only, such as redis-cli --rdb. No stream of writes follows
// in the form of Redis.
func syncRDB(c *Ctx) error {
	r, sess, done := c.Srv.Replication, c.Sess, c.Sess.Control.Done()
	if sess.Replica.WantsStream() {
		return syncError(proto.ErrRedis)
	}
	if role := r.Role(); role.Replica && role.State != "connected" {
		return errNoMasterLink
	}
	sess.Control.Detach(func(conn *wire.Conn) { r.SendRDB(conn, done, sess) })
	return nil
}

func fetchMeta(c *Ctx) error {
	r, control := c.Srv.Replication, c.Sess.Control
	done := control.Done()
	control.Detach(func(conn *wire.Conn) { r.SendList(conn, done) })
	return nil
}

func fetchFile(c *Ctx) error {
	r, control, list := c.Srv.Replication, c.Sess.Control, append([]byte(nil), c.Args[1]...)
	done := control.Done()
	control.Detach(func(conn *wire.Conn) { r.SendFiles(conn, done, list) })
	return nil
}

// syncError is the reply of an error; errors of the protocol have no code.
func syncError(err error) error {
	if p := proto.Error(""); errors.As(err, &p) {
		return engine.NewError("ERR", string(p))
	}
	return err
}
