package bulkload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// LoadFiles is SST LOAD: it brings the table files of a directory into the database, and returns their number.
func (l *Loads) LoadFiles(sess *command.Session, dir string, move bool) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.may(sess); err != nil {
		return 0, err
	}
	files, err := tableFiles(dir)
	if err != nil {
		return 0, engine.NewError("ERR", err.Error())
	}
	done := sess.Control.Done()
	err = l.commit(done, func() error { return l.opt.DB.LoadFiles(files, move, l.mayCommit, done) })
	return len(files), err
}

// keyFamilies are the families of keys. What the others hold, such as functions and definitions of indexes, the server
// has in memory too.
var keyFamilies = []cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream}

// tableFiles returns the table files in a directory. The name of a file contains the name of its family.
func tableFiles(dir string) (files []engine.TableFile, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".sst" {
			continue
		}
		n := 0
		for _, id := range keyFamilies {
			if strings.Contains(e.Name(), id.String()) {
				files = append(files, engine.TableFile{Family: id, Path: filepath.Join(dir, e.Name())})
				n++
			}
		}
		if n != 1 {
			return nil, fmt.Errorf("the name of %s must contain the name of one column family of keys: %v", e.Name(),
				keyFamilies)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no .sst file in %s", dir)
	}
	return files, nil
}
