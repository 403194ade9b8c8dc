package command

var namespaceCommands = []Spec{
	{Name: "namespace", Handler: namespace, Arity: -2,
		Flags: Admin | NoScript | SkipMonitor | SkipSlowlog | Solo},
}

// namespace is Kvrocks's NAMESPACE. All users may call NAMESPACE CURRENT; the rest is for administrators.
func namespace(c *Ctx) error {
	sub, n := c.Args[1], len(c.Args)
	current := EqualFold(sub, "CURRENT") && n == 2
	switch {
	case !c.Sess.Admin && !current:
		return ErrAdminOnly
	case c.Srv.Settings.Databases() > 0:
		return errorf("namespace command is not allowed when redis-databases > 0")
	case current:
		c.Out.BulkString(c.Sess.Namespace)
		return nil
	case EqualFold(sub, "GET") && n == 3:
		return getNamespace(c, string(c.Args[2]))
	}
	var err error
	switch {
	case EqualFold(sub, "ADD") && n == 4:
		err = c.Srv.Namespaces.Add(string(c.Args[2]), string(c.Args[3]))
	case EqualFold(sub, "SET") && n == 4:
		err = c.Srv.Namespaces.Set(string(c.Args[2]), string(c.Args[3]))
	case EqualFold(sub, "DEL") && n == 3:
		err = c.Srv.Namespaces.Delete(string(c.Args[2]))
	default:
		return errorf("NAMESPACE subcommand must be one of GET, SET, DEL, ADD, CURRENT")
	}
	return replyOK(c, err)
}

// getNamespace writes the token of a namespace; for "*", all names and tokens in turn, the default namespace last.
func getNamespace(c *Ctx, name string) error {
	all := c.Srv.Namespaces.List()
	if name == "*" {
		c.Out.Array(2 * len(all))
		for _, n := range all {
			c.Out.BulkString(n.Name)
			c.Out.BulkString(n.Token)
		}
		return nil
	}
	for _, n := range all[:len(all)-1] { // as in Kvrocks, the password of the default namespace is not shown
		if n.Name == name {
			c.Out.BulkString(n.Token)
			return nil
		}
	}
	c.Out.Null()
	return nil
}
