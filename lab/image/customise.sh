#!/bin/sh
# Turns a fresh root file system ($1) into the image of a lab machine.
set -eu
root=$1

# Every machine makes its own keys.
rm -f "$root"/etc/ssh/ssh_host_* "$root"/etc/munge/munge.key
ln -sfn ../proc/self/mounts "$root/etc/mtab"
chmod 0440 "$root/etc/sudoers.d/debian"
mkdir -p "$root/var/lib/lab"

# The scripts for hardware would set the host's clock and kernel settings; those
# that end a machine have lost their order without them: see inittab.
find "$root"/etc/rc?.d -name '[SK]*' \
	! -name '*ssh' ! -name '*munge' ! -name '*slurmd' ! -name '*slurmctld' -delete
mkdir -p "$root/etc/inittab.d"
# Those that Ansible configures start when it says so.
for service in munge slurmd slurmctld; do
	chroot "$root" update-rc.d -f "$service" remove
done
# Nobody reads the message of the day, for which each login starts five processes.
sed -i '/pam_motd/d' "$root/etc/pam.d/sshd"
# There is no name server, and a name that nobody has should not be asked for again.
sed -i 's/^hosts:.*/hosts: files/' "$root/etc/nsswitch.conf"

chroot "$root" useradd --create-home --uid 1000 --shell /bin/bash debian
chroot "$root" useradd --create-home --uid 2000 --shell /bin/bash alice
