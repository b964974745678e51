// Package config reads the declaration of a cluster, group_vars/all.yml, into the vocabulary's Cluster.
//
// Three programs read that file: Ansible, Terraform and this one. So the check is strict where the three would differ or fail late: a key is there unless
// all three can do without it, no key is unknown, and text that Ansible's YAML 1.1 takes for something else stands in quotes. It says all that is wrong
// at once, each problem with its line and with what to do.
//
// The file is read in three steps: key by key as declaration.go says, in the small language of schema.go; then for what must hold between keys, in rules.go;
// and only a declaration without any problem becomes a Cluster.
package config
