// Package difftest compares basalt with redis-server: the same commands go to both, and the replies must be the same
// bytes, in RESP2 and RESP3, one by one and pipelined.
//
// The commands come from three sources:
//
//   - testdata/*.txt, tables written by hand, one file a family of commands;
//   - testdata/templates.txt, well-formed commands of which every argument is
//     dropped, doubled and replaced by unfitting values in turn;
//   - a generator of random commands over few keys, with fixed seeds.
//
// Replies whose order or content is not defined are compared as what they are:
// see compareReplies. What else may differ stands with its reason in permitted.
//
// # Tables
//
// A line is a command in the quoting of redis-cli, in front of it at most one mark; # starts a comment line:
//
//	~shape  types and lengths must be the same, not the contents
//	~type   only the type must be the same
//	~set    the elements may come in any order
//	~pairs  the same for pairs of elements
//	~exact  every byte, where the command's name would allow less
//	~none   the command has no reply
package difftest
