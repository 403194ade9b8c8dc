package main

import "testing"

// A small cluster goes through all changes: simulate ends the program when a node redirects a client to a wrong place.
func TestSimulate(t *testing.T) { simulate(20, 50, 100) }
