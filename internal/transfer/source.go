package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/server/resp"
)

// Kind is the kind of a file's content.
type Kind string

// The kinds of files that are read.
const (
	RDB      Kind = "rdb"      // a dump of Redis or Valkey
	Commands Kind = "commands" // an append-only file, or the input of redis-cli --pipe
)

// File is a file to read.
type File struct {
	Path string
	Kind Kind
	Size int64 // < 0 = not known
}

var ErrFormat = errors.New("neither an RDB file, nor an append-only file, nor commands")

// Files returns the files of a path in reading order: the path itself; for a directory or a manifest, the files of the
// append-only file in several parts that it describes. "-" is the standard input.
func Files(path string) ([]File, error) {
	if path == "-" {
		return []File{{Path: path, Size: -1}}, nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		manifests, err := filepath.Glob(filepath.Join(path, "*.manifest"))
		if err != nil {
			return nil, err
		}
		if len(manifests) != 1 {
			return nil, fmt.Errorf("%s has %d manifests of an append-only file, not one", path, len(manifests))
		}
		path = manifests[0]
	}
	if !strings.HasSuffix(path, ".manifest") {
		f, err := detect(path)
		return []File{f}, err
	}
	return manifest(path)
}

// detect determines the kind of a file from its beginning.
func detect(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	var head [16]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return File{}, err
	}
	kind, err := kindOf(head[:n])
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return File{path, kind, st.Size()}, nil
}

func kindOf(head []byte) (Kind, error) {
	switch {
	case bytes.HasPrefix(head, []byte("REDIS0")), bytes.HasPrefix(head, []byte("VALKEY")):
		return RDB, nil
	case len(head) == 0, head[0] == '*', head[0] == '#':
		return Commands, nil
	}
	for _, c := range head {
		if (c < ' ' || c > '~') && c != '\r' && c != '\n' && c != '\t' {
			return "", ErrFormat
		}
	}
	return Commands, nil
}

// manifest parses the manifest of an append-only file, a line for each part:
//
//	file NAME seq N type b|i|h
//
// where b is the base, i an increment and h a part that is not needed any more. A name with blanks is quoted.
func manifest(path string) ([]File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var files []File
	last := int64(0)
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		bad := func(why string) error { return fmt.Errorf("%s:%d: %s", path, n+1, why) }
		var d resp.Decoder
		args, size, err := d.Next([]byte(line+"\n"), nil)
		if err != nil || size == 0 || len(args) < 6 || len(args)%2 != 0 {
			return nil, bad("not a line of a manifest")
		}
		about := map[string]string{}
		for i := 0; i < len(args); i += 2 {
			about[string(args[i])] = string(args[i+1])
		}
		name := about["file"]
		seq, err := strconv.ParseInt(about["seq"], 10, 64)
		if err != nil || name == "" || name != filepath.Base(name) || name == ".." {
			return nil, bad("not a line of a manifest")
		}
		switch about["type"] {
		case "h":
			continue
		case "b":
			if len(files) > 0 {
				return nil, bad("a second base")
			}
		case "i":
			if seq <= last {
				return nil, bad("increments out of order")
			}
			last = seq
		default:
			return nil, bad("a part of type " + strconv.Quote(about["type"]))
		}
		f, err := detect(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s names no file", path)
	}
	return files, nil
}

// maxCommand is the max size of a command in bytes.
const maxCommand = 1 << 30

// commandReader splits a file into commands.
type commandReader struct {
	r      io.Reader
	d      resp.Decoder
	buf    []byte
	pos    int
	offset int64 // in the file, of buf[pos]
	end    bool
	args   [][]byte
}

func newCommandReader(r io.Reader, offset int64) *commandReader {
	c := &commandReader{r: r, offset: offset, buf: make([]byte, 0, 1<<20)}
	c.d.MaxBulk = maxCommand
	return c
}

var errTruncated = errors.New("the file ends within a command")

// next returns the next command, as bytes and as arguments, valid until the next call. At the end the error is io.EOF.
func (c *commandReader) next() (raw []byte, args [][]byte, err error) {
	for {
		rest := c.buf[c.pos:]
		if len(rest) > 0 && rest[0] == '#' { // an annotation in an append-only file
			if n := bytes.IndexByte(rest, '\n'); n >= 0 {
				c.skip(n + 1)
				continue
			}
		} else {
			var n int
			c.args, n, err = c.d.Next(rest, c.args[:0])
			switch {
			case err != nil:
				return nil, nil, fmt.Errorf("at byte %d: %w", c.offset, err)
			case n > 0 && len(c.args) == 0:
				c.skip(n)
				continue
			case n > 0:
				c.skip(n)
				return rest[:n], c.args, nil
			}
		}
		if c.end {
			if len(rest) > 0 {
				return nil, nil, errTruncated
			}
			return nil, nil, io.EOF
		}
		if err := c.fill(); err != nil {
			return nil, nil, err
		}
	}
}

func (c *commandReader) skip(n int) {
	c.pos += n
	c.offset += int64(n)
}

// fill moves the remaining data to the beginning of the buffer and reads more.
func (c *commandReader) fill() error {
	rest := copy(c.buf[:cap(c.buf)], c.buf[c.pos:])
	c.buf, c.pos = c.buf[:rest], 0
	if rest == cap(c.buf) {
		if rest > maxCommand {
			return fmt.Errorf("at byte %d: a command of more than %d bytes", c.offset, maxCommand)
		}
		c.buf = append(make([]byte, 0, 2*rest), c.buf...)
	}
	n, err := c.r.Read(c.buf[rest:cap(c.buf)])
	c.buf = c.buf[:rest+n]
	if err == io.EOF {
		c.end = true
		return nil
	}
	return err
}

// open opens a file, or the standard input.
func (f *File) open(stdin io.Reader) (io.ReadCloser, error) {
	if f.Path != "-" {
		return os.Open(f.Path)
	}
	r := bufio.NewReaderSize(stdin, 64<<10)
	head, err := r.Peek(16)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if f.Kind, err = kindOf(head); err != nil {
		return nil, err
	}
	return io.NopCloser(r), nil
}
