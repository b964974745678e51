#!/bin/sh
# The flow of the first version of this project, for `make bench` to compare with: for each request, one after another,
# one apply of Terraform and one run of all playbooks on all nodes of the cluster.
#
# TERRAFORM=/path/of/terraform reimage.sh LOCK MODULE NODE INVENTORY PLAYBOOK
#
# NODE's entry in the root module MODULE has another image already. The file LOCK serializes the requests.
set -eu
lock=$1 module=$2 node=$3 inventory=$4 playbook=$5

exec 9>"$lock"
flock 9

cd "$module"
# The names of the nodes that exist; one that does not is an error.
"$TERRAFORM" state list | grep -qF "openstack_compute_instance_v2.node[\"$node\"]"
"$TERRAFORM" apply -input=false -auto-approve -no-color -lock-timeout=240s \
	-target="openstack_compute_instance_v2.node[\"$node\"]"

cd "$(dirname "$playbook")"
# Ansible's own defaults instead of the product's settings. The new instance has another host key, which is not checked.
ANSIBLE_CONFIG=$(dirname "$playbook")/ansible.cfg exec ansible-playbook --inventory "$inventory" \
	--extra-vars '{"ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"}' "$playbook"
