# Runs as PID 1 in a machine's new namespaces, first with the host's files, and becomes the machine's init. The
# machine's name, paths and faults are in the environment. It writes its process id to descriptor 3 when the disk is
# mounted, and reads a line from descriptor 0 when the network is attached.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin

# The lab sets the hardware address once more when the network is up; with this setting the kernel then sends a
# gratuitous ARP.
echo 1 > /proc/sys/net/ipv4/conf/all/arp_notify
echo "$NAME" > /proc/sys/kernel/hostname

mount -t overlay -o "redirect_dir=off,metacopy=off,lowerdir=$LOWER,upperdir=$DISK/upper,workdir=$DISK/work" machine "$ROOT"
cd "$ROOT"
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
# Else systemd mounts the host's devices.
mount --bind dev dev
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
mount -t tmpfs -o mode=0755,nosuid,nodev tmpfs run
mkdir -m 1777 run/lock
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
mount --bind "$CONSOLE" dev/console

if [ -n "${VOLUME-}" ]; then
	mkdir -p ".$MOUNT"
	mount --bind "$VOLUME" ".$MOUNT"
fi

# systemd needs a group of its own in each hierarchy of control groups, and to see no others. Where the host has several
# hierarchies, so has the machine: a controller is in one only.
case $(chroot . readlink /sbin/init) in
*systemd)
	if [ "$(stat -f -c %T /sys/fs/cgroup)" = tmpfs ]; then
		mount -t tmpfs -o mode=0755,nosuid,nodev,noexec tmpfs sys/fs/cgroup
	fi
	mounts=$(grep -E '^[^ ]+ /sys/fs/cgroup[^ ]* cgroup2? ' /proc/mounts)
	while read -r _ at kind _; do
		group=$at
		for name in "${CGROUP%/*}" "${CGROUP#*/}"; do
			if [ "$kind" = cgroup2 ]; then
				sed 's/[^ ]*/+&/g' "$group/cgroup.controllers" > "$group/cgroup.subtree_control"
			fi
			mkdir -p "$group/$name"
			if [ -e "$group/cpuset.cpus" ] && [ "$kind" = cgroup ]; then
				cat "$group/cpuset.cpus" > "$group/$name/cpuset.cpus"
				cat "$group/cpuset.mems" > "$group/$name/cpuset.mems"
			fi
			group=$group/$name
		done
		echo 0 > "$group/cgroup.procs"
		mkdir -p ".$at"
		mount --bind "$group" ".$at"
	done <<-EOF
		$mounts
	EOF
	;;
esac

# Each boot has an id, by which Ansible notices a restart.
cat /proc/sys/kernel/random/uuid > run/boot_id
mount --bind run/boot_id proc/sys/kernel/random/boot_id

# The machine must not write to those files of /proc that change the host's kernel.
mount --rbind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
if [ -e proc/sysrq-trigger ]; then
	mount --bind -o ro proc/sysrq-trigger proc/sysrq-trigger
fi

# The first boot of an instance, also from a snapshot of another one: do what cloud-init does, or give it its data.
if [ "$(cat var/lib/lab/instance 2>/dev/null)" != "$ID" ]; then
	rm -f etc/ssh/ssh_host_*
	cp "$SEED/hostname" "$SEED/hosts" etc/
	cp "$SEED/meta_data.json" var/lib/lab/
	if [ -e usr/bin/cloud-init ]; then # it does the rest: its data source NoCloud
		mkdir -p var/lib/cloud/seed/nocloud
		cp "$SEED/meta-data" var/lib/cloud/seed/nocloud/
		touch var/lib/cloud/seed/nocloud/user-data
	else
		install -d -m 0700 -o "$LOGIN_UID" -g "$LOGIN_UID" "home/$LOGIN_USER/.ssh"
		install -m 0600 -o "$LOGIN_UID" -g "$LOGIN_UID" "$SEED/authorized_keys" "home/$LOGIN_USER/.ssh/"
	fi
	[ ! -e etc/machine-id ] || : > etc/machine-id
	echo "$ID" > var/lib/lab/instance
fi

# Faults: a program that is masked cannot start; it is not changed on the disk.
for program in $MASK; do
	mount --bind bin/false ".$(chroot . readlink -f "/$program")"
done

if [ "$FULL" = true ]; then
	mount -t tmpfs -o mode=0755,size=4k tmpfs etc/slurm
fi

read -r pid rest < /proc/self/stat
echo "$pid" >&3
exec 3>&-
read -r go

if [ "$BLOCKED" = true ]; then
	# A packet that comes from there is accepted, and the answer is dropped.
	ip -4 route show default | while read -r _ _ gateway _; do ip route add blackhole "$gateway/32"; done
fi
if [ "$HANG" = true ]; then
	echo "No bootable device."
	exec sleep infinity
fi
sleep "$DELAY"

pivot_root . mnt
umount -l mnt
exec < /dev/console > /dev/console 2>&1
# The clock and the devices are the host's.
set -- env -i PATH="$PATH" TERM=linux container=lab setpriv \
	--bounding-set -sys_time,-sys_module,-sys_rawio,-mknod,-syslog,-wake_alarm
case $(readlink /sbin/init) in
*systemd)
	# Without this word systemd 256 and later refuse several hierarchies. In a container the kernel's command line is
	# that of PID 1.
	exec "$@" unshare --cgroup /sbin/init SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
	;;
esac
exec "$@" /sbin/init
