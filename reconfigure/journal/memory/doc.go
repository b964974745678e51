// Package memory is a journal in memory, which passes the suite of the real one. Only tests import it.
package memory
