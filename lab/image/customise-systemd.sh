
# With systemd as PID 1.
chroot "$root" systemctl --quiet enable lab-boot.service
# Those that Ansible configures start when it says so.
chroot "$root" systemctl --quiet disable munge.service slurmd.service slurmctld.service
# Their jobs need a mirror, or hardware.
chroot "$root" systemctl --quiet disable apt-daily.timer apt-daily-upgrade.timer fstrim.timer
# A login prompt would hang up the terminal that the hypervisor reads the console from.
chroot "$root" systemctl --quiet mask console-getty.service getty@tty1.service
# The hypervisor's power button is SIGPWR: systemd(1).
ln -sfn /lib/systemd/system/poweroff.target "$root/etc/systemd/system/sigpwr.target"
# Each instance makes its own.
: > "$root/etc/machine-id"
