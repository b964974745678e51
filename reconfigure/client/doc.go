// Package client implements the commands at a site, without flags, output and exit codes: follow a request, prepare a
// campaign, preview a plan, check the site, ask for jobs, admit a call of the gate, adopt servers.
package client
