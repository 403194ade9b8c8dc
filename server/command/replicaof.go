package command

import (
	"github.com/basaltdb/basalt/engine"
)

// The server is in no cluster. READONLY, READWRITE and ASKING are answered as by Kvrocks outside cluster mode.

const replicaOfFlags = Admin | NoScript | Stale | NoAsyncLoading | Solo | AdminOnly

var replicaOfCommands = []Spec{
	{Name: "replicaof", Handler: replicaOf, Arity: 3, Flags: replicaOfFlags, Group: "server", Since: "5.0.0",
		Complexity: "O(1)",
		Summary:    "Makes the server a replica of another one, or a master."},
	{Name: "slaveof", Handler: replicaOf, Arity: 3, Flags: replicaOfFlags, Group: "server", Since: "1.0.0",
		Complexity: "O(1)",
		Summary:    "Makes the server a replica of another one, or a master."},
	{Name: "readonly", Handler: noCluster, Arity: 1, Flags: Loading | Stale | Fast, Group: "cluster", Since: "3.0.0",
		Complexity: "O(1)",
		Categories: "@connection", Summary: "Allows reads from a replica in a cluster."},
	{Name: "readwrite", Handler: noCluster, Arity: 1, Flags: Loading | Stale | Fast, Group: "cluster", Since: "3.0.0",
		Complexity: "O(1)",
		Categories: "@connection", Summary: "Ends READONLY."},
	{Name: "asking", Handler: noCluster, Arity: 1, Flags: Fast, Group: "cluster", Since: "3.0.0", Complexity: "O(1)",
		Categories: "@connection", Summary: "Announces a command that follows a redirection in a cluster."},
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
