// Package slurmscripts holds what the playbooks write to the nodes for Slurm, which is in the binary.
package slurmscripts

import "embed"

// FS has the templates and scripts.
//
//go:embed *.j2 *.py
var FS embed.FS
