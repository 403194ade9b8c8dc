package hll

import (
	"encoding/binary"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/enginetest"
)

const ns = cf.DefaultNamespace

var (
	update = enginetest.Update
	view   = enginetest.View
	raw    = enginetest.Bytes
)

// numbered returns n distinct elements.
func numbered(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = binary.LittleEndian.AppendUint64(nil, uint64(i))
	}
	return list
}
