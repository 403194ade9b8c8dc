package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/config"
)

// documents returns the paths of all documents: README.md, CONTRIBUTING.md, docs.
func documents(t *testing.T) []string {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md", "third_party/README.md"}
	err := filepath.WalkDir("docs", func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) < 10 {
		t.Fatal(paths, err)
	}
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	b := require.File(t, path)
	return string(b)
}

// block is a fenced block of a document.
type block struct {
	language string // what follows the fence
	lines    []string
	line     int // of the fence, from 1
}

// blocks splits a document into its fenced blocks and its other lines, where fenced lines are replaced by empty ones.
func blocks(text string) (fenced []block, prose []string) {
	inside := false
	for i, l := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(l, "```")
		switch {
		case fence && !inside:
			fenced = append(fenced, block{language: strings.TrimPrefix(l, "```"), line: i + 1})
		case inside && !fence:
			b := &fenced[len(fenced)-1]
			b.lines = append(b.lines, l)
		case !inside:
			prose = append(prose, l)
			continue
		}
		if fence {
			inside = !inside
		}
		prose = append(prose, "")
	}
	return fenced, prose
}

// anchor returns the anchor that renderers give a heading.
func anchor(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	return strings.ReplaceAll(regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(heading, ""), " ", "-")
}

// Lines of prose have at most 120 columns (tables and links cannot be wrapped), README.md has at most 120 lines, and
// every link within the repository leads to a file and, after a #, to a heading.
func TestDocumentsReadWell(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > 120 {
		t.Errorf("README.md has %d lines", n)
	}
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	for _, path := range documents(t) {
		_, prose := blocks(read(t, path))
		for i, l := range prose {
			if utf8.RuneCountInString(l) > 120 && !strings.HasPrefix(l, "|") && !strings.HasPrefix(l, "    ") {
				t.Errorf("%s:%d has %d columns", path, i+1, utf8.RuneCountInString(l))
			}
			for _, m := range link.FindAllStringSubmatch(l, -1) {
				target, heading, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				to := path
				if target != "" {
					to = filepath.Join(filepath.Dir(path), target)
				}
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s:%d: %v", path, i+1, err)
				} else if heading != "" && !slices.ContainsFunc(strings.Split(read(t, to), "\n"), func(l string) bool {
					return strings.HasPrefix(l, "#") && anchor(l) == heading
				}) {
					t.Errorf("%s:%d: %s has no heading #%s", path, i+1, to, heading)
				}
			}
		}
	}
}

// Files and settings that the documents name exist.
func TestDocumentsNameWhatExists(t *testing.T) {
	paths := regexp.MustCompile("`((?:engine|server|cf|compaction|scripts|docs|third_party|internal)/[\\w./-]+)`")
	settings := regexp.MustCompile("`((?:rocksdb\\.|tls-|lua-|slave-|json-|max-|compact-)[a-z0-9_.-]+)(?: [^`]*)?`")
	cfg := config.Default()
	for _, path := range documents(t) {
		_, prose := blocks(read(t, path))
		for i, l := range prose {
			for _, m := range paths.FindAllStringSubmatch(l, -1) {
				if _, err := os.Stat(m[1]); err != nil {
					t.Errorf("%s:%d: %v", path, i+1, err)
				}
			}
			for _, m := range settings.FindAllStringSubmatch(l, -1) {
				if _, ok := cfg.Get(m[1]); !ok {
					t.Errorf("%s:%d: there is no setting %s", path, i+1, m[1])
				}
			}
		}
	}
}

// TestDocumentedCommands runs the blocks of the language console as they stand, those of one document in one shell
// directory beside one new server: a line that begins with "$ " is given to sh, and the lines after it are what it
// prints, where a line of "..." stands for any lines, and … within a line for anything. The server listens on another
// port than 6666. The program is there as basalt.
func TestDocumentedCommands(t *testing.T) {
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is missing: scripts/bootstrap.sh --test installs it")
	}
	for _, path := range documents(t) {
		fenced, _ := blocks(read(t, path))
		fenced = slices.DeleteFunc(fenced, func(b block) bool { return b.language != "console" })
		if len(fenced) == 0 {
			continue
		}
		t.Run(path, func(t *testing.T) {
			dir := t.TempDir()
			p := start(t, "--dir", filepath.Join(dir, "data"), "--port", "0", "--log-dir", "stdout", "--bind", "127.0.0.1",
				// Compactions delete files while ldb opens the database.
				"--rocksdb.disable_auto_compactions", "yes", "--compaction-checker-cron", "")
			defer p.stop(syscall.SIGTERM)
			_, port, err := net.SplitHostPort(p.addr)
			require.NoError(t, err)
			self, err := os.Executable()
			require.NoError(t, err)
			program := write(t, dir+"/bin/basalt", "#!/bin/sh\n"+beBasalt+"=1 exec "+self+` "$@"`+"\n")
			require.NoError(t, os.Chmod(program, 0o755))
			for _, b := range fenced {
				runConsole(t, b, path, dir, port)
			}
		})
	}
}

func runConsole(t *testing.T, b block, path, dir, port string) {
	t.Helper()
	for i := 0; i < len(b.lines); i++ {
		command, ok := strings.CutPrefix(b.lines[i], "$ ")
		at := fmt.Sprintf("%s:%d", path, b.line+1+i)
		if !ok {
			t.Fatalf("%s: %q follows no command", at, b.lines[i])
		}
		var want []string
		for i+1 < len(b.lines) && !strings.HasPrefix(b.lines[i+1], "$ ") {
			i++
			want = append(want, strings.NewReplacer("…", ".*", "6666", port).Replace(regexp.QuoteMeta(b.lines[i]))+"\n")
			if b.lines[i] == "..." {
				want[len(want)-1] = "(?:.*\n)*"
			}
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "6666", port))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		got := strings.TrimRight(string(out), "\n") + "\n"
		if len(want) == 0 {
			want = []string{"\n"}
		}
		if !regexp.MustCompile(`\A` + strings.Join(want, "") + `\z`).MatchString(got) {
			t.Errorf("%s: %s prints\n%s%v", at, command, got, err)
		}
	}
}

// Blocks of the language sh call make, whose targets and variables exist.
func TestDocumentedTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	call := regexp.MustCompile(`(?m)^make ([a-z][a-z0-9 -]*[a-z])((?: +[A-Z]+=)?)`)
	seen := 0
	for _, path := range documents(t) {
		for _, m := range call.FindAllStringSubmatch(codeOf(read(t, path)), -1) {
			for _, target := range strings.Fields(m[1]) {
				seen++
				if !strings.Contains(makefile, "\n"+target+":") {
					t.Errorf("%s: there is no target %q of make", path, target)
				}
			}
			if name := strings.Trim(m[2], " ="); name != "" && !strings.Contains(makefile, "\n"+name+" ?=") {
				t.Errorf("%s: there is no variable %s of make", path, name)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d targets found", seen)
	}
}

// codeOf returns the code in a document: fenced blocks of sh, and words between backquotes.
func codeOf(text string) string {
	fenced, prose := blocks(text)
	var code []string
	for _, b := range fenced {
		if b.language == "sh" {
			for _, l := range b.lines {
				l, _, _ = strings.Cut(l, "  #")
				code = append(code, l)
			}
		}
	}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Join(prose, "\n"), -1) {
		code = append(code, m[1])
	}
	return strings.Join(code, "\n")
}

// The program in README.md is an example that the tests compile and run.
func TestDocumentedProgram(t *testing.T) {
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	example := words(read(t, "engine/readme_test.go"))
	fenced, _ := blocks(read(t, "README.md"))
	n := 0
	for _, b := range fenced {
		if b.language == "go" {
			n++
			for _, l := range b.lines {
				if !strings.Contains(example, words(strings.ReplaceAll(l, `"data/db"`, "dir"))) {
					t.Errorf("README.md:%d: engine/readme_test.go does not contain %q", b.line, l)
				}
			}
		}
	}
	if n != 1 {
		t.Errorf("README.md has %d programs", n)
	}
}
