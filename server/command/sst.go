package command

var sstCommands = []Spec{
	{Name: "sst", Arity: -2, Sub: []Spec{
		{Name: "load", Handler: sstLoad, Arity: -3,
			Flags: Write | DenyOOM | Admin | NoScript | NoMulti | Solo | AdminOnly},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
	}},
}

// sstLoad is Kvrocks's SST LOAD dir [MOVEFILES yes|no].
func sstLoad(c *Ctx) error {
	move := false
	switch rest := c.Args[3:]; {
	case len(rest) == 0:
	case len(rest) != 2 || !EqualFold(rest[0], "MOVEFILES"):
		return ErrSyntax
	case EqualFold(rest[1], "yes"):
		move = true
	case !EqualFold(rest[1], "no"):
		return errorf("MOVEFILES value must be 'yes' or 'no'")
	}
	if c.Srv.Files == nil {
		return errorf("SST LOAD is not supported in cluster mode")
	}
	n, err := c.Srv.Files.LoadFiles(c.Sess, string(c.Args[2]), move)
	if err != nil {
		return err
	}
	c.Out.Map(1)
	c.Out.BulkString("files_loaded")
	return replyInt(c, n, nil)
}
