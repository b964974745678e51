// Package systemd holds the worker as a service, which is in the binary.
package systemd

import "embed"

// FS has the unit and polkit's rule.
//
//go:embed *.service *.rules
var FS embed.FS
