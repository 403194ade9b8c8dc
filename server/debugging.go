package server

// debugging is what DEBUG changes in the server.
type debugging struct{ srv *Server }

// Log writes a line to the log.
func (d debugging) Log(line string) { d.srv.log.Info(line) }

// AllowDebugInScripts lets scripts call DEBUG PROTOCOL and DEBUG SLEEP, or not.
func (d debugging) AllowDebugInScripts(allow bool) { d.srv.sessions.Limits.DebugInLua.Store(allow) }

// SetFull lets the server behave as if max-db-size were reached, or not, until the size is looked at again.
func (d debugging) SetFull(full bool) { d.srv.sessions.Limits.Full.Store(full) }
