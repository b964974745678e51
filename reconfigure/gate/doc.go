// Package gate decides what a key of Slurm's scripts may ask of `reconfigure gate`, the forced command of these keys
// in authorized_keys (sshd(8), AUTHORIZED_KEYS FILE FORMAT). Parse is the grammar of what callers send, Admit the limit
// of how often. Both are pure.
package gate
