package reconfigure

import "time"

// Declaration identifies the version of the declaration that a control host uses. All control hosts should have the
// same.
type Declaration struct {
	Host    string    // host name and cluster directory
	Sum     string    // checksum of the text
	Changed time.Time // modification time of the file
}

// Outdated reports whether the newest declaration is from another host and d lacks its changes: they differ, and d is
// not newer. On the same host d is never outdated, regardless of its time: the file may have been restored from a
// backup.
func (d Declaration) Outdated(newest Declaration) bool {
	return d.Host != newest.Host && d.Sum != newest.Sum && !d.Changed.After(newest.Changed)
}
