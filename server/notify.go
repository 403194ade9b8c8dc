package server

import (
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/sweep"
)

// The events that the sweep brings about: of keys, and of fields of hashes, of which the last one takes the key with
// it.
const (
	sweptEvents = command.EventExpired | fieldEvents
	fieldEvents = command.EventHash | command.EventGeneric
)

// newSweep returns the sweep that deletes what expires while somebody wants to hear of it: those who want the events of
// expiry, and clients that track keys in broadcasting mode.
func (s *Server) newSweep() *sweep.Sweep {
	return sweep.New(sweep.Options{
		DB: s.db, Log: s.log,
		MayExpire:     s.sessions.MayExpire,
		PausedUntil:   s.sessions.PausedUntil,
		KeyEnded:      s.sessions.KeyEnded,
		FieldsExpired: s.sessions.FieldsExpired,
		HashEmptied:   s.sessions.HashEmptied,
	})
}
