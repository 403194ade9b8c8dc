// Package command is the command table and the handlers: one file a family. A handler parses its arguments,
// calls one data type, and writes one reply; it knows neither sockets nor locks. The pipeline in package server
// checks arity, rights and keys by the table, locks the keys, and commits.
package command

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
)

// Ctx is the context of a handler. It is valid until the handler returns.
type Ctx struct {
	Args [][]byte     // Args[0] is the name; they alias the read buffer
	Out  *resp.Writer // the reply
	Tx   *engine.Tx   // in the session's namespace, with the locks of the command's keys held
	Sess *Session
	Srv  *Server
	Spec *Spec
	// Clock is the time that TIME returns, which stands still in EXEC and scripts; zero = the present.
	Clock time.Time
	// NoBlock says that the command runs inside EXEC or a script: instead of waiting for data it replies at once.
	NoBlock bool
	// InScript says that a script calls the command.
	InScript bool
	// Retry says that the command is tried again for a blocked client. Only some of its keys may be locked, see
	// Tx.Holds, and the handler must not wait: if there is still no data it returns ErrNotReady.
	Retry bool
	// Waited is the Wait of the blocked client, with Retry.
	Waited *Wait
	// Events receives the keyspace events that do not follow from the command and from the existence of its keys
	// before and after it, see [Change]. nil = events are not wanted.
	Events *[]KeyEvent
	// Rewrote says that the handler has replaced something, possibly by the same value, see MarkRewrote.
	Rewrote bool
}

// MarkRewrote records that the command has replaced a value in its first key, if the key exists. If the new value
// equals the old one nothing is written, but for Redis the key has changed: events are published, WATCH notices the
// change, and clients that track the key are notified.
func (c *Ctx) MarkRewrote() { c.Rewrote = true }

// Tell adds an event of the running command. The key must not change until the commit.
func (c *Ctx) Tell(class EventClass, name string, key []byte) {
	if c.Events != nil {
		*c.Events = append(*c.Events, KeyEvent{Class: class, Name: name, Key: key})
	}
}

// Lock takes the lock, for writing, of a key that the arguments do not name. The handler must return the error at once.
func (c *Ctx) Lock(key []byte) error {
	if c.Tx.TryLock(key) { // waiting could be a deadlock
		return nil
	}
	return c.Sess.Control.RunAgain(key)
}

// Handler runs a command. It writes one reply and returns nil, or returns an error: then its output, to the reply and
// to the transaction, is dropped, and the error is the reply.
type Handler func(c *Ctx) error

// Flag says how the pipeline treats a command.
type Flag uint64

// The flags. Flags up to NoAsyncLoading have the meaning of Redis's COMMAND INFO.
const (
	Write Flag = 1 << iota
	ReadOnly
	DenyOOM
	Admin
	PubSub
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	MayReplicate
	NoMulti
	AllowBusy
	MovableKeys
	NoMandatoryKeys
	NoAsyncLoading

	// Single marks a reader that needs nothing but the metadata record of each of its keys. It runs without
	// locks, and the records of a run of such commands are fetched in batches.
	Single
	// Solo marks a command that cannot share a transaction with others: the pipeline commits the commands before it,
	// and calls it without an open transaction and without locks.
	Solo
	// Blind marks a writer that does not read the old value (SET, MSET): its records are not prefetched.
	Blind
	// AdminOnly marks a command for sessions that have authenticated with the administrator's password. (Admin only
	// affects COMMAND INFO and the ACL categories.)
	AdminOnly
	// NotQueued marks a command that takes effect at once after MULTI.
	NotQueued
	// Waits marks a Solo command that may let its client wait although Redis does not call it blocking, or may detach the
	// connection.
	Waits
	// Repeatable marks a reader of one key whose reply depends only on its arguments and the key, and is worth
	// caching.
	Repeatable
	// Exclusive marks a Solo command that runs with the locks of all keys held, in a transaction that the pipeline
	// commits.
	Exclusive
	// Script marks a command that runs a script, or changes the stored scripts: like a command that writes, it shares
	// a transaction with others.
	Script
	// Alone marks a writer that may take long: outside of EXEC and scripts no other command shares the locks of its
	// keys.
	Alone
)

var flagNames = []struct {
	f    Flag
	name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"}, {PubSub, "pubsub"},
	{NoScript, "noscript"}, {Blocking, "blocking"}, {Loading, "loading"}, {Stale, "stale"},
	{SkipMonitor, "skip_monitor"}, {SkipSlowlog, "skip_slowlog"}, {Asking, "asking"}, {Fast, "fast"},
	{NoAuth, "no_auth"}, {NoMulti, "no_multi"}, {AllowBusy, "allow_busy"},
	{MovableKeys, "movablekeys"}, {NoMandatoryKeys, "no_mandatory_keys"}, {NoAsyncLoading, "no_async_loading"},
}

// Names returns the flags as COMMAND INFO shows them.
func (f Flag) Names() []string {
	var names []string
	for _, n := range flagNames {
		if f&n.f != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// Spec is a row of the command table: the code of a command. Its other facts are in the files of facts, see facts.go.
type Spec struct {
	Name    string // lower case; a subcommand's own name
	Handler Handler
	Arity   int // with the name; negative = at least
	Flags   Flag
	// Keys finds the keys of a command without fixed positions: it calls add with the index of each key's argument,
	// and write = the command writes the key. With malformed arguments it adds the keys that it can find and returns
	// nil; the handler reports the error.
	Keys func(args [][]byte, add func(argIndex int, write bool)) error
	// OtherNamespace finds the key that the command touches in another namespace than ns, in which it runs: the other
	// namespace and the index of the argument. ok is false when there is no such key, also when the command will
	// fail. nil = the command never touches one.
	OtherNamespace func(srv *Server, sess *Session, ns string, args [][]byte) (other string, argIndex int, ok bool)
	// Blocks reports whether a command with the flag Blocking may wait, which may depend on an option. It may return
	// true for a call that does not wait, but never false for a call that waits. nil = the command may wait.
	Blocks func(args [][]byte) bool
	// Prefetch adds to a list the keys of the default family that the command will read if its collection is as it is
	// now. The records for several consecutive commands are read in batches. It is called with the locks of the
	// command's keys held and its number of arguments checked; it skips malformed arguments. nil = nothing is
	// prefetched.
	Prefetch func(tx *engine.Tx, args [][]byte, keys *engine.KeyList)
	Sub      []Spec

	ID     int    // index of the command's statistics
	Parent *Spec  // the container of a subcommand
	full   string // "client|kill"
	sub    map[string]*Spec
	// first, last, step are the positions of the keys; last < 0 counts from the end. first 0 = no keys.
	first, last, step int
	facts             *facts
}

// FullName returns the name with the container's before it: "client|kill".
func (s *Spec) FullName() string { return s.full }

// MayBlock reports whether the command may wait for data with these arguments.
func (s *Spec) MayBlock(args [][]byte) bool {
	return s.Flags&Blocking != 0 && (s.Blocks == nil || s.Blocks(args))
}

// KeyRef says which argument is a key.
type KeyRef struct {
	Arg   int
	Write bool
}

// KeyArg returns the index of the command's only key, if it does not depend on the arguments; 0 = the command never
// has a key, -1 = AppendKeys finds the keys.
func (s *Spec) KeyArg() int {
	if s.Keys != nil || s.first != s.last {
		return -1
	}
	return s.first
}

// AppendKeys appends the keys of a command with these arguments.
func (s *Spec) AppendKeys(dst []KeyRef, args [][]byte) []KeyRef {
	if s.Keys != nil {
		return s.appendMovable(dst, args)
	}
	if s.first == 0 {
		return dst
	}
	last := s.last
	if last < 0 {
		last += len(args)
	}
	write := s.Flags&Write != 0
	for i := s.first; i <= last && i < len(args); i += s.step {
		dst = append(dst, KeyRef{i, write})
	}
	return dst
}

// appendMovable is a separate function because dst escapes to the heap when a closure changes it.
func (s *Spec) appendMovable(dst []KeyRef, args [][]byte) []KeyRef {
	s.Keys(args, func(i int, write bool) {
		if i > 0 && i < len(args) {
			dst = append(dst, KeyRef{i, write})
		}
	})
	return dst
}

var (
	table   = map[string]*Spec{}
	ordered []*Spec // by ID, subcommands included
)

func init() {
	for _, family := range [][]Spec{
		aclCommands, adminCommands, bitmapCommands, blockingCommands, bloomCommands, clientCommands, clusterCommands,
		configCommands, connectionCommands, cuckooCommands, databaseCommands, debugCommands, dumpCommands,
		failoverCommands, functionCommands, genericCommands, geoCommands, hashCommands, hashExpireCommands, hllCommands,
		infoCommands, introspectCommands, jsonCommands, jsonReadCommands, latencyCommands, lcsCommands, listCommands,
		logCommands, memoryCommands, migrateCommands, moduleCommands, monitorCommands, namespaceCommands, objectCommands,
		pubsubCommands, rdbCommands, replicaCommands, replicaOfCommands, replicateCommands, replicationCommands,
		scanCommands, scriptCommands, searchCommands, setCommands, sortCommands, sortedintCommands, sstCommands,
		statsCommands, streamCommands, streamGroupCommands, streamInfoCommands, streamReadCommands, streamRefCommands,
		stringCommands, tdigestCommands, transactionCommands, tsCommands, zsetCommands, zsetOpCommands, zsetPopCommands,
		zsetRangeCommands,
	} {
		register(family)
	}
}

// register adds rows to the table.
func register(specs []Spec) {
	for i := range specs {
		s := &specs[i]
		if table[s.Name] != nil {
			panic("command registered twice: " + s.Name)
		}
		if s.Name != strings.ToLower(s.Name) {
			panic("command names are lower case: " + s.Name)
		}
		s.full = s.Name
		table[s.Name] = s
		number(s)
		if len(s.Sub) > 0 {
			s.sub = make(map[string]*Spec, len(s.Sub))
			for j := range s.Sub {
				c := &s.Sub[j]
				c.Parent, c.full = s, s.Name+"|"+c.Name
				s.sub[c.Name] = c
				number(c)
			}
		}
	}
}

func number(s *Spec) {
	s.describe()
	s.ID = len(ordered)
	ordered = append(ordered, s)
}

// NumSpecs returns the number of commands and subcommands; IDs are below it.
func NumSpecs() int { return len(ordered) }

// ByID returns a command by its ID.
func ByID(id int) *Spec { return ordered[id] }

func unknownCommand(args [][]byte) error {
	var b strings.Builder
	for _, a := range args[1:] {
		if b.Len() >= maxEchoed {
			break
		}
		fmt.Fprintf(&b, "'%s' ", cString(a[:min(len(a), maxEchoed-b.Len())]))
	}
	return errorf("unknown command '%s', with args beginning with: %s", echoed(args[0]), b.String())
}

func unknownSubcommand(s *Spec, sub []byte) error {
	if s.Name == "disk" { // Kvrocks's own command, and its text
		return engine.NewError("ERR", "Unknown operation")
	}
	return errorf("unknown subcommand '%s'. Try %s HELP.", echoed(sub), strings.ToUpper(s.Name))
}

// maxEchoed is how many bytes of a client's input an error repeats.
const maxEchoed = 128

// echoed truncates the input that an error repeats: at maxEchoed bytes and, like Redis, which prints a C string, at a
// zero byte.
func echoed(b []byte) []byte { return cString(b[:min(len(b), maxEchoed)]) }

// cString returns a string up to its first zero byte, which is where C believes it to end.
func cString(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte{0})
	return b
}
