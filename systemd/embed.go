// Package systemd holds the worker and the backups as services, which are in the binary.
package systemd

import "embed"

// FS has the units and polkit's rule.
//
//go:embed *.service *.timer *.rules
var FS embed.FS
