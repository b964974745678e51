// Package gate decides which calls a key of Slurm's scripts may make through `reconfigure gate`, the forced command of
// these keys in authorized_keys (sshd(8), AUTHORIZED_KEYS FILE FORMAT). Parse has the grammar of the calls, Admit the
// limit of their number. Both are pure.
package gate
