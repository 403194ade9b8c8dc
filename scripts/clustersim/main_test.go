package main

import "testing"

// A small cluster goes through all changes: simulate ends the program when a node redirects a client to the wrong node.
func TestSimulate(t *testing.T) { simulate(20, 50, 100) }
