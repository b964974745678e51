// Package simulate has a simulated cluster, which passes the suites that the adapters pass. Only tests import it.
package simulate
