// Package reconfigure is the vocabulary of the tool: the declaration (Cluster), what a caller asks for (Request), the
// answers of the sources (State, Server, NodeState), the decision (Plan, Change, Deferral, Rejection), the progress
// (Event, Verdict), and the result for the caller (Outcome). It has only values and small pure functions, and imports
// no package of the project but nodeset. All other packages use its types.
//
// The way of a request:
//
//	request → plan → operations → verdicts → outcome
package reconfigure
