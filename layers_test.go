package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// layers are the packages from the top to the bottom. A package imports packages of lower layers, and those of its own
// directory; packages of one layer do not know each other. A directory stands for all below it that have no line of
// their own. What is not named below server/ is a room.
var layers = [][]string{
	{".", "internal/fixture", "server/servertest"}, // the latter two are for tests
	{"internal/cli"},
	{"internal/migrate"},
	{"internal/backup", "internal/transfer"}, // and what else is behind a sub-command
	{"server"},
	{"server/operators", "server/options", "server/report"},
	{"server/session"},
	{rooms},
	{"server/info"}, // whose fields admin exports
	{"server/command"},
	{"server/acl", "server/config", "server/logging", "server/lua", "server/rdb", "server/replication/proto",
		"server/tlsconfig", "server/wire"},
	{"server/resp", "server/glob"},
	{"engine"},
	{"compaction"},
	{"cf", "internal"},
}

const rooms = "server/*"

// inside are the layers of rooms that have several packages, as layers. All packages of such a room are named.
var inside = map[string][][]string{
	"server/replication": {
		{"master", "replica"},
		{"backlog", "checkpoint", "fullsync", "rdbsync", "redistarget"},
		{"history", "lineconn", "redislink"},
		{"proto"},
	},
	"server/config": {
		{"convert"},
		{"conffile", "memplan"},
		{"setting"},
	},
	"server/lua": {
		{"luac"},
	},
	"server/cluster": {
		{"broadcast", "migration"},
		{"peer", "topology"},
		{"peertest"}, // for tests
	},
	"server/cluster/migration": {
		{"source", "destination"},
		{"carry"},
		{"pace", "slotdata", "stage"},
	},
}

// maxRoom bounds the lines of a package without its tests: of one of a room, and of those in bounded.
const maxRoom = 1500

var bounded = []string{"server", "server/operators", "server/options", "server/report", "server/acl", "server/config",
	"server/rdb"}

// forbidden are imports that the layers would allow.
var forbidden = []struct {
	from, to string
	why      string
}{
	{rooms, "server/config", "rooms get values, and setters for changes"},
	{"server/wire", "engine", "wire moves bytes"},
	{"server/wire", "cf", "wire moves bytes"},
	{"server/resp", "engine", "the protocol is independent of the data"},
	{"engine", "server", "the engine is independent of its clients"},
}

// room returns the line of layers that a package belongs to, and the number of the layer.
func room(pkg string) (name string, layer int) {
	for dir := pkg; ; dir = path.Dir(dir) {
		if i := slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, dir) }); i >= 0 {
			if dir == "server" && pkg != "server" {
				return rooms, slices.IndexFunc(layers, func(l []string) bool { return l[0] == rooms })
			}
			if dir == "." && pkg != "." {
				return "", -1
			}
			return dir, i
		}
	}
}

// sameRoom reports whether two packages of one layer belong together.
func sameRoom(a, b string) bool {
	if nameA, _ := room(a); nameA != rooms {
		nameB, _ := room(b)
		return nameA == nameB
	}
	// server/replication and server/replication/proto, but not server
	inA, inB := strings.Split(a, "/"), strings.Split(b, "/")
	return len(inB) > 1 && inA[1] == inB[1]
}

// Imports go downwards only.
func TestLayers(t *testing.T) {
	for pkg, list := range packageImports(t) {
		name, layer := room(pkg)
		if layer < 0 {
			continue
		}
		for _, to := range list {
			toName, toLayer := room(to)
			switch {
			case toLayer < 0:
			case toLayer < layer:
				t.Errorf("%s imports %s, which is above it", pkg, to)
			case toLayer == layer && !sameRoom(pkg, to):
				t.Errorf("%s imports %s, which is beside it", pkg, to)
			}
			for _, f := range forbidden {
				if f.from == name && (f.to == toName || f.to == to) {
					t.Errorf("%s imports %s: %s", pkg, to, f.why)
				}
			}
		}
	}
}

// Inside of a room imports go downwards, too.
func TestLayersOfRooms(t *testing.T) {
	for pkg, list := range packageImports(t) {
		dir, name := path.Split(pkg)
		layers, ok := inside[path.Clean(dir)]
		if !ok {
			continue
		}
		layer := func(name string) int {
			return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, name) })
		}
		at := layer(name)
		if at < 0 {
			t.Errorf("%s has no layer in its room", pkg)
		}
		for _, to := range list {
			if toDir, toName := path.Split(to); toDir == dir && layer(toName) <= at {
				t.Errorf("%s imports %s, which is not below it", pkg, to)
			}
		}
	}
}

// No room has more lines than a reader can keep in mind.
func TestRoomSizes(t *testing.T) {
	lines := map[string]int{}
	for _, f := range sources(t) {
		if !f.test {
			lines[f.pkg] += f.lines
		}
	}
	for pkg, n := range lines {
		if name, _ := room(pkg); (name == rooms || slices.Contains(bounded, name)) && n > maxRoom {
			t.Errorf("%s has %d lines, more than %d", pkg, n, maxRoom)
		}
	}
}

// A package of a room has a test that needs neither a socket nor another room; so have the packages between server and
// session. Packages whose names end in "test" are for tests.
func TestRoomTests(t *testing.T) {
	wants, has := map[string]bool{}, map[string]bool{}
	for _, f := range sources(t) {
		name, layer := room(f.pkg)
		if name != rooms && (path.Dir(name) != "server" || !slices.Contains(bounded, name)) {
			continue
		}
		needs := func(to string) bool {
			_, toLayer := room(to)
			return toLayer >= 0 && toLayer <= layer && !sameRoom(f.pkg, to)
		}
		switch {
		case !f.test:
			wants[f.pkg] = wants[f.pkg] || f.functions && !strings.HasSuffix(f.pkg, "test")
		case !slices.ContainsFunc(f.own, needs) && !f.sockets:
			has[f.pkg] = true
		}
	}
	for pkg := range wants {
		if wants[pkg] && !has[pkg] {
			t.Errorf("%s has no test that needs neither a socket nor another room", pkg)
		}
	}
}

// packageImports returns the imports of the packages of this module within it, without tests. Names are relative to the
// module.
func packageImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	for _, f := range sources(t) {
		if !f.test {
			imports[f.pkg] = append(imports[f.pkg], f.own...)
		}
	}
	if len(imports["server"]) == 0 {
		t.Fatal("no imports were found")
	}
	return imports
}

// source is a file of this module.
type source struct {
	pkg       string // relative to the module
	test      bool
	lines     int
	functions bool
	sockets   bool     // it opens some
	own       []string // imports of this module, relative to it
}

var opensSocket = regexp.MustCompile(`net\.(Listen|Dial)|httptest\.New\w*Server|syscall\.Socket`)

// sources returns the files of this module.
func sources(t *testing.T) (list []source) {
	t.Helper()
	const module = "github.com/basaltdb/basalt"
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if file != "." && (base[0] == '.' || base == "testdata" || file == "build" || file == "third_party") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{pkg: filepath.ToSlash(filepath.Dir(file)), test: strings.HasSuffix(file, "_test.go"),
			lines: bytes.Count(text, []byte("\n")), functions: bytes.Contains(text, []byte("\nfunc ")),
			sockets: opensSocket.Match(text)}
		for _, spec := range f.Imports {
			to, _ := strconv.Unquote(spec.Path.Value)
			if to == module {
				s.own = append(s.own, ".")
			} else if rest, ok := strings.CutPrefix(to, module+"/"); ok {
				s.own = append(s.own, rest)
			}
		}
		list = append(list, s)
		return nil
	}))
	return list
}
