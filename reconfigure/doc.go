// Package reconfigure is the vocabulary of the tool: what a caller asks for (Request), what is declared (Cluster) and found (Observation), what is decided
// (Plan), what happened (Event), and what each caller gets (Outcome). It holds values and small pure functions only, and imports nothing of the project but
// nodeset; every other package speaks in its words.
//
// A request flows one way:
//
//	request → plan → preview → fence → apply → configure → verify → report
package reconfigure
