package bulkload

import (
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/server/command"
)

// What table files cannot do as commands do it is refused before anything is written.
func TestRefused(t *testing.T) {
	notifying, followed := false, false
	l := New(Options{DB: enginetest.Open(t), Dir: filepath.Join(t.TempDir(), "files"), Log: zap.NewNop(),
		Notifying: func() bool { return notifying }, Followed: func() bool { return followed },
		Indexed: func() bool { return false }})
	sess := &command.Session{}
	refused := func(want error, step command.IngestStep) {
		t.Helper()
		if err := l.Ingest(sess, step, nil); err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	refused(errNotBegun, command.IngestRecords)
	refused(errNotBegun, command.IngestEnd)
	followed = true
	refused(errFollowed, command.IngestBegin)
	notifying = true
	refused(errNotifying, command.IngestBegin)
	l.owner = &command.Session{}
	refused(errBusy, command.IngestBegin)
	refused(errNotBegun, command.IngestRecords)
}
