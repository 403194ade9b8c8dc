package acl

import (
	"errors"
	"fmt"
	"strings"
)

// Parse parses the line of a user: user <name> <rule> ..., separated by single blanks. Quotes are only special within
// selectors. The user starts as in [Table.NewUser].
func (t *Table) Parse(line string, allChannels bool) (*User, error) {
	name, rules, err := splitLine(strings.Trim(line, " \t\r\n"))
	if err != nil {
		return nil, err
	}
	return t.NewUser(name, allChannels).Apply(rules...)
}

// Declare creates a user from rules of a configuration file.
func (t *Table) Declare(name string, rules []string, allChannels bool) (*User, error) {
	if !ValidName(name) {
		return nil, &nameError{name}
	}
	return t.NewUser(name, allChannels).Apply(rules...)
}

// splitLine splits a line that is not empty and has no surrounding blanks.
func splitLine(line string) (name string, rules []string, err error) {
	words := strings.Split(line, " ")
	if words[0] != "user" || len(words) < 2 {
		return "", nil, errNoUser
	}
	if !ValidName(words[1]) {
		return "", nil, &nameError{words[1]}
	}
	rules = words[2:]
	for i, r := range rules {
		rules[i] = strings.Trim(r, "\t\r\n")
	}
	return words[1], rules, nil
}

var errNoUser = errors.New("should start with user keyword followed by the username")

type nameError struct{ name string }

func (e *nameError) Error() string { return "username '" + e.name + "' contains invalid characters" }

// ParseFile parses an aclfile: a user on each line, and empty lines. The error lists every mistake, each with the file
// and the line number, in Redis's words.
func (t *Table) ParseFile(file string, data []byte, allChannels bool) ([]*User, error) {
	var users []*User
	var faults strings.Builder
	seen := map[string]bool{}
	number := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		number++
		if line = strings.Trim(line, " \t\r\n"); line == "" {
			continue
		}
		name, rules, err := splitLine(line)
		var badName *nameError
		switch {
		case errors.As(err, &badName):
			fmt.Fprintf(&faults, "'%s:%d: %v. ", file, number, err)
			continue
		case err != nil:
			fmt.Fprintf(&faults, "%s:%d %v. ", file, number, err)
			continue
		case seen[name]:
			fmt.Fprintf(&faults, "WARNING: Duplicate user '%s' found on line %d. ", name, number)
			continue
		}
		seen[name] = true
		u := t.NewUser(name, allChannels)
		if text := u.applyAll(rules, fmt.Sprintf("%s:%d: ", file, number)); text != "" {
			faults.WriteString(text)
			continue
		}
		u.compile()
		users = append(users, u)
	}
	if faults.Len() > 0 {
		return nil, errors.New(faults.String() +
			"WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
	}
	return users, nil
}

// applyAll applies rules to a user under construction and returns all mistakes, each after the place. It reports every
// unknown command, but only the first of other errors, because others may follow from it.
func (u *User) applyAll(rules []string, place string) (faults string) {
	merged, err := mergeSelectors(rules)
	if err != nil {
		return place + "Unmatched parenthesis in selector definition."
	}
	told := false
	for _, rule := range merged {
		switch err := u.apply(rule); {
		case err == nil:
		case errors.Is(err, errUnknown):
			faults += place + "Error in applying operation '" + rule + "': " + err.Error() + ". "
		case !told:
			faults += place + err.Error() + ". "
			told = true
		}
	}
	return faults
}

// Format returns the content of an aclfile: a line for each user.
func Format(users []*User) []byte {
	var out []byte
	for _, u := range users {
		out = append(append(out, u.String()...), '\n')
	}
	return out
}
