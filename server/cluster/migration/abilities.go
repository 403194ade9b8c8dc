package migration

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

// abilities is what the destination can take.
type abilities struct {
	applyBatch bool
	commands   map[string]bool
}

// needs are commands that a server has if it knows a type; what is not named every Kvrocks with a cluster knows.
var needs = map[cf.Type]string{
	cf.TypeBloom:        "bf.add",
	cf.TypeJSON:         "json.set",
	cf.TypeHyperLogLog:  "pfadd",
	cf.TypeTDigest:      "tdigest.create",
	cf.TypeTimeSeries:   "ts.create",
	cf.TypeCuckooFilter: "cf.reserve",
}

// needsHashTTL is the command of a server that knows hashes whose fields may expire.
const needsHashTTL = "hpexpireat"

// askAbilities asks the destination which commands it has. It does so one by one: Kvrocks 2.10 leaves what it does not
// know out of longer replies.
func askAbilities(p *peer) (*abilities, error) {
	a := &abilities{commands: map[string]bool{}}
	names := []string{"applybatch", needsHashTTL, needsFiles}
	for _, name := range needs {
		names = append(names, name)
	}
	for _, name := range names {
		rep, err := p.do("COMMAND", "INFO", name)
		if err != nil {
			return nil, fmt.Errorf("asking the destination for its commands: %w", err)
		}
		if rep.kind == '*' && len(rep.items) == 1 && rep.items[0].kind == '*' && len(rep.items[0].items) > 0 {
			a.commands[name] = true
		}
	}
	a.applyBatch = a.commands["applybatch"]
	return a, nil
}

// isHashTTL reports whether a record, of which rec is everything, is that of a hash whose fields may expire.
func isHashTTL(m *cf.Meta, record []byte) bool {
	if m.Type != cf.TypeHash {
		return false
	}
	_, tail, err := cf.DecodeMeta(record)
	return err == nil && len(tail) > 0
}

// carries returns an error when the destination does not know the type of a key.
func (a *abilities) carries(m *cf.Meta, nsKey, record []byte) error {
	need := needs[m.Type]
	if isHashTTL(m, record) {
		need = needsHashTTL
	}
	switch {
	case !m.Type.Known():
		return fmt.Errorf("key %q is of a type that this version does not know", userKey(nsKey))
	case need != "" && !a.commands[need]:
		return fmt.Errorf("the destination does not know the type of key %q: it has no %s", userKey(nsKey), need)
	}
	return nil
}

func userKey(nsKey []byte) []byte {
	_, key, err := cf.SplitNSKey(nsKey, true)
	if err != nil {
		return nsKey
	}
	return key
}
