package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// groups creates memory cgroups below one parent.
type groups struct {
	parent string // directory of the parent cgroup
	v2     bool
	limit  int64
}

// findGroups returns a groups with a limit in bytes. parent is a cgroup's directory, or "" for the group of this
// process. The error explains why groups are impossible.
func findGroups(parent string, limit int64) (*groups, error) {
	g := &groups{parent: parent, limit: limit}
	if parent == "" {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return nil, err
		}
		own, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return nil, err
		}
		if g.parent = ownGroup(string(mounts), string(own)); g.parent == "" {
			return nil, errors.New("no memory cgroup is mounted")
		}
	}
	_, err := os.Stat(filepath.Join(g.parent, "cgroup.controllers"))
	g.v2 = err == nil
	trial, err := g.make("trial")
	if err != nil {
		return nil, err
	}
	return g, trial.remove()
}

// ownGroup returns the directory of the memory cgroup of the process with these /proc/PID/mountinfo and cgroup, "" =
// none. A memory controller of version 1 takes precedence over version 2.
func ownGroup(mountinfo, cgroup string) string {
	found := ""
	for line := range strings.Lines(mountinfo) {
		// 36 35 98:0 /root /mountpoint options ... - type source superoptions
		before, after, ok := strings.Cut(line, " - ")
		f, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(super) < 3 {
			continue
		}
		var controller string
		switch {
		case super[0] == "cgroup" && slices.Contains(strings.Split(super[2], ","), "memory"):
			controller = "memory"
		case super[0] == "cgroup2" && found == "":
		default:
			continue
		}
		for line := range strings.Lines(cgroup) {
			// 4:memory:/path, or 0::/path
			part := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(part) < 3 || !slices.Contains(strings.Split(part[1], ","), controller) {
				continue
			}
			// A mount may show a part of the tree, as in a container.
			path := part[2]
			if rest, inside := strings.CutPrefix(path, strings.TrimSuffix(f[3], "/")); inside {
				path = rest
			}
			if found = filepath.Join(f[4], path); controller == "memory" {
				return found
			}
		}
	}
	return found
}

// group is a memory cgroup.
type group struct{ dir string }

func (g *groups) make(name string) (*group, error) {
	dir := filepath.Join(g.parent, fmt.Sprintf("benchdisk-%d-%s", os.Getpid(), name))
	limit := "memory.limit_in_bytes"
	if g.v2 {
		limit = "memory.max"
		// This fails when the controller is enabled already, or must not be: the limit below shows which.
		os.WriteFile(filepath.Join(g.parent, "cgroup.subtree_control"), []byte("+memory"), 0)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	made := &group{dir}
	// No O_CREATE: a missing file means that the group has no memory controller.
	f, err := os.OpenFile(filepath.Join(dir, limit), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strconv.FormatInt(g.limit, 10))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, errors.Join(err, made.remove())
	}
	return made, nil
}

// wrap makes a command start in the group: a shell enters the group and then executes the command.
func (g *group) wrap(cmd *exec.Cmd) *exec.Cmd {
	script := `echo $$ >"$0" && exec "$@"`
	args := append([]string{"-c", script, filepath.Join(g.dir, "cgroup.procs"), cmd.Path}, cmd.Args[1:]...)
	return exec.Command("/bin/sh", args...)
}

// oomKills returns the number of processes of the group that were killed because memory was exhausted.
func (g *group) oomKills() int64 {
	for _, file := range []string{"memory.oom_control", "memory.events"} { // of version 1 and 2
		b, err := os.ReadFile(filepath.Join(g.dir, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if text, found := strings.CutPrefix(line, "oom_kill "); found {
				n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
				return n
			}
		}
	}
	return 0
}

// remove removes the group after the end of its processes.
func (g *group) remove() error {
	var err error
	for range 100 {
		// The kernel releases an ended process after a moment.
		if err = os.Remove(g.dir); err == nil || os.IsNotExist(err) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
