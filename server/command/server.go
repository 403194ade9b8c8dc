package command

import (
	"time"

	"github.com/basaltdb/basalt/engine"
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
	// SetSettings changes settings, all or, with an error, none.
	SetSettings(s []Setting) error
	// RewriteSettings writes the settings to the configuration file.
	RewriteSettings() error

	// PasswordRequired reports whether a client must authenticate.
	PasswordRequired() bool
	// Authenticate returns what a password stands for. It takes as long for a wrong as for a right one.
	Authenticate(password []byte) (id Identity, ok bool)

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

	// Info returns the text of INFO for the sections of which want is true. Their names are in lower case.
	// Keys are those of the namespace.
	Info(want func(section string) bool, namespace string) string
	// ResetStats is CONFIG RESETSTAT.
	ResetStats()
	// Started returns when the server was started.
	Started() time.Time

	// BackgroundSave starts a backup.
	BackgroundSave() error
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

// Identity is what a password stands for.
type Identity struct {
	Namespace string
	Admin     bool
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
	Sub         int // channels
	PSub        int // patterns
	SSub        int // shard channels
	Multi       int // queued commands of MULTI, -1 = outside
	Watch       int
	QueryBuf    int64 // bytes read and not run yet
	QueryFree   int64 // free bytes of the read buffer
	OutputList  int64 // buffers that wait to be sent
	OutputBytes int64 // their bytes
	Events      string
	Command     string // the last one, "" = none
	User        string
	Proto       int
	LibName     string
	LibVer      string
	NetIn       int64 // bytes received
	NetOut      int64 // bytes sent
	Commands    int64 // commands run
}
