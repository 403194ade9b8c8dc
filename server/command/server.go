package command

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/acl"
)

// Server is what handlers need of the server. Its methods may be called by several goroutines.
type Server interface {
	DB() *engine.DB
	// Commands returns the commands that there are for clients, with their names.
	Commands() *Table
	// MaxBulk is proto-max-bulk-len: the longest string, in bytes, that a command may make.
	MaxBulk() int64

	// Setting returns the text of a setting as CONFIG GET shows it; ok is false when there is none.
	Setting(name string) (value string, ok bool)
	// MatchSettings returns the settings whose names match, sorted by name.
	MatchSettings(match func(name string) bool) []Setting
	// SetSettings changes settings for a session, all or, with an error, none.
	SetSettings(sess *Session, s []Setting) error
	// RewriteSettings writes the settings to the configuration file.
	RewriteSettings() error
	// BecomeMaster forgets the master that the settings name.
	BecomeMaster() error

	// PasswordRequired reports whether a client must authenticate.
	PasswordRequired() bool
	// Authenticate returns what a name and a password stand for; the tokens of namespaces have the name default. It takes as long for a wrong as for a right one.
	Authenticate(user, password []byte) (id Identity, ok bool)
	// Anonymous returns what a client is that has not authenticated; ok is false when it must.
	Anonymous() (id Identity, ok bool)
	// AuthFailed notes that an authentication by the command of this name has failed.
	AuthFailed(s *Session, command string, user []byte)

	// Databases is redis-databases: how many databases there are, 0 = only 0, and there may be namespaces.
	Databases() int64
	// Namespaces returns the namespaces with their tokens, sorted by these; the default one, with requirepass, is last.
	Namespaces() []Namespace
	// AddNamespace adds a namespace, SetNamespace also replaces the token of one, DeleteNamespace removes one. The
	// change outlives the process. The errors are replies.
	AddNamespace(name, token string) error
	SetNamespace(name, token string) error
	DeleteNamespace(name string) error

	// Scripts returns the scripts that are there.
	Scripts() Scripts

	// Clients returns the connections sorted by their ids.
	Clients() []ClientInfo
	// CloseClient closes another connection; the command that it may be running is finished first. It reports
	// whether there was one.
	CloseClient(id int64) bool

	// Channels returns the channels or shard channels that have subscribers and match; nil matches all.
	Channels(kind SubscriptionKind, match func(name []byte) bool) []string
	// Subscribers returns how many have subscribed to a channel.
	Subscribers(kind SubscriptionKind, name []byte) int
	// Topics returns how many different channels or patterns have subscribers.
	Topics(kind SubscriptionKind) int

	// Unblock ends the wait of another connection, with the reply of a timeout or with an error. It reports whether
	// that one was waiting.
	Unblock(id int64, withError bool) bool

	// SlowLog and PerfLog return the newest entries of the logs, newest first; n < 0 = all.
	SlowLog(n int) []SlowEntry
	SlowLogLen() int
	ResetSlowLog()
	PerfLog(n int) []PerfEntry
	PerfLogLen() int
	ResetPerfLog()
	// LatencyEvents returns what the latency monitor knows of the events that match, nil = of all, sorted by name.
	LatencyEvents(match func(name string) bool) []LatencyEvent
	// ResetLatency forgets events, without names all of them, and returns how many.
	ResetLatency(names ...string) int
	// Latencies returns how many calls of a command took up to how many microseconds, and how many calls were measured;
	// ok is false when none was.
	Latencies(s *Spec) (usec, counts []int64, calls int64, ok bool)

	// Unpause ends what Control.Pause has begun.
	Unpause()

	// MemoryStats, MemoryReport and RuntimeStats are MEMORY STATS, DOCTOR and MALLOC-STATS.
	MemoryStats() []MemoryStat
	MemoryReport() string
	RuntimeStats() string
	// FreeMemory gives unused memory back to the system.
	FreeMemory()
	// SetHeapProfiling, HeapProfiling and DumpHeapProfile are KPROFILE; the dump goes to a new file in the directory.
	SetHeapProfiling(on bool)
	HeapProfiling() bool
	DumpHeapProfile(dir string) error

	// Log writes a line to the log.
	Log(line string)
	// SetFull lets the server behave as if max-db-size were reached, or not.
	SetFull(full bool)
	// AllowDebugInScripts lets scripts call DEBUG PROTOCOL and DEBUG SLEEP, or not.
	AllowDebugInScripts(allow bool)

	// Info returns the text of INFO for the sections of which want is true. Their names are in lower case.
	// Keys are those of the namespace.
	Info(want func(section string) bool, namespace string) string
	// ResetStats is CONFIG RESETSTAT.
	ResetStats()
	// Started returns when the server was started.
	Started() time.Time

	// BackgroundSave starts a backup.
	BackgroundSave() error
	// Save makes a backup and returns when it is made.
	Save() error
	// FlushMemtables writes RocksDB's memtables to files. With wait it returns when they are written.
	FlushMemtables(wait bool) error
	// LastSave returns when the last backup was made, or when the server was started.
	LastSave() time.Time
	// FlushBackup deletes the backup in the background.
	FlushBackup()
	// Compact starts a compaction of a namespace, "" = of everything.
	Compact(namespace string) error
	// Shutdown asks for the end of the process and returns at once.
	Shutdown()
}

// Setting is the name and the text of a setting.
type Setting struct{ Name, Value string }

// Namespace is a namespace with its token.
type Namespace struct{ Name, Token string }

// Identity is what a password stands for.
type Identity struct {
	Namespace string
	Admin     bool
	Account   *acl.Account
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
	Databases   bool  // there are databases and no namespaces
	Sub         int   // channels
	PSub        int   // patterns
	SSub        int   // shard channels
	Multi       int   // queued commands of MULTI, -1 = outside
	MultiBytes  int64 // what they take
	Watch       int
	ArgvBytes   int64 // the arguments of the command that runs or waits
	QueryBuf    int64 // bytes read and not run yet
	QueryFree   int64 // free bytes of the read buffer
	ReplyBuf    int64 // size of the reply buffer
	ReplyPeak   int64 // the most that there was in it lately
	ReplyBytes  int64 // bytes in it
	OutputList  int64 // buffers that wait to be sent
	OutputBytes int64 // their bytes
	Overhead    int64 // what the connection takes besides its buffers
	Events      string
	Command     string // the last one, "" = none
	User        string
	Proto       int
	LibName     string
	LibVer      string
	NetIn       int64 // bytes received
	NetOut      int64 // bytes sent
	Redirect    int64 // the connection that gets the messages of tracking; 0 = this one, -1 = there is no tracking
	Commands    int64 // commands run
}
