// Package simulate has a simulated cluster, a journal in memory, and the conformance suites that they and the real ones
// pass.
// Only tests import it.
package simulate
