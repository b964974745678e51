// Package simulate is a simulated cluster, a journal in memory, and the suites that they and the real things pass.
// Only tests import it.
package simulate
