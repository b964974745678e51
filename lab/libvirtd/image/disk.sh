# Makes $DIR/disk.qcow2 from $PACKAGES; the lines of sources.list are its input. It runs in a mount namespace.
set -eu
cd "$DIR"
mmdebstrap --quiet --mode=root --variant=minbase \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' --include="$PACKAGES" bookworm root -

# Every machine makes its own keys and ids.
rm -f root/etc/ssh/ssh_host_* root/etc/munge/munge.key
: >root/etc/machine-id
rm -f root/var/lib/dbus/machine-id
printf 'LABEL=root / ext4 errors=remount-ro 0 1\n' >root/etc/fstab
printf 'localhost\n' >root/etc/hostname
printf '127.0.0.1 localhost\n' >root/etc/hosts
printf 'UseDNS no\nPermitRootLogin no\nMaxStartups 200:30:400\n' >root/etc/ssh/sshd_config.d/lab.conf
printf 'datasource_list: [NoCloud, None]\n' >root/etc/cloud/cloud.cfg.d/90_lab.cfg
# There is no name server.
sed -i 's/^hosts:.*/hosts: files/' root/etc/nsswitch.conf
: >root/etc/resolv.conf
# Those that Ansible configures start when it says so; the jobs of timers need a mirror.
chroot root systemctl --quiet disable munge.service slurmd.service slurmctld.service \
	apt-daily.timer apt-daily-upgrade.timer fstrim.timer e2scrub_all.timer
chroot root useradd --create-home --uid 2000 --shell /bin/bash alice

mkdir -p root/boot/extlinux
cp root/vmlinuz root/boot/extlinux/vmlinuz
cp root/initrd.img root/boot/extlinux/initrd.img
cat >root/boot/extlinux/extlinux.conf <<EOF
DEFAULT linux
PROMPT 0
TIMEOUT 1
LABEL linux
  KERNEL vmlinuz
  INITRD initrd.img
  APPEND root=LABEL=root ro console=tty0 console=ttyS0,115200 mitigations=off
EOF

# One partition, with the boot code of syslinux before it.
truncate -s 2G disk.raw
printf 'start=2048, type=83, bootable\n' | sfdisk --quiet disk.raw
dd if=/usr/lib/EXTLINUX/mbr.bin of=disk.raw conv=notrunc status=none
mkfs.ext4 -q -F -L root -O ^64bit,^metadata_csum -E offset=1048576 -d root disk.raw 2096128K
mkdir mnt
mount -o loop,offset=1048576 disk.raw mnt
extlinux --install mnt/boot/extlinux
umount mnt
qemu-img convert -f raw -O qcow2 disk.raw disk.qcow2
