package scripts

import "github.com/basaltdb/basalt/server/lua"

// Memory is the approximate memory of scripts in bytes.
type Memory struct {
	Machines           int64 // virtual machines that scripts and functions share
	Residents          int64 // those of one library each
	Scripts, Functions int64 // compiled code and sources

	Cached, Libraries, Named int   // scripts in the cache; libraries and their functions
	Evicted                  int64 // scripts dropped because the cache was full
}

// What one takes besides its source, measured; compiled code takes about as much as ten times the source.
const (
	scriptOverhead   = 700
	functionOverhead = 200
	codePerSource    = 10
)

// Memory returns the approximate memory of scripts and libraries.
func (s *Store) Memory() (m Memory) {
	var bytes int
	m.Cached, bytes = s.engine.Cached()
	m.Evicted = s.engine.Evicted()
	m.Scripts = int64(m.Cached)*scriptOverhead + int64(bytes)*codePerSource
	m.Machines = int64(s.engine.States()) * lua.StateBytes
	for _, l := range s.Libraries(nil) {
		m.Libraries++
		if l.Resident() {
			m.Residents += lua.StateBytes
		}
		m.Named += len(l.Functions)
		m.Functions += scriptOverhead + int64(len(l.Functions))*functionOverhead + int64(len(l.Source))*codePerSource
	}
	return m
}
