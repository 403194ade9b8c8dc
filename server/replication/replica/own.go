package replica

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/internal/durable"
)

// ownWrites is whether the database may have writes that its last master did not send: those of clients, or of a link
// to a Redis master. Sequence numbers alone then do not show whether it shares a history with a master. A file tells
// processes to come: one that is killed before it has synchronised may be told to follow a master at its start.
type ownWrites struct {
	path string
	log  *zap.Logger
	mu   sync.Mutex
	are  bool // the file exists
}

// OwnWrites is the name of that file, in the base directory.
const OwnWrites = "own_writes"

func openOwnWrites(path string, log *zap.Logger) *ownWrites {
	_, err := os.Stat(path)
	return &ownWrites{path: path, log: log, are: err == nil}
}

func (o *ownWrites) get() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.are
}

func (o *ownWrites) set(are bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.are == are {
		return
	}
	o.are = are
	var err error
	if are {
		err = durable.Write(o.path, nil, 0o600)
	} else if err = os.Remove(o.path); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		o.log.Error("whether clients have written could not be kept", zap.Bool("written", are), zap.Error(err))
	}
}
