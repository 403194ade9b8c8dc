package server

import (
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
	"github.com/basaltdb/basalt/server/metrics"
)

// scriptCalls counts the commands that a script calls, as INFO commandstats has them. They reach the server's counters when
// the script ends: one that is undone to be run again has called nothing.
type scriptCalls struct {
	byID    []callCount
	touched []int32
}

// ran counts a call.
func (s *scriptCalls) ran(spec *command.Spec, took time.Duration) {
	if s.byID == nil {
		s.byID = make([]callCount, command.NumSpecs())
	}
	n := &s.byID[spec.ID]
	if n.calls == 0 {
		s.touched = append(s.touched, int32(spec.ID))
	}
	n.calls++
	n.nsec += int64(took)
}

// settle adds the calls to the server's counters, or forgets them.
func (s *scriptCalls) settle(to *metrics.Stats, count bool) {
	var total int64
	for _, id := range s.touched {
		n := &s.byID[id]
		if count {
			to.Call(int(id), n.calls, n.nsec)
			total += n.calls
		}
		*n = callCount{}
	}
	s.touched = s.touched[:0]
	if total > 0 {
		to.Commands.Add(total)
	}
}

// Failed hears of an error in the reply of a script. One that a command has given was counted then.
func (h *scriptHost) Failed(text string, counted bool) {
	c := h.run
	c.script.failed = true
	if !counted {
		c.srv.stats.ErrorReply(engine.NewError("", text))
	}
}

// scriptMemory is about how many bytes scripts take.
type scriptMemory struct {
	machines           int64 // virtual machines that scripts and functions share
	residents          int64 // those of one library each
	scripts, functions int64 // compiled code and sources

	cached, libraries, named int // scripts in the cache; libraries and their functions
}

// What one takes besides its source, measured; compiled code takes about as much as ten times the source.
const (
	scriptOverhead   = 700
	functionOverhead = 200
	codePerSource    = 10
)

func (s *scripts) memory() (m scriptMemory) {
	var bytes int
	m.cached, bytes = s.engine.Cached()
	m.scripts = int64(m.cached)*scriptOverhead + int64(bytes)*codePerSource
	m.machines = int64(s.engine.States()) * lua.StateBytes
	for _, l := range s.Libraries(nil) {
		m.libraries++
		if l.Resident() {
			m.residents += lua.StateBytes
		}
		m.named += len(l.Functions)
		m.functions += scriptOverhead + int64(len(l.Functions))*functionOverhead + int64(len(l.Source))*codePerSource
	}
	return m
}

// infoScripts writes the fields of INFO memory about scripts.
func (s *Server) infoScripts(w *infoWriter) {
	m := s.scripts.memory()
	w.field("used_memory_lua", m.machines)
	w.field("used_memory_vm_eval", m.machines)
	w.field("used_memory_lua_human", human(m.machines))
	w.field("used_memory_scripts_eval", m.scripts)
	w.field("number_of_cached_scripts", m.cached)
	w.field("number_of_functions", m.named)
	w.field("number_of_libraries", m.libraries)
	w.field("used_memory_vm_functions", m.residents) // the other functions run in the machines of scripts
	w.bytes("used_memory_vm_total", m.machines+m.residents)
	w.field("used_memory_functions", m.functions)
	w.bytes("used_memory_scripts", m.scripts+m.functions)
}
