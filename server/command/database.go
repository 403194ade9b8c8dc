package command

import (
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
)

// Databases are namespaces, see [cf.DatabaseNamespace]: the setting redis-databases is their number. Without the
// setting only database 0 exists, which is the session's namespace. The same holds for sessions that are confined to
// a namespace, that is for all but administrators.

var databaseCommands = []Spec{
	{Name: "select", Handler: selectDB, Arity: 2, Flags: Loading | Stale | Fast | Solo},
	{Name: "move", Handler: moveDB, Arity: 3, Flags: Write | Fast, OtherNamespace: moveOther},
	{Name: "movex", Handler: moveX, Arity: 3, Flags: Write | SkipMonitor | SkipSlowlog, OtherNamespace: moveXOther},
	{Name: "swapdb", Handler: swapDB, Arity: 3, Flags: Write | Fast | Solo | Exclusive},
}

var (
	errDBIndex   = engine.NewError("ERR", "DB index is out of range")
	errNotInt32  = errorf("value is out of range, value must between %d and %d", math.MinInt32, math.MaxInt32)
	errNotLocked = engine.NewError("TRYAGAIN", "The key in the other namespace is in use")
)

// database returns the namespace of a database for a session that is in the namespace ns; ok is false when it has no
// database of that number.
func database(srv *Server, sess *Session, ns string, n int64) (_ string, ok bool) {
	most := srv.Settings.Databases()
	switch {
	case most == 0 || !sess.Admin:
		return ns, n == 0
	case n < 0 || n >= most:
		return "", false
	}
	return cf.DatabaseNamespace(int(n)), true
}

// parseDB reads the number of a database.
func parseDB(arg []byte) (int64, error) {
	n, ok := ParseInt(arg)
	switch {
	case !ok:
		return 0, ErrNotInteger
	case n != int64(int32(n)):
		return 0, errNotInt32
	}
	return n, nil
}

// SelectedBy returns the namespace that SELECT with these arguments selects for a session in the namespace ns; if the
// command fails it returns ns.
func SelectedBy(srv *Server, sess *Session, ns string, args [][]byte) string {
	n, err := parseDB(args[1])
	if err != nil {
		return ns
	}
	if to, ok := database(srv, sess, ns, n); ok {
		return to
	}
	return ns
}

// IsSelect reports whether the command is SELECT.
func (s *Spec) IsSelect() bool { return s.full == "select" }

// selectDB changes the session; a caller that runs several commands in one transaction updates the transaction.
func selectDB(c *Ctx) error {
	n, err := parseDB(c.Args[1])
	if err != nil {
		return err
	}
	ns, ok := database(c.Srv, c.Sess, c.Sess.Namespace, n)
	if !ok {
		return errDBIndex
	}
	c.Sess.Namespace = ns
	return replyOK(c, nil)
}

func moveDB(c *Ctx) error {
	n, err := parseDB(c.Args[2])
	if err != nil {
		return err
	}
	ns, ok := database(c.Srv, c.Sess, c.Tx.Namespace(), n)
	switch {
	case !ok:
		return errDBIndex
	case ns == c.Tx.Namespace():
		return errSameObject
	}
	return moveTo(c, ns)
}

func moveOther(srv *Server, sess *Session, ns string, args [][]byte) (string, int, bool) {
	n, err := parseDB(args[2])
	if err != nil {
		return "", 0, false
	}
	to, ok := database(srv, sess, ns, n)
	return to, 1, ok && to != ns
}

// moveX is Kvrocks's MOVEX key token: the token names the target namespace, requirepass the default namespace.
func moveX(c *Ctx) error {
	if !c.Srv.Users.PasswordRequired() {
		return errorf("Forbidden to move key when requirepass is empty")
	}
	id, ok := c.Srv.Users.Authenticate([]byte(defaultUser), c.Args[2])
	if !ok {
		c.Srv.Users.AuthFailed(c.Sess, "MOVEX", []byte(defaultUser))
		return errorf("Invalid password")
	}
	return moveTo(c, id.Namespace)
}

func moveXOther(srv *Server, _ *Session, ns string, args [][]byte) (string, int, bool) {
	if !srv.Users.PasswordRequired() {
		return "", 0, false
	}
	id, ok := srv.Users.Authenticate([]byte(defaultUser), args[2])
	return id.Namespace, 1, ok && id.Namespace != ns
}

func moveTo(c *Ctx, ns string) error {
	if err := lockIn(c, ns, c.Args[1]); err != nil {
		return err
	}
	done, err := keys.Move(c.Tx, c.Args[1], ns)
	return replyBool(c, done, err)
}

// lockIn makes sure that a key of another namespace is locked. The key is locked already, unless the token's
// namespace has changed meanwhile, or a script has not declared the key.
func lockIn(c *Ctx, ns string, key []byte) error {
	return c.Tx.InNamespace(ns, func() error {
		if !c.Tx.TryLock(key) {
			return errNotLocked
		}
		return nil
	})
}

// maxSwap bounds the data that SWAPDB writes anew in one batch, in bytes. The transaction needs several times as much
// memory for small keys.
const maxSwap = 64 << 20

// swapDB is SWAPDB. A database's keys lie on disk under its number, in the format of Kvrocks: they are written anew.
func swapDB(c *Ctx) error {
	one, ok := ParseInt(c.Args[1])
	if !ok || one != int64(int32(one)) {
		return errorf("invalid first DB index")
	}
	other, ok := ParseInt(c.Args[2])
	if !ok || other != int64(int32(other)) {
		return errorf("invalid second DB index")
	}
	var names [2]string
	for i, n := range []int64{one, other} {
		if names[i], ok = database(c.Srv, c.Sess, c.Tx.Namespace(), n); !ok {
			return errDBIndex
		}
	}
	if one != other {
		indexes := c.Srv.Indexes
		if indexes.HasVectors(names[0]) || indexes.HasVectors(names[1]) {
			return errorf("a database with a search index of vectors cannot be exchanged")
		}
		err := keys.Swap(c.Tx, names[0], names[1], maxSwap, func(full func() error) error {
			for _, ns := range names {
				if err := indexes.Rebuild(c.Tx, ns, full); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		tellOfChange(c)
	}
	return replyOK(c, nil)
}
