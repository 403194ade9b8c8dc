package command

import (
	"github.com/basaltdb/basalt/engine"
)

// The server is in no cluster. READONLY, READWRITE and ASKING are answered as by Kvrocks outside cluster mode.

const replicaOfFlags = Admin | NoScript | Stale | NoAsyncLoading | Solo | AdminOnly

var replicaOfCommands = []Spec{
	{Name: "replicaof", Handler: replicaOf, Arity: 3, Flags: replicaOfFlags},
	{Name: "slaveof", Handler: replicaOf, Arity: 3, Flags: replicaOfFlags},
	{Name: "readonly", Handler: noCluster, Arity: 1, Flags: Loading | Stale | Fast},
	{Name: "readwrite", Handler: noCluster, Arity: 1, Flags: Loading | Stale | Fast},
	{Name: "asking", Handler: noCluster, Arity: 1, Flags: Fast},
}

func init() { register(replicaOfCommands...) }

var errMasterPort = engine.NewError("ERR", "Invalid master port")

// replicaOf is REPLICAOF host port, and REPLICAOF NO ONE. CONFIG REWRITE keeps which.
func replicaOf(c *Ctx) error {
	if EqualFold(c.Args[1], "NO") && EqualFold(c.Args[2], "ONE") {
		if err := c.Srv.Settings.BecomeMaster(); err != nil {
			return err
		}
		c.Out.OK()
		return nil
	}
	port, ok := ParseInt(c.Args[2])
	if !ok || port < 1 || port > 65535 {
		return errMasterPort
	}
	if err := c.Srv.Replication.Follow(string(c.Args[1]), int(port)); err != nil {
		return err
	}
	c.Out.OK()
	return nil
}

// noCluster accepts what has no meaning without a cluster.
func noCluster(c *Ctx) error {
	c.Out.OK()
	return nil
}
