// Package config reads the declaration of a cluster, group_vars/all.yml, into a reconfigure.Cluster, and changes it.
//
// Three programs read that file: Ansible, Terraform and this one. The check is strict where they would differ or fail
// late: unknown keys are errors, and text must be quoted if Ansible's YAML 1.1 reads it as another type. All problems are
// reported at once, each with its line and a remedy. A key that may be missing has the same default in
// ansible/vars/declared.yml, in the root modules and here.
//
// The file is read in three steps: each key by the schema in declaration.go, which is written with the readers of
// schema.go; then the rules between keys, in rules.go; and only a declaration without problems becomes a Cluster.
package config
