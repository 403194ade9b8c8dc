package offline

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

// propagate checks scripts, functions and namespaces.
func (c *checker) propagate() error {
	return c.walk(cf.Propagate, "scripts", 0, func(key, value []byte) {
		name := string(key)
		has := func(prefix string) (rest []byte, ok bool) { return bytes.CutPrefix(key, []byte(prefix)) }
		var err error
		if rest, ok := has(cf.PropagateScript); ok {
			c.report.Scripts++
			if sum := sha1.Sum(value); hex.EncodeToString(sum[:]) != string(rest) {
				err = fmt.Errorf("the script's SHA-1 is %x", sum)
			}
		} else if rest, ok := has(cf.PropagateLibrary); ok {
			c.report.Library++
			if len(rest) == 0 || !bytes.HasPrefix(value, []byte("#!lua")) {
				err = fmt.Errorf("no library begins like that: %.20q", value)
			}
		} else if _, ok := has(cf.PropagateFunction); ok {
			_, found, e := c.r.Get(cf.Propagate, append([]byte(cf.PropagateLibrary), value...), nil)
			if e == nil && !found {
				err = fmt.Errorf("the library %s of the function is missing", Show(value))
			}
		} else {
			switch name {
			case cf.PropagateReplicationID:
				if len(value) != cf.ReplicationIDLen {
					err = fmt.Errorf("a replication id of %d bytes", len(value))
				}
			case cf.PropagateNamespaces:
				_, err = cf.DecodeNamespaces(value)
			case cf.PropagateBitOrder:
				if string(value) != cf.BitOrderRedis {
					err = fmt.Errorf("bit order %.20q", value)
				}
			}
		}
		if err != nil {
			c.problem(Problem{Kind: BadPropagate, Family: cf.Propagate.String(), Key: Show(key), Detail: err.Error()},
				func(m *mender) string { return m.drop(cf.Propagate, key, string(BadPropagate)) })
		}
	})
}

// search checks the definitions and the rows of search indexes. It does not compare the rows with the keys.
func (c *checker) search() error {
	return c.walk(cf.Search, "search indexes", 0, func(key, value []byte) {
		c.report.Indexes++
		k, err := cf.ParseSearchKey(key)
		if err == nil {
			switch k.Kind {
			case cf.SearchIndexMeta:
				_, err = cf.DecodeSearchIndex(value)
			case cf.SearchPrefixes:
				_, err = cf.DecodeSearchPrefixes(nil, value)
			case cf.SearchFieldMeta:
				_, err = cf.DecodeSearchField(value)
			}
		}
		if err != nil { // no repair: Kvrocks rebuilds the index with FT.CREATE
			c.problem(Problem{Kind: BadSearch, Family: cf.Search.String(), Key: Show(key), Detail: err.Error()}, nil)
		}
	})
}
