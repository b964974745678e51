// Package simulate is a simulated cluster, which passes the same suites as the adapters. Only tests import it.
package simulate
