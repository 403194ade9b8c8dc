package logging

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/internal/require"
)

func TestStdout(t *testing.T) {
	var out bytes.Buffer
	l, err := Open(Options{stdout: &out, Level: "warning"})
	require.NoError(t, err)
	l.Info("hidden")
	l.Warn("shown", zap.Int("port", 6666))
	require.NoError(t, l.SetLevel("info"))
	l.Info("shown too")
	require.NoError(t, l.Close())
	want := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d{4}) warning shown \{"port": 6666\}\n\S+ ` +
		`info shown too\n$`)
	if !want.Match(out.Bytes()) {
		t.Errorf("log is %q", out.String())
	}
}

func TestLevels(t *testing.T) {
	for _, level := range []string{"debug", "info", "warning", "error", "fatal"} {
		if _, err := Open(Options{Level: level}); err != nil {
			t.Errorf("%s: %v", level, err)
		}
	}
	for _, level := range []string{"trace", "INFO", "x"} {
		if _, err := Open(Options{Level: level}); err == nil || !strings.Contains(err.Error(), level) {
			t.Errorf("%s: error is %v", level, err)
		}
	}
}

func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "logs")
	for _, message := range []string{"first", "second"} {
		l, err := Open(Options{Targets: []Target{{Name: dir}}, RetentionDays: 1})
		require.NoError(t, err)
		l.Info(message)
		l.SetRetentionDays(7)
		l.Info(message + " again")
		require.NoError(t, l.Close())
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.log")) // two, if it is midnight
	require.NoError(t, err)
	var text []byte
	for _, file := range files {
		part := require.File(t, file)
		text = append(text, part...)
	}
	if n := bytes.Count(text, []byte("\n")); n != 4 || !bytes.Contains(text, []byte("first again")) ||
		!bytes.Contains(text, []byte("second again")) {
		t.Errorf("log is %q", text)
	}
}

// TestReopen: a log file that was renamed is left alone after Reopen, and a directory that was deleted is made again.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	l, err := Open(Options{Targets: []Target{{Name: dir}}})
	require.NoError(t, err)
	defer l.Close()
	name := filepath.Join(dir, FileName)
	first, err := os.Stat(name)
	require.NoError(t, err)
	for _, away := range []func() error{
		func() error { return os.Rename(name, name+".1") },
		func() error { return os.RemoveAll(dir) },
	} {
		l.Info("before")
		require.NoError(t, away())
		l.Reopen()
		l.Info("after")
		b, err := os.ReadFile(name)
		if err != nil || !bytes.HasSuffix(b, []byte("info after\n")) || bytes.Contains(b, []byte("before")) {
			t.Errorf("the log is %q, %v", b, err)
		}
		if now, err := os.Stat(name); err != nil || now.Mode() != first.Mode() {
			t.Errorf("the mode of the file was %v, now %v, %v", first.Mode(), now.Mode(), err)
		}
	}
}

// TestStalledReader: lines that nobody reads are lost, and no one waits for the reader.
func TestStalledReader(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	s := &stream{File: w}
	line := bytes.Repeat([]byte("x"), 4096)
	write := func() {
		t.Helper()
		if n, err := s.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	for !s.stalled {
		write()
	}
	write()
	if _, err := io.ReadFull(r, line); err != nil {
		t.Fatal(err)
	}
	if write(); s.stalled {
		t.Error("the reader goes on, the log does not")
	}
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	if _, err := Open(Options{Targets: []Target{{Name: file}}}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error is %v", err)
	}
}

// TestRotationByDay checks that a new day starts a new file, also when the last write was in an earlier run.
func TestRotationByDay(t *testing.T) {
	name := filepath.Join(t.TempDir(), FileName)
	day := time.Date(2030, 5, 1, 23, 59, 59, 0, time.Local)
	now := func() time.Time { return day }
	r, err := openRotator(name, -1, now)
	require.NoError(t, err)
	write := func(line string) {
		t.Helper()
		if _, err := r.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	backups := func() int {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(filepath.Dir(name), "basalt-*.log"))
		require.NoError(t, err)
		return len(list)
	}
	write("one\n")
	write("two\n")
	if n := backups(); n != 0 {
		t.Fatalf("%d rotated files within a day", n)
	}
	day = day.Add(time.Second)
	write("three\n")
	if text, _ := os.ReadFile(name); string(text) != "three\n" || backups() != 1 {
		t.Errorf("after midnight the file is %q and %d files are rotated", text, backups())
	}
	r.Close()
	require.NoError(t, os.Chtimes(name, day, day))
	day = day.AddDate(0, 0, 3)
	if r, err = openRotator(name, -1, now); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	write("four\n")
	if text, _ := os.ReadFile(name); string(text) != "four\n" {
		t.Errorf("after a restart on a later day the file is %q", text)
	}
}

func TestParseTargets(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []Target
		err  string
	}{
		{"", nil, ""},
		{"stdout", []Target{{Stdout, ""}}, ""},
		{"/var/log/a", []Target{{"/var/log/a", ""}}, ""},
		{" /a , STDOUT:warning,stderr:error ", []Target{{"/a", ""}, {Stdout, "warning"}, {Stderr, "error"}}, ""},
		{"/a:debug", []Target{{"/a", "debug"}}, ""},
		{"/a:loud", nil, "loud"},
		{"/a,,stdout", nil, "empty"},
		{":info", nil, "empty"},
	} {
		got, err := ParseTargets(tt.text)
		switch {
		case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: error is %v", tt.text, err)
		case !slices.Equal(got, tt.want):
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
}

// Each target has a level of its own, below that of the log.
func TestTargetLevels(t *testing.T) {
	dir := t.TempDir()
	var out, errs bytes.Buffer
	l, err := Open(Options{Targets: []Target{{dir, ""}, {Stdout, "warning"}, {Stderr, "error"}}, stdout: &out,
		stderr: &errs})
	require.NoError(t, err)
	l.Debug("below the log's own level")
	l.Info("one")
	l.Warn("two")
	require.NoError(t, l.SetLevel("error"))
	l.Warn("no longer")
	l.Error("three")
	require.NoError(t, l.Close())
	file := require.File(t, filepath.Join(dir, FileName))
	messages := func(text string) string {
		var all []string
		for line := range strings.Lines(text) {
			all = append(all, strings.TrimSpace(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:]))
		}
		return strings.Join(all, " ")
	}
	for _, tt := range [][3]string{{"file", string(file), "one two three"}, {"stdout", out.String(), "two three"},
		{"stderr", errs.String(), "three"}} {
		if got := messages(tt[1]); got != tt[2] {
			t.Errorf("%s: %q, want %q", tt[0], got, tt[2])
		}
	}
}
