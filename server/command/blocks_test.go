package command

import (
	"strings"
	"testing"
)

// TestMayBlock: a command with the option BLOCK may block, whatever the names of its keys, groups and consumers are.
func TestMayBlock(t *testing.T) {
	for _, tt := range []struct {
		command string
		want    bool
	}{
		{"BLPOP k 0", true},
		{"WAIT 0 0", false},
		{"GET block", false},
		{"XREAD STREAMS k 0", false},
		{"XREAD COUNT 3 block 0 STREAMS k $", true},
		{"XREADGROUP GROUP g c STREAMS k >", false},
		{"XREADGROUP GROUP g c NOACK COUNT 1 BLOCK 10 STREAMS k >", true},
		{"XREADGROUP BLOCK 0 GROUP g c STREAMS k >", true},
		{"XREADGROUP GROUP streams streams BLOCK 0 STREAMS k >", true},
	} {
		var args [][]byte
		for word := range strings.FieldsSeq(tt.command) {
			args = append(args, []byte(word))
		}
		spec, err := Resolve(args)
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.MayBlock(args); got != tt.want {
			t.Errorf("%s: may block is %v", tt.command, got)
		}
	}
}
