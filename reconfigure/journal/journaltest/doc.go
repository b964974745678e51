// Package journaltest has the suite of a journal, by the roles that its users need. The journals in SQLite, in
// PostgreSQL and in memory pass it.
package journaltest
