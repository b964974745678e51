# Runs as root in a new mount namespace, which becomes that of the control host, and becomes the control host's sshd.
# DIR has the control host's files. TOOLS is the folder for Terraform, its provider and, unless it is Debian's, Ansible,
# since a checkout may be in a folder that only root can enter.
set -eu
folder=${TERRAFORM%/*}
mount --bind "$TERRAFORM" "$TOOLS/${folder##*/}/terraform"
mount --bind "$PLUGINS" "$TOOLS/plugins"
[ -z "$ANSIBLE" ] || mount --bind "$ANSIBLE" "$TOOLS/ansible"
# Not over the single files: such a mount ends when the computer's own file is replaced, as useradd(8) does.
mount -t overlay -o "lowerdir=/etc,upperdir=$DIR/etc,workdir=$DIR/work" control-host /etc
mount --bind "$DIR/home" /home
mount -t tmpfs -o mode=0700 root /root
# What a killed worker, Terraform or Ansible leaves there goes with the namespace.
mount -t tmpfs -o mode=1777 tmp /tmp
echo $$ >"$DIR/pid"
exec /usr/sbin/sshd -D -e -f "$DIR/sshd_config"
