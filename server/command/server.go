package command

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/server/acl/accounts"
)

// Server is the part of the server that handlers need: the database, the table of the commands, and the services of
// other packages. The server fills it in before the first command; a test fills in what its handlers use. The methods
// may be called by several goroutines. The errors that they return are replies.
type Server struct {
	DB *engine.DB
	// Table has the commands that clients can call, with their names.
	Table *Table

	Settings    Settings
	Users       Users
	Namespaces  Namespaces
	Scripts     Scripts
	Clients     Clients
	PubSub      Subscriptions
	SlowLog     Log[SlowEntry]
	PerfLog     Log[PerfEntry]
	Latency     Latency
	Stats       Stats
	Debug       Debug
	Memory      Memory
	Info        Info
	Maintenance Maintenance
	Replication Replication
	Indexes     *search.Registry // nil = none exist
	Cluster     Cluster          // nil = cluster-enabled is off
	Ingester    Ingester
	Files       FileLoader // nil in cluster mode

	// KeyspaceChanged is called after a flush or an exchange of databases is committed: clients may wait for keys, and
	// such a command names none to find them by. It must not wait for a lock. nil = no client waits.
	KeyspaceChanged func()
}

// Settings is the configuration.
type Settings interface {
	// MaxBulk is proto-max-bulk-len: the longest string, in bytes, that a command may make.
	MaxBulk() int64
	// Databases is redis-databases: the number of databases, 0 = only database 0, and namespaces may exist.
	Databases() int64
	// Get returns the text of a setting as CONFIG GET shows it; ok is false when the setting does not exist.
	Get(name string) (value string, ok bool)
	// Match returns the settings whose names match, sorted by name.
	Match(match func(name string) bool) []Setting
	// Set changes settings for a session, all or, with an error, none.
	Set(sess *Session, s []Setting) error
	// Rewrite writes the settings to the configuration file.
	Rewrite() error
	// BecomeMaster removes the master from the settings.
	BecomeMaster() error
}

// Users decides which clients may connect.
type Users interface {
	// ACL returns the users and their permissions.
	ACL() *accounts.Store
	// PasswordRequired reports whether a client must authenticate.
	PasswordRequired() bool
	// Authenticate returns the identity for a name and a password. The tokens of namespaces have the name default. It
	// takes as long for a wrong password as for a right one.
	Authenticate(user, password []byte) (id Identity, ok bool)
	// Anonymous returns the identity of an unauthenticated client; ok is false when the client must authenticate.
	Anonymous() (id Identity, ok bool)
	// AuthFailed notes that an authentication by the command of this name has failed.
	AuthFailed(s *Session, command string, user []byte)
}

// Namespaces are the namespaces with their tokens. A change outlives the process.
type Namespaces interface {
	// List returns the namespaces sorted by their tokens; the default namespace, with requirepass, is last.
	List() []Namespace
	// Add adds a namespace.
	Add(name, token string) error
	// Set adds a namespace or replaces its token.
	Set(name, token string) error
	// Delete removes a namespace.
	Delete(name string) error
}

// Clients are the connections.
type Clients interface {
	// List returns the connections sorted by their ids.
	List() []ClientInfo
	// Close closes another connection; the command that it may be running is finished first. It reports whether the
	// connection existed.
	Close(id int64) bool
	// Unblock ends the wait of another connection, with the reply for a timeout or with an error. It reports whether
	// that connection was waiting.
	Unblock(id int64, withError bool) bool
	// Unpause ends the pause of Control.Pause.
	Unpause()
}

// Subscriptions returns who is subscribed to what.
type Subscriptions interface {
	// Channels returns the channels or shard channels that have subscribers and match; nil matches all.
	Channels(kind SubscriptionKind, match func(name []byte) bool) []string
	// Subscribers returns how many clients are subscribed to a channel.
	Subscribers(kind SubscriptionKind, name []byte) int
	// Topics returns how many different channels or patterns have subscribers.
	Topics(kind SubscriptionKind) int
}

// Log is a log of commands, such as the slow log.
type Log[Entry any] interface {
	// Newest returns up to n entries, newest first; n < 0 = all.
	Newest(n int) []Entry
	Len() int
	Reset()
}

// Latency is the latency monitor: events that took longer than latency-monitor-threshold.
type Latency interface {
	// Events returns the recorded events whose names match, sorted by name; nil matches all.
	Events(match func(name string) bool) []LatencyEvent
	// Reset deletes the events with these names, without names all events, and returns how many.
	Reset(names ...string) int
}

// Stats are the server's counters of commands.
type Stats interface {
	// Latencies returns the latency histogram of a command (number of calls by upper bound in microseconds), and the
	// number of measured calls; ok is false when no call was measured.
	Latencies(s *Spec) (usec, counts []int64, calls int64, ok bool)
	// Frequency is OBJECT FREQ: about how often a key is accessed, 0 to 255 on the scale of Redis's LFU counter.
	Frequency(namespace string, key []byte) int64
	// Reset is CONFIG RESETSTAT.
	Reset()
}

// Debug is the part of the server that DEBUG changes.
type Debug interface {
	// Log writes a line to the log.
	Log(line string)
	// SetFull lets the server behave as if max-db-size were reached, or not.
	SetFull(full bool)
	// AllowDebugInScripts lets scripts call DEBUG PROTOCOL and DEBUG SLEEP, or not.
	AllowDebugInScripts(allow bool)
}

// Memory is the memory of the process.
type Memory interface {
	// Stats is MEMORY STATS, Report is MEMORY DOCTOR, RuntimeStats is MEMORY MALLOC-STATS.
	Stats() []MemoryStat
	Report() string
	RuntimeStats() string
	// Free gives unused memory back to the system.
	Free()
	// SetHeapProfiling, HeapProfiling and DumpHeapProfile are KPROFILE; the dump goes to a new file in the directory,
	// which must lie in dir unless enable-protected-configs lets the client name any. local: the client is on this
	// host.
	SetHeapProfiling(on bool)
	HeapProfiling() bool
	DumpHeapProfile(dir string, local bool) error
}

// Info provides the reply of INFO.
type Info interface {
	// Text returns the sections for which want is true. The names of sections are in lower case. Keys are those of
	// the namespace.
	Text(want func(section string) bool, namespace string) string
	// JSON is Text as an object of sections, each an object of fields.
	JSON(want func(section string) bool, namespace string) string
}

// Maintenance is the background work that commands start, and the end of the process.
type Maintenance interface {
	// BackgroundSave starts a backup.
	BackgroundSave() error
	// Save makes a backup and returns when it is made.
	Save() error
	// LastSave returns when the last backup was made, or when the server was started.
	LastSave() time.Time
	// FlushBackup deletes the backup in the background.
	FlushBackup()
	// FlushMemtables writes RocksDB's memtables to files. With wait it returns when they are written.
	FlushMemtables(wait bool) error
	// Compact starts a compaction of a namespace, "" = of everything.
	Compact(namespace string) error
	// Shutdown asks for the end of the process and returns at once.
	Shutdown()
}

// Setting is the name and the text of a setting.
type Setting struct {
	Name, Value string
}

// Namespace is a namespace with its token.
type Namespace struct{ Name, Token string }

// Identity is the identity that a password gives.
type Identity struct {
	Namespace string
	Admin     bool
	Account   *accounts.Account
}

// ClientInfo is what CLIENT LIST shows of a connection.
type ClientInfo struct {
	ID          int64
	Addr, LAddr string
	FD          int // -1 when unknown
	Name        string
	Age, Idle   time.Duration
	Flags       string // one letter each, see the documentation of CLIENT LIST
	Type        string // normal, pubsub, master or replica
	Namespace   string
	DB          int   // the number of the database
	Databases   bool  // databases are configured instead of namespaces
	Sub         int   // channels
	PSub        int   // patterns
	SSub        int   // shard channels
	Multi       int   // queued commands of MULTI, -1 = outside
	MultiBytes  int64 // bytes of the queued commands
	Watch       int
	ArgvBytes   int64 // the arguments of the command that runs or waits
	QueryBuf    int64 // bytes read and not run yet
	QueryFree   int64 // free bytes of the read buffer
	ReplyBuf    int64 // size of the reply buffer
	ReplyPeak   int64 // recent maximum of bytes in the reply buffer
	ReplyBytes  int64 // bytes in the reply buffer
	OutputList  int64 // buffers that wait to be sent
	OutputBytes int64 // bytes of these buffers
	Overhead    int64 // bytes of the connection besides its buffers
	Events      string
	Command     string // the last command, "" = none
	User        string
	Proto       int
	LibName     string
	LibVer      string
	NetIn       int64 // bytes received
	NetOut      int64 // bytes sent
	Redirect    int64 // the connection that gets the tracking messages; 0 = this one, -1 = no tracking
	Commands    int64 // commands run
}
