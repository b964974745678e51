// Package site holds the playbooks, which are in the binary.
package site

import "embed"

// FS has the files that Ansible reads. Folders leave out names that begin with a dot or an underscore.
//
//go:embed *.yml ansible.cfg action_plugins callback_plugins empty_roles health library module_utils roles vars
var FS embed.FS
