package server

import (
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/sweep"
)

// sweptEvents are the classes of the events that the sweep publishes. fieldEvents are the classes for hash fields:
// hexpired, and del when the last field of a hash has expired.
const (
	sweptEvents = command.EventExpired | fieldEvents
	fieldEvents = command.EventHash | command.EventGeneric
)

// newSweep returns the sweep that deletes expired keys and fields while a client listens for it: subscribers of expiry
// events, and clients that track keys in broadcasting mode.
func (s *Server) newSweep() *sweep.Sweep {
	return sweep.New(sweep.Options{
		DB: s.db, Log: s.log, Indexes: s.sessions.Services.Indexes,
		MayExpire:     s.sessions.MayExpire,
		PausedUntil:   s.sessions.PausedUntil,
		KeyEnded:      s.sessions.KeyEnded,
		FieldsExpired: s.sessions.FieldsExpired,
		HashEmptied:   s.sessions.HashEmptied,
	})
}
