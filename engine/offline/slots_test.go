package offline

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// In a database of a cluster every key carries its slot, and one that carries another's is found.
func TestSlots(t *testing.T) {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir, Slots: true})
	fill(t, db, cf.DefaultNamespace)
	require.NoError(t, db.Close())
	if r := check(t, dir); !r.Slots || len(r.Problems) != 0 || r.Types["zset"].Subkeys != 3 {
		t.Errorf("%+v", r)
	}
	db = enginetest.OpenPlain(t, engine.Options{Dir: dir, Slots: true})
	key := cf.AppendNSKey(nil, cf.DefaultNamespace, []byte("wrong"), true)
	at := 1 + len(cf.DefaultNamespace)
	binary.BigEndian.PutUint16(key[at:], cf.Slot([]byte("wrong"))^1)
	var b batch.Builder
	meta := cf.Meta{Type: cf.TypeString}
	b.Put(cf.Metadata, key, append(meta.Append(nil), 'v'))
	require.NoError(t, db.WriteUncounted(b.Bytes()))
	require.NoError(t, db.CloseUncounted())
	if r := check(t, dir); len(r.Problems) != 1 || r.Problems[0].Kind != BadSlot || r.Problems[0].Key != "wrong" {
		t.Errorf("%+v", r.Problems)
	}
	// Opened in the wrong form, every key would be dropped.
	if _, err := Repair(t.Context(), dir, Options{}); !errors.Is(err, engine.ErrSlots) {
		t.Errorf("repaired: %v", err)
	}
}
