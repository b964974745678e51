# Runs as PID 1 in a machine's fresh namespaces, still on the host's files, and
# turns into the machine's init. The host's name, paths and faults come in the
# environment. Descriptor 3 tells the lab our process id once the disk is
# mounted; a line on descriptor 0 says that the network is there.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin

# The lab sets the hardware address once more when the network is up; this has
# the kernel tell the neighbours then.
echo 1 > /proc/sys/net/ipv4/conf/all/arp_notify
echo "$NAME" > /proc/sys/kernel/hostname

mount -t overlay -o "redirect_dir=off,metacopy=off,lowerdir=$LOWER,upperdir=$DISK/upper,workdir=$DISK/work" machine "$ROOT"
cd "$ROOT"
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
mount -t tmpfs -o mode=0755,nosuid,nodev tmpfs run
mkdir -m 1777 run/lock
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
mount --bind "$CONSOLE" dev/console

# A boot has an id, by which Ansible tells that a machine has restarted.
cat /proc/sys/kernel/random/uuid > run/boot_id
mount --bind run/boot_id proc/sys/kernel/random/boot_id

# What in /proc acts on the host's kernel is not the machine's to write.
mount --rbind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
if [ -e proc/sysrq-trigger ]; then
	mount --bind -o ro proc/sysrq-trigger proc/sysrq-trigger
fi

# The first boot of an instance, also from a snapshot of another one: what
# cloud-init does there.
if [ "$(cat var/lib/lab/instance 2>/dev/null)" != "$ID" ]; then
	rm -f etc/ssh/ssh_host_*
	cp "$SEED/hostname" "$SEED/hosts" etc/
	install -d -m 0700 -o "$LOGIN_UID" -g "$LOGIN_UID" "home/$LOGIN_USER/.ssh"
	install -m 0600 -o "$LOGIN_UID" -g "$LOGIN_UID" "$SEED/authorized_keys" "home/$LOGIN_USER/.ssh/"
	echo "$ID" > var/lib/lab/instance
fi

# Faults: a program that is masked cannot start; it is not changed on the disk.
for program in $MASK; do
	mount --bind bin/false ".$(chroot . readlink -f "/$program")"
done

read -r pid rest < /proc/self/stat
echo "$pid" >&3
exec 3>&-
read -r go

if [ "$HANG" = true ]; then
	echo "No bootable device."
	exec sleep infinity
fi
sleep "$DELAY"

pivot_root . mnt
umount -l mnt
exec < /dev/console > /dev/console 2>&1
# The clock and the devices are the host's.
exec env -i PATH="$PATH" TERM=linux setpriv \
	--bounding-set -sys_time,-sys_module,-sys_rawio,-mknod,-syslog,-wake_alarm /sbin/init
