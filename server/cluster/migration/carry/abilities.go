package carry

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
	"github.com/basaltdb/basalt/server/cluster/peer"
)

// Abilities are the features of a destination.
type Abilities struct {
	ApplyBatch bool // it has the command APPLYBATCH
	commands   map[string]bool
}

// needs maps a type to a command that exists on every server with that type. Every Kvrocks with a cluster knows the
// types that are missing here.
var needs = map[cf.Type]string{
	cf.TypeBloom:        "bf.add",
	cf.TypeJSON:         "json.set",
	cf.TypeHyperLogLog:  "pfadd",
	cf.TypeTDigest:      "tdigest.create",
	cf.TypeTimeSeries:   "ts.create",
	cf.TypeCuckooFilter: "cf.reserve",
}

// needsHashTTL is a command that exists on every server with expiring hash fields.
const needsHashTTL = "hpexpireat"

// Ask asks a destination which commands it has, one command at a time: Kvrocks 2.10 leaves unknown commands out of a
// longer reply.
func Ask(p *peer.Peer) (*Abilities, error) {
	a := &Abilities{commands: map[string]bool{}}
	names := []string{"applybatch", needsHashTTL, ingest}
	for _, name := range needs {
		names = append(names, name)
	}
	for _, name := range names {
		rep, err := p.Do("COMMAND", "INFO", name)
		if err != nil {
			return nil, fmt.Errorf("asking the destination for its commands: %w", err)
		}
		if rep.Kind == '*' && len(rep.Elems) == 1 && len(rep.Elems[0].Elems) > 0 {
			a.commands[name] = true
		}
	}
	a.ApplyBatch = a.commands["applybatch"]
	return a, nil
}

// isHashTTL reports whether a complete metadata record is that of a hash with expiring fields.
func isHashTTL(m *cf.Meta, record []byte) bool {
	if m.Type != cf.TypeHash {
		return false
	}
	_, tail, err := cf.DecodeMeta(record)
	return err == nil && len(tail) > 0
}

// carries returns an error when the destination does not know the type of a key.
func (a *Abilities) carries(m *cf.Meta, nsKey, record []byte) error {
	need := needs[m.Type]
	if isHashTTL(m, record) {
		need = needsHashTTL
	}
	switch {
	case !m.Type.Known():
		return fmt.Errorf("key %q is of a type that this version does not know", slotdata.UserKey(nsKey))
	case need != "" && !a.commands[need]:
		return fmt.Errorf("the destination does not know the type of key %q: it has no %s", slotdata.UserKey(nsKey), need)
	}
	return nil
}
