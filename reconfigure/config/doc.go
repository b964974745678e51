// Package config reads the declaration of a cluster, group_vars/all.yml, into a reconfigure.Cluster, and changes it.
//
// Three programs read that file: Ansible, Terraform and this one. The check is strict where they would differ or fail
// late: a key is required unless all three have the same default, unknown keys are errors, and text must be quoted if
// Ansible's YAML 1.1 reads it as another type. All problems are reported at once, each with its line and a remedy.
//
// The file is read in three steps: each key by the schema in declaration.go, which is written with the readers of
// schema.go; then the rules between keys, in rules.go; and only a declaration without problems becomes a Cluster.
package config
