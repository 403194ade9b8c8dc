package json_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/json"
	"github.com/basaltdb/basalt/internal/fixture"
)

// TestKvrocksDocuments reads the documents in a data directory that Kvrocks wrote as Kvrocks read them, in both
// namespaces.
func TestKvrocksDocuments(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir + "/db"})
	defer db.Close()
	space, checked := ns, 0
	for _, r := range fixture.Reads(t) {
		switch r.Args[0] {
		case "AUTH":
			if space = ns; r.Args[1] == fixture.NamespaceToken {
				space = fixture.Namespace
			}
		case "JSON.GET":
			key := []byte(r.Args[1])
			err := db.View(space, [][]byte{key}, func(tx *engine.Tx) error {
				doc, err := json.Open(tx, key, json.NewBudget(0))
				if err != nil || !doc.Exists() {
					t.Errorf("%s of %s: %v", key, space, err)
					return err
				}
				text, err := doc.AppendText(nil)
				if err != nil {
					return err
				}
				if want := string(r.Reply.AppendRESP2(nil)); !strings.HasSuffix(want, "\r\n"+string(text)+"\r\n") {
					t.Errorf("%s of %s: %s, Kvrocks replied %q", key, space, text, want)
				}
				v, err := doc.First(json.Root())
				if err == nil && string(json.Append(nil, v)) != string(text) {
					t.Errorf("%s of %s: %s was decoded as %s", key, space, text, json.Append(nil, v))
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			checked++
		}
	}
	if checked != 4 {
		t.Errorf("%d documents", checked)
	}
}
