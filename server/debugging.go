package server

// debugging implements the parts of DEBUG that change the server.
type debugging struct{ srv *Server }

// Log writes a line to the log.
func (d debugging) Log(line string) { d.srv.log.Info(line) }

// AllowDebugInScripts allows or forbids scripts to call DEBUG PROTOCOL and DEBUG SLEEP.
func (d debugging) AllowDebugInScripts(allow bool) { d.srv.sessions.Limits.DebugInLua.Store(allow) }

// SetFull makes the server behave as if max-db-size were reached, or not, until the size is checked again.
func (d debugging) SetFull(full bool) { d.srv.sessions.Limits.Full.Store(full) }
