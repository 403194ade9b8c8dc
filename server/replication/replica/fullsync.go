package replica

import (
	"errors"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// fullSync replaces the database by a copy of the master's.
func (l *link) fullSync() error {
	l.log.Info("a full synchronisation begins")
	began := time.Now()
	defer l.meter.End()
	l.setState(FetchingMeta)
	names, err := l.files.List()
	if err != nil {
		return err
	}
	if l.r.settings.Load().EmptyFirst {
		if err := l.empty(); err != nil {
			return proto.Refuse("emptying the database", err)
		}
	}
	l.setState(FetchingFiles)
	if err := l.files.Fetch(names); err != nil {
		return err
	}
	if err := l.replace(l.r.o.Dir); err != nil {
		// Files of two databases may have been mixed.
		return errors.Join(proto.Refuse("replacing the database", err), l.files.Clear())
	}
	l.files.Taken()
	l.equal()
	l.log.Info("a full synchronisation has ended", zap.Duration("took", time.Since(began)),
		zap.Uint64("sequence", l.db.LatestSequence()))
	return nil
}

// equal records that all writes of the database are the master's, unless another master or none is followed meanwhile.
func (l *link) equal() {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if l.r.link == l {
		l.r.own.set(false)
	}
}

// replace replaces the database, unless another master or none is followed meanwhile: clients may then have written
// since.
func (l *link) replace(dir string) error {
	l.setState(Replacing)
	defer l.r.o.Replaced()
	defer l.r.o.Replacing()()
	return l.db.Replace(dir, func() bool {
		l.r.mu.Lock()
		defer l.r.mu.Unlock()
		return l.r.link == l
	})
}

// empty replaces the database by an empty one.
func (l *link) empty() error {
	dir := l.r.o.Dir + ".empty"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	db, err := engine.Open(engine.Options{Dir: dir, Slots: l.db.Slots()})
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	return l.replace(dir)
}
