package command

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The files in facts hold, for each command, the facts that are not needed to run it, and where its keys are: what
// COMMAND INFO and COMMAND DOCS reply, the ACL categories, and which arguments are secrets. A family of commands has
// a file, named after the group of COMMAND DOCS. The facts of Redis's commands are those of Redis 7.2
// (src/commands/*.json), and of 7.4 and 8 for later commands. The other commands are described in the same words.
//
// A line that begins with a letter is the name of a command, with its container's before it: "client|kill". Lines with
// one tab in front are its facts, lines with two tabs continue the line above. Facts before the first command apply to
// all commands of the file that do not override them.
//
//	summary TEXT
//	since VERSION
//	complexity TEXT
//	categories @NAME ...      ACL categories beside those that follow from the flags, or none
//	keys PLACE[: SPECS]       where the keys are, and what the command does with them; see below
//	arguments ARGUMENT ...    see parseArguments
//	history VERSION TEXT      a change of the command, a line each
//	deprecated VERSION TEXT   since when, and what replaces it
//	tips TIP ...              hints for proxies and clients of several servers
//	system                    clients have no use for the command
//	secret WHICH              arguments that must not be shown to others, see secret.go
//
// PLACE is
//
//	1 -1 1     first, last (negative: from the end), step
//	#2         as many as the number at this index says, after it
//	movable    Spec.Keys finds them
//	none
//
// and SPECS is one key specification of COMMAND INFO, or several with / between them, see parseKeySpec.
//
//go:embed facts
var factFiles embed.FS

// facts are the contents of the files for a command.
type facts struct {
	group, summary, since, complexity string
	categories                        []string
	place, uses                       string // of keys
	first, last, step                 int    // of place, 0 = none
	counted                           int    // index of the number of keys, 0 = none
	keys                              []keySpec
	arguments                         []argument
	history                           []docChange
	deprecated, replaced              string
	tips                              []string
	system                            bool
	secret                            string
}

// docChange is a change of a command in Redis, for COMMAND DOCS: the version of the change, and its description.
type docChange struct{ version, change string }

// factsOf are the facts by the full names of the commands.
var factsOf = readFacts()

// readFacts reads all files. It panics when one is malformed, so at every start.
func readFacts() map[string]*facts {
	all := map[string]*facts{}
	files, err := factFiles.ReadDir("facts")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		text, err := factFiles.ReadFile("facts/" + f.Name())
		if err == nil {
			err = readFamily(all, strings.TrimSuffix(f.Name(), ".txt"), string(text))
		}
		if err != nil {
			panic(fmt.Sprintf("facts/%s: %v", f.Name(), err))
		}
	}
	return all
}

// readFamily adds the commands of a file.
func readFamily(all map[string]*facts, group, text string) error {
	family := facts{group: group}
	current := &family
	text = strings.ReplaceAll(text, "\n\t\t", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fact, isFact := strings.CutPrefix(line, "\t")
		switch {
		case line == "" || line[0] == '#':
			continue
		case !isFact && current == &family && strings.Contains(line, " "):
			fact = line // of the family
		case !isFact:
			if all[line] != nil {
				return fmt.Errorf("%s is described twice", line)
			}
			own := family
			current = &own
			all[line] = current
			continue
		}
		if err := current.add(fact); err != nil {
			return fmt.Errorf("%q: %w", fact, err)
		}
	}
	return nil
}

// add reads one fact.
func (f *facts) add(fact string) (err error) {
	name, text, _ := strings.Cut(fact, " ")
	switch name {
	case "summary":
		f.summary = text
	case "since":
		f.since = text
	case "complexity":
		f.complexity = text
	case "categories":
		f.categories = nil
		if text != "none" {
			f.categories = strings.Fields(text)
		}
	case "keys":
		f.place, f.uses, _ = strings.Cut(text, ": ")
		return f.parsePlace()
	case "arguments":
		f.arguments, err = parseArguments(text)
	case "history":
		version, change, _ := strings.Cut(text, " ")
		f.history = append(slices.Clip(f.history), docChange{version, change})
	case "deprecated":
		f.deprecated, f.replaced, _ = strings.Cut(text, " ")
	case "tips":
		f.tips = strings.Fields(text)
	case "system":
		f.system = true
	case "secret":
		f.secret = text
	default:
		err = fmt.Errorf("there is no such fact")
	}
	return err
}

// parsePlace reads where the keys are.
func (f *facts) parsePlace() (err error) {
	f.first, f.last, f.step, f.counted = 0, 0, 0, 0
	if at, ok := strings.CutPrefix(f.place, "#"); ok {
		f.counted, err = strconv.Atoi(at)
		return err
	}
	if f.place == "movable" || f.place == "none" {
		return nil
	}
	n, err := fmt.Sscanf(f.place, "%d %d %d", &f.first, &f.last, &f.step)
	if err == nil && (n != 3 || f.first < 1 || f.step < 1) {
		err = fmt.Errorf("this is no place of keys")
	}
	return err
}

// describe adds the facts to a row of the table. It panics when the facts are missing, or do not fit the row.
func (s *Spec) describe() {
	f := factsOf[s.full]
	if f == nil {
		panic("no file in facts describes " + s.full)
	}
	if movable := f.counted != 0 || f.place == "movable"; f.first == 0 && movable != (s.Keys != nil) {
		panic(fmt.Sprintf("%s: its keys are at %q, which does not fit its Spec.Keys", s.full, f.place))
	}
	s.facts, s.first, s.last, s.step = f, f.first, f.last, f.step
	if s.first == 0 && s.Keys == nil && f.uses == "" {
		return
	}
	uses := f.uses
	switch {
	case uses != "":
	case s.Flags&ReadOnly != 0:
		uses = "RO access"
	default:
		uses = "RW access update"
	}
	for one := range strings.SplitSeq(uses, " / ") {
		f.keys = append(f.keys, s.parseKeySpec(one))
	}
}
