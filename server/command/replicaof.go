package command

const replicaOfFlags = Admin | NoScript | Stale | NoAsyncLoading | Solo | AdminOnly

var replicaOfCommands = []Spec{
	{Name: "replicaof", Handler: replicaOf, Arity: 3, Flags: replicaOfFlags},
	{Name: "slaveof", Handler: replicaOf, Arity: 3, Flags: replicaOfFlags},
}

// replicaOf is REPLICAOF host port, and REPLICAOF NO ONE. CONFIG REWRITE keeps which.
func replicaOf(c *Ctx) error {
	if EqualFold(c.Args[1], "NO") && EqualFold(c.Args[2], "ONE") {
		return replyOK(c, c.Srv.Settings.BecomeMaster())
	}
	port, ok := ParseInt(c.Args[2])
	if !ok || port < 1 || port > 65535 {
		return errorf("Invalid master port")
	}
	return replyOK(c, c.Srv.Replication.Follow(string(c.Args[1]), int(port)))
}
