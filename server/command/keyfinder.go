package command

// keyFinder is a Spec.Keys.
type keyFinder = func(args [][]byte, add func(argIndex int, write bool)) error

// destinationAt finds a destination, which is written, and sources, which are read, in all arguments behind it.
func destinationAt(at int) keyFinder {
	return func(args [][]byte, add func(argIndex int, write bool)) error {
		for i := at; i < len(args); i++ {
			add(i, i == at)
		}
		return nil
	}
}

// destinationAndSource finds a destination and one source.
func destinationAndSource(_ [][]byte, add func(argIndex int, write bool)) error {
	add(1, true)
	add(2, false)
	return nil
}

// destinationNumKeys finds a destination, and sources behind their number.
func destinationNumKeys(args [][]byte, add func(argIndex int, write bool)) error {
	add(1, true)
	return numKeysAt(2, false)(args, add)
}

// numKeysAt finds the keys that follow their number, which is the argument at. For a number that does not fit it adds
// no keys and returns an error, for COMMAND GETKEYS; handlers report the error themselves.
func numKeysAt(at int, write bool) keyFinder {
	return func(args [][]byte, add func(argIndex int, write bool)) error {
		if at >= len(args) {
			return errNumKeys
		}
		n, ok := ParseInt(args[at])
		if !ok || n < 1 || n > int64(len(args)-at-1) {
			return errNumKeys
		}
		for i := range int(n) {
			add(at+1+i, write)
		}
		return nil
	}
}
