package server

import (
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/sweep"
)

// The events that the sweep generates: of keys, and of hash fields, the last of which deletes its key.
const (
	sweptEvents = command.EventExpired | fieldEvents
	fieldEvents = command.EventHash | command.EventGeneric
)

// newSweep returns the sweep that deletes expired keys and fields while a client listens for it: subscribers of expiry
// events, and clients that track keys in broadcasting mode.
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
