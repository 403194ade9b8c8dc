package server

import (
	"errors"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/redislink"
	"github.com/basaltdb/basalt/server/replication/redistarget"
	"github.com/basaltdb/basalt/server/session"
)

// redisCommands executes the commands of a Redis master. It is used by one link at a time.
type redisCommands struct {
	srv  *Server
	feed *session.Feed
	fed  []session.Fed

	// Of the database that is being filled: the indexes that it will have, and those of a key.
	indexes *search.Registry
	indexed search.Watch
}

var _ redistarget.Commands = (*redisCommands)(nil)

func (r *redisCommands) Namespace(db int) (string, error) {
	if n := r.srv.cfg.Databases(); db != 0 && int64(db) >= n {
		return "", fmt.Errorf("the master uses database %d, and redis-databases is %d", db, n)
	}
	return cf.DatabaseNamespace(db), nil
}

func (r *redisCommands) Run(commands []redislink.Command, stop <-chan struct{}, first func(tx *engine.Tx)) error {
	if r.feed == nil {
		r.feed = r.srv.sessions.NewFeed("master")
	}
	r.fed = r.fed[:0]
	defer func() { clear(r.fed) }()
	for i := range commands {
		c := &commands[i]
		ns, err := r.Namespace(c.DB)
		if err != nil {
			return err
		}
		r.fed = append(r.fed, session.Fed{Namespace: ns, Args: c.Args})
	}
	err := r.feed.Run(r.fed, stop, first)
	if failed, ok := errors.AsType[*session.FeedError](err); ok {
		c := &commands[failed.Index]
		key := ""
		if len(c.Args) > 1 {
			key = fmt.Sprintf(" %.100q", c.Args[1])
		}
		return fmt.Errorf("%s%s in database %d: %w", c.Name(), key, c.DB, failed.Err)
	}
	return err
}

func (r *redisCommands) BeginLoad(tx *engine.Tx) error {
	r.indexes = r.srv.sessions.Services.Indexes.Fixed()
	r.indexes.PutAll(tx)
	return nil
}

func (r *redisCommands) Restore(tx *engine.Tx, i *rdb.Item) error {
	r.indexed.Reset()
	if err := r.indexes.Before(tx, &r.indexed, i.Key); err != nil {
		return err
	}
	if err := command.RestoreNew(tx, i, r.srv.sessions.Limits.Bulk.Load()); err != nil {
		return err
	}
	return r.indexed.After(tx)
}

func (r *redisCommands) StoreLibrary(tx *engine.Tx, source []byte) error {
	return r.srv.sessions.Scripts.StoreLibrary(tx, source)
}

func (r *redisCommands) StoreScript(tx *engine.Tx, source []byte) error {
	return r.srv.sessions.Scripts.Store(tx, source)
}
