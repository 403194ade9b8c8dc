package lua

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/resp"
)

// The files of testdata hold scripts, one a line, each followed by the reply of redis-server 7.2.6, which begins with
// a tab and is quoted; lines that begin with # are comments.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text := require.File(t, file)
			e := newEngine(t, 0)
			script := ""
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSuffix(line, "\n")
				quoted, isReply := strings.CutPrefix(line, "\t")
				if !isReply {
					if !strings.HasPrefix(line, "#") {
						script = line
					}
					continue
				}
				want, err := strconv.Unquote(quoted)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				got := evalOn(t, e, emptyHost{&echo{}}, script)
				if strings.HasPrefix(want, "-") {
					want = strings.TrimSuffix(want, "\r\n")
				}
				if runtime.GOARCH != "amd64" { // an invalid operation of another CPU than Redis's gives a positive NaN
					got, want = unsignedNaN.Replace(got), unsignedNaN.Replace(want)
				}
				if got != want {
					t.Errorf("%s\n got %q\nwant %q", script, got, want)
				}
			}
		})
	}
}

var unsignedNaN = strings.NewReplacer("$4\r\n-nan", "$3\r\nnan", "-nan", "nan")

// emptyHost replies as a server without data.
type emptyHost struct{ *echo }

func (h emptyHost) Call(args [][]byte, out *resp.Writer) error {
	switch strings.ToLower(string(args[0])) {
	case "get":
		out.Null()
	case "ping":
		out.SimpleString("PONG")
	default:
		out.Error("ERR", "Unknown Redis command called from script")
	}
	return nil
}

// A function of a library that ends with an error closes its variables: those that have outlived it keep their values.
func TestFailedFunctionClosesVariables(t *testing.T) {
	e := New(Options{MemoryLimit: func() int64 { return 0 }, TimeLimit: noLimit, Version: "7.2.5", States: 1})
	l, err := e.Library([]byte(`#!lua name=l
local saved
redis.register_function('fail', function() local x = 7 saved = function() x = x + 1 return x end error('e') end)
redis.register_function('call', function() local a, b, c, d, f = 1, 2, 3, 4, saved return {saved(), f()} end)`))
	require.NoError(t, err)
	for i, want := range []string{"-ERR user_function:3: e script: fail, on @user_function:3.", "*2\r\n:8\r\n:9\r\n"} {
		r := &Run{Function: l.Functions[i], Host: &echo{}, Out: &resp.Writer{}}
		got := ""
		if err := e.Run(r); err != nil {
			got = "-" + err.Error()
		}
		if got += string(r.Out.Bytes()); got != want {
			t.Errorf("%s: %q, want %q", l.Functions[i].Name(), got, want)
		}
	}
}
