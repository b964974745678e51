// Package simulate has a simulated cluster and a journal in memory. They pass the suites that the real ones pass.
// Only tests import it.
package simulate
