# Runs as root in a new mount namespace, which becomes that of the control host, and becomes the control host's sshd.
# DIR has the control host's files. TOOLS is the folder for Terraform and its provider, since a checkout may be in a
# folder that only root can enter.
set -eu
mount --bind "$TERRAFORM" "$TOOLS/terraform"
mount --bind "$PLUGINS" "$TOOLS/plugins"
for file in passwd group; do
	mount --bind "$DIR/$file" "/etc/$file"
done
mount --bind "$DIR/home" /home
mount -t tmpfs -o mode=0700 root /root
echo $$ >"$DIR/pid"
exec /usr/sbin/sshd -D -e -f "$DIR/sshd_config"
