package reconfigure

import "time"

// Declaration is which declaration of the cluster a control host works with. Several hosts have one each, and are to have the same.
type Declaration struct {
	Host    string    // and the cluster directory there
	Sum     string    // of its text
	Changed time.Time // when the file was last written
}

// Outdated tells whether the newest declaration was changed on another host and not on this one: they differ, and this one is not newer still. On one and the same
// host the file counts as it is, however old it says to be: it may have come from a backup.
func (d Declaration) Outdated(newest Declaration) bool {
	return d.Host != newest.Host && d.Sum != newest.Sum && !d.Changed.After(newest.Changed)
}
