package command

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/wire"
)

// ReplyMode is the mode of CLIENT REPLY.
type ReplyMode uint8

// The modes of CLIENT REPLY.
const (
	ReplyOn   ReplyMode = iota
	ReplyOff            // no replies until ReplyOn
	ReplySkip           // CLIENT REPLY SKIP has just been run: its own reply is dropped, and the next one
	ReplySkipNext
)

// Session is the state of a connection that handlers see and change. Only the connection's goroutine uses it; the
// part visible to other goroutines is in ClientInfo. Commands that change it are Solo.
type Session struct {
	ID          int64
	Addr, LAddr string // of the client and of this server, host:port
	Local       bool   // the client is on this host
	Namespace   string
	Authorized  bool // has authenticated, or no password is set
	Admin       bool // may run administrative commands
	Proto       int  // 2 or 3; changed by Control.SetProto
	Name        string
	LibName     string
	LibVer      string
	User        string
	Account     *accounts.Account // the authenticated user; nil = everything is permitted, once authorized
	ReplyMode   ReplyMode
	NoEvict     bool
	NoTouch     bool
	Replica     proto.Conf // what REPLCONF has said
	Control     Control

	// These fields decide, in a cluster, where a command runs: READONLY was sent; ASKING was sent just before; the
	// connection comes from a node that migrates slots to this node, see Cluster.Import.
	ReadOnly, Asking, Importing bool

	// Relayed: the messages that are published come from another node of the cluster, which passes them on itself.
	Relayed bool
}

// Control is the set of operations of a handler on its own connection.
type Control interface {
	// CloseAfterReply closes the connection once the reply was sent.
	CloseAfterReply()
	// SetProto switches between RESP2 and RESP3.
	SetProto(version int)
	// Done is closed when the connection or the server is being closed: a waiting handler gives up then.
	Done() <-chan struct{}
	// OnEnd registers a function that is called when the last command of the connection has ended, in its goroutine.
	// kill ends the connection without waiting for that; any goroutine may call it.
	OnEnd(f func()) (kill func())

	// Detach makes f the owner of the connection: after the replies of this run of commands were sent, the session
	// ends, and f is called in its goroutine. The bytes that the client has sent after this command are the input of
	// the connection. From then on CLIENT LIST shows the connection as a replica, and no limit of the settings
	// applies to it. When f returns, the connection is closed once everything was sent.
	//
	// f returns when a read or write fails, as after CLIENT KILL, and when Done is closed. (The handler asks for Done
	// before it returns: f must not use the Control, which no longer belongs to it.) A read that ends with
	// os.ErrDeadlineExceeded without a deadline of f's own may be repeated, if Done is not closed.
	//
	// Only a command with the flags Solo, Waits, NoMulti and NoScript may call it.
	Detach(f func(*wire.Conn))

	// RunAgain makes the running command, or the transaction or script that calls it, run again with the lock of one
	// more key, which is not among its arguments. The handler returns the error, and so has no effect.
	RunAgain(key []byte) error

	// InMulti reports whether commands are being queued for EXEC.
	InMulti() bool
	// BeginMulti begins to queue commands.
	BeginMulti()
	// Exec runs the queued commands and writes the reply.
	Exec() error
	// Discard drops the queued commands and the watched keys.
	Discard()
	// Watch adds keys to the watched keys: if one of them changes, the next EXEC does nothing.
	Watch(keys [][]byte) error
	// Unwatch drops the watched keys.
	Unwatch()

	// Pause makes the clients wait with their writes, or with all commands. When it returns, no write is under way;
	// inside EXEC this holds when EXEC replies. It is refused while a slow script runs.
	Pause(d time.Duration, all bool) error

	// ApplyBatch checks a write batch of RocksDB's that another server has made, and commits it. With yield it lets
	// other clients write first when RocksDB cannot keep up.
	ApplyBatch(batch []byte, yield bool) error

	// Subscribe subscribes to a channel or pattern. It calls confirm, which writes the confirmation, with the new
	// number of subscriptions: to channels and patterns, or to shard channels. Unsubscribe ends a subscription and
	// returns how many are left.
	Subscribe(kind SubscriptionKind, name []byte, confirm func(count int))
	Unsubscribe(kind SubscriptionKind, name []byte) int
	// UnsubscribeAll ends all subscriptions.
	UnsubscribeAll()
	// Subscriptions returns the names that the connection is subscribed to, in order of subscription.
	Subscriptions(kind SubscriptionKind) []string
	// Subscribed reports whether any subscription exists.
	Subscribed() bool
	// Publish sends a message and returns how many clients receive it.
	Publish(channel, message []byte, shard bool) int

	// Monitor makes the connection see the commands of all clients; StopMonitor ends it.
	Monitor() bool
	StopMonitor()

	// Track switches tracking on, or changes its options; Untrack switches it off.
	Track(how Tracking)
	Untrack()
	// Tracked returns the tracking options of the connection, nil = tracking is off, and whether the connection that
	// messages are redirected to is gone.
	Tracked() (how *Tracking, broken bool)
	// SetCaching says whether the keys of the next command are tracked; Caching returns the answer: 1 = yes, -1 = no,
	// 0 = nothing.
	SetCaching(yes bool)
	Caching() int

	// Eval runs a script in the transaction that is under way, and writes its reply.
	Eval(s ScriptCall) error

	// Update runs f in a transaction of its own, with the write locks of some keys, or of all keys, held; the
	// transaction is committed if f returns no error. It is for Solo commands that write in pieces, so that other
	// clients can run in between; after an error nothing of the piece is written.
	Update(keys [][]byte, all bool, f func(tx *engine.Tx) error) error

	// Block blocks the client. The handler has written no reply and holds the locks of the keys.
	Block(w Wait) error
}

// SetIdentity gives the session the rights of an identity.
func (s *Session) SetIdentity(id Identity) {
	s.Namespace, s.Admin, s.Authorized, s.User, s.Account = id.Namespace, id.Admin, true, defaultUser, id.Account
	if id.Account != nil {
		s.User = id.Account.User().Name()
	}
}

// DropReply reports whether the reply of the last command must be dropped, and advances the mode.
func (s *Session) DropReply() bool {
	switch s.ReplyMode {
	case ReplyOff:
		return true
	case ReplySkip:
		s.ReplyMode = ReplySkipNext
		return true
	case ReplySkipNext:
		s.ReplyMode = ReplyOn
		return true
	}
	return false
}
