// Package reconfigure is the vocabulary of the tool: the declaration (Cluster), what a caller asks for (Request), what
// the sources say (State, Server, NodeState), the decision (Plan, Change, Deferral, Rejection), what happened (Event,
// Verdict), and what a caller gets (Outcome). It has values and small pure functions only, and imports no package of
// the project but nodeset. All other packages use its types.
//
// The way of a request:
//
//	request → plan → operations → verdicts → outcome
package reconfigure
