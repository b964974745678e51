#!/bin/sh
# Turns a fresh root file system ($1) into an image as a distribution's own, whose first boot is cloud-init's.
set -eu
root=$1

rm -f "$root"/etc/ssh/ssh_host_*
ln -sfn ../proc/self/mounts "$root/etc/mtab"
mkdir -p "$root/var/lib/lab"
# There is no name server, and a name that nobody has should not be asked for again.
sed -i 's/^hosts:.*/hosts: files/' "$root/etc/nsswitch.conf"
# No user of the cluster has the number that cloud-init gives to the login user.
chroot "$root" useradd --create-home --uid 2000 --shell /bin/bash alice
# It needs hardware.
chroot "$root" systemctl --quiet disable fstrim.timer
# A login prompt would hang up the terminal that the hypervisor reads the console from.
chroot "$root" systemctl --quiet mask console-getty.service getty@tty1.service
# The hypervisor's power button is SIGPWR: systemd(1).
ln -sfn /lib/systemd/system/poweroff.target "$root/etc/systemd/system/sigpwr.target"
# Each instance makes its own.
: > "$root/etc/machine-id"
