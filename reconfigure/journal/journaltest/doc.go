// Package journaltest has the suite of a journal. The journals in SQLite, in PostgreSQL and in memory pass it.
package journaltest
