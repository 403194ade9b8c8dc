package server

import (
	"time"

	"github.com/basaltdb/basalt/engine"
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
		MayExpire: s.mayExpire,
		PausedUntil: func() (end time.Time, ok bool) {
			if p := s.presentPause(); p != nil {
				return p.until, true
			}
			return end, false
		},
		KeyEnded: func(ns string, key []byte, how engine.Ended) {
			for _, e := range endEvents(how, key) {
				s.publishEvent(ns, e.Class, e.Name, key)
			}
		},
		FieldsExpired: func(ns string, key []byte) { s.publishEvent(ns, command.EventHash, "hexpired", key) },
		HashEmptied:   func(ns string, key []byte) { s.publishEvent(ns, command.EventGeneric, "del", key) },
	})
}

// followEvents takes over notify-keyspace-events, and begins or ends the sweep.
func (s *Server) followEvents(text string) {
	classes, _ := command.ParseEvents(text)
	if classes&(command.EventKeyspace|command.EventKeyevent) == 0 {
		classes = 0
	}
	s.events.Store(uint32(classes))
	s.sweep.Want(classes&sweptEvents != 0, classes&fieldEvents != 0)
}

// mayExpire returns an error when there is a pause, and on a replica. With a lock held its answer holds until that is
// given back.
func (s *Server) mayExpire() error {
	if s.db.IsReplica() {
		return sweep.ErrNotHere
	}
	if s.isPaused() {
		return sweep.ErrPaused
	}
	return nil
}
