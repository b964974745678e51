// Package worker implements the process that carries out requests: it runs the controller, compares the sources when
// that is due, reads Slurm's jobs, and removes old logs and records. Start starts one.
package worker
