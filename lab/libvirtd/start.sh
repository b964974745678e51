# Runs as root in a new mount namespace, and becomes libvirtd. DIR has its files. The mark identifies the namespace.
set -eu
mount -t tmpfs mark "$DIR/mark"
mkdir -p /etc/libvirt /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt
mount --bind "$DIR/etc" /etc/libvirt
mount --bind "$DIR/run" /run/libvirt
mount --bind "$DIR/lib" /var/lib/libvirt
mount --bind "$DIR/cache" /var/cache/libvirt
mount --bind "$DIR/log" /var/log/libvirt
if [ "$ACCOUNTS" ]; then
	mount --bind "$ACCOUNTS/passwd" /etc/passwd
	mount --bind "$ACCOUNTS/group" /etc/group
fi
exec libvirtd
