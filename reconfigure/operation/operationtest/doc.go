// Package operationtest has the suites of the interfaces that operations call. The adapters pass them, and so does the
// simulated cluster.
package operationtest
