package destination

import (
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
)

// Errors of an import by table files.
var (
	errNotImporting = engine.NewError("ERR", "this connection imports no slots")
	errNoFiles      = engine.NewError("ERR", "no records for table files are taken")
	errFollowed     = engine.NewError("ERR", "table files are not taken while replicas or backups follow this node")
)

// BeginFiles begins to collect records that EndFiles ingests as table files. These records are not in the log, so
// BeginFiles fails while a replica or a backup follows the log, and the source sends the records by APPLYBATCH instead.
func (i *Import) BeginFiles(link Link) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now.Load()
	switch {
	case now.state != Started || now.link != link:
		return errNotImporting
	case i.opt.FilesDir == "":
		return errNoFiles
	case i.opt.Followed():
		return errFollowed
	}
	if err := i.dropFiles(); err != nil {
		return err
	}
	var err error
	i.files, err = i.opt.DB.NewIngest(i.opt.FilesDir, now.slots)
	stage.Step(stage.FilesBegun)
	return err
}

// AddRecords collects the records of a write batch, see [engine.Ingest.Add]. After an error the import cannot succeed.
func (i *Import) AddRecords(link Link, rep []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := i.now.Load(); i.files == nil || now.state != Started || now.link != link {
		return errNoFiles
	}
	err := i.files.Add(rep)
	stage.Step(stage.FilesCame)
	return err
}

// EndFiles ingests the collected records. Replicas that have connected meanwhile are disconnected: the log has a gap
// where the files came, so they get a copy of the database.
func (i *Import) EndFiles(link Link) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now.Load()
	if i.files == nil || now.state != Started || now.link != link {
		return errNoFiles
	}
	stage.Step(stage.FilesAll)
	resume := i.opt.Suspend()
	err := i.files.Commit()
	resume()
	if err != nil {
		return fmt.Errorf("ingesting the table files: %w", err)
	}
	stage.Step(stage.Ingested)
	if err := i.dropFiles(); err != nil {
		i.opt.Log.Warn("the directory of ingested table files was not removed", zap.Error(err))
	}
	i.opt.Ingested()
	return nil
}

// dropFiles deletes the collected records, and those that an earlier process has left. mu must be held.
func (i *Import) dropFiles() error {
	if i.opt.FilesDir == "" {
		return nil
	}
	var err error
	if i.files != nil {
		err = i.files.Close()
		i.files = nil
	}
	return errors.Join(err, os.RemoveAll(i.opt.FilesDir))
}
