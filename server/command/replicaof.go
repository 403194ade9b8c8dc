package command

import (
	"github.com/basaltdb/basalt/engine"
)

// This server does not replicate and is in no cluster. What clients and Sentinel send to every server is answered as
// by a Redis that is a master; READONLY, READWRITE and ASKING are answered as by Kvrocks outside cluster mode.

const replicaOfFlags = Admin | NoScript | Stale | NoAsyncLoading | Solo | AdminOnly

var replicaOfCommands = []Spec{
	{Name: "replicaof", Handler: replicaOf, Arity: 3, Flags: replicaOfFlags, Group: "server", Since: "5.0.0", Complexity: "O(1)",
		Summary: "Makes the server a master; it cannot become a replica."},
	{Name: "slaveof", Handler: replicaOf, Arity: 3, Flags: replicaOfFlags, Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Makes the server a master; it cannot become a replica."},
	{Name: "readonly", Handler: noCluster, Arity: 1, Flags: Loading | Stale | Fast, Group: "cluster", Since: "3.0.0", Complexity: "O(1)",
		Categories: "@connection", Summary: "Allows reads from a replica in a cluster."},
	{Name: "readwrite", Handler: noCluster, Arity: 1, Flags: Loading | Stale | Fast, Group: "cluster", Since: "3.0.0", Complexity: "O(1)",
		Categories: "@connection", Summary: "Ends READONLY."},
	{Name: "asking", Handler: noCluster, Arity: 1, Flags: Fast, Group: "cluster", Since: "3.0.0", Complexity: "O(1)",
		Categories: "@connection", Summary: "Announces a command that follows a redirection in a cluster."},
}

func init() { register(replicaOfCommands...) }

var (
	errMasterPort = engine.NewError("ERR", "Invalid master port")
	errNoReplica  = engine.NewError("ERR", "replication is not supported: this server can only be a master (REPLICAOF NO ONE)")
)

// replicaOf is REPLICAOF NO ONE. A server that was started with slaveof takes writes from then on, and CONFIG REWRITE
// keeps that.
func replicaOf(c *Ctx) error {
	if EqualFold(c.Args[1], "NO") && EqualFold(c.Args[2], "ONE") {
		if err := c.Srv.Settings.BecomeMaster(); err != nil {
			return err
		}
		c.Out.OK()
		return nil
	}
	if port, ok := ParseInt(c.Args[2]); !ok || port < 0 || port > 65535 {
		return errMasterPort
	}
	return errNoReplica
}

// noCluster accepts what has no meaning without a cluster.
func noCluster(c *Ctx) error {
	c.Out.OK()
	return nil
}
