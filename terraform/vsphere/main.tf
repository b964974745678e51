# The instances of a Slurm cluster in a vCenter. There are no shared resources: template, network, datastore, folder
# and resource pool exist already. With two rules, a change of one node does not affect another:
#   - a resource of a node has `for_each = local.nodes`, uses only `each` from it, and refers to other resources of the node by `[each.key]`;
#   - nothing is made from all nodes: no resource, no local, no output.
#
# If the entry has a table of hosts, each host has its own state, a workspace of this module: the first one the
# default workspace, the others host-1, host-2, …

locals {
  cluster = yamldecode(file(var.cluster_file))
  cloud   = yamldecode(file(var.clouds_file)).clouds[local.cluster.cloud]
  hosts   = lookup(local.cloud, "hosts", [])
  pool    = lookup(local.cloud, "resource_pool", "")
  linked  = lookup(local.cloud, "clone", "full") == "linked"

  password      = lookup(local.cloud, "password_file", "")
  password_file = startswith(local.password, "/") ? local.password : "${dirname(var.clouds_file)}/${local.password}"

  shard = terraform.workspace == "default" ? "" : terraform.workspace
  host  = length(local.hosts) == 0 ? "" : local.hosts[local.shard == "" ? 0 : tonumber(trimprefix(local.shard, "host-"))].name

  # Terraform parses the variables at each start, so they have the nodes of one workspace: by hand those of the
  # default one; files have those of the others. `reconfigure` itself passes those of the workspace in which it runs
  # Terraform.
  given = var.shard == local.shard
  file  = jsondecode(local.given ? jsonencode({ nodes = {} }) : file("nodes/${local.shard}.json"))
  nodes = { for name, node in merge(local.given ? var.nodes : {}, local.file.nodes) : name => node if node.shard == local.shard }

  # The time limit for the guest to report an address, that is, to boot, in minutes, the provider's unit: an early
  # failure leaves time for another instance. Slurm gives up a node at resume_timeout; the last third is for the
  # playbooks, or for the report of the failure.
  patience = max(1, min(ceil(try(local.cluster.reconfigure.boot_timeout, 300) / 60), floor(try(local.cluster.slurm.resume_timeout, 900) * 2 / 3 / 60)))

  # The guest publishes its host keys in vCenter, where `reconfigure` reads them: vSphere has no console log.
  say_keys = join(" ", [
    "{ echo '-----BEGIN SSH HOST KEY KEYS-----'; cat /etc/ssh/ssh_host_*_key.pub; echo '-----END SSH HOST KEY KEYS-----'; }",
    "| base64 -w 0 | { read -r keys || true; vmware-rpctool \"info-set guestinfo.eiffel_host_keys $keys\"; }",
  ])
}

data "vsphere_datacenter" "cluster" {
  name = local.cloud.datacenter
}

data "vsphere_datastore" "cluster" {
  name          = local.cloud.datastore
  datacenter_id = data.vsphere_datacenter.cluster.id
}

data "vsphere_resource_pool" "cluster" {
  count = local.pool == "" ? 0 : 1

  name          = local.pool
  datacenter_id = data.vsphere_datacenter.cluster.id
}

data "vsphere_host" "cluster" {
  count = local.host == "" ? 0 : 1

  name          = local.host
  datacenter_id = data.vsphere_datacenter.cluster.id
}

# The source of the instance. If it changes, all resources of the node are made anew; `reconfigure` also replaces it
# for a fresh instance.
resource "terraform_data" "node" {
  for_each = local.nodes

  triggers_replace = [each.value.image_id, each.value.flavor_id, each.value.network_id, each.value.group]
}

resource "vsphere_virtual_machine" "node" {
  for_each = local.nodes

  name             = "${local.cluster.cluster_name}-${each.key}"
  folder           = lookup(local.cloud, "folder", "")
  resource_pool_id = local.pool == "" ? data.vsphere_host.cluster[0].resource_pool_id : data.vsphere_resource_pool.cluster[0].id
  host_system_id   = one(data.vsphere_host.cluster[*].id)
  datastore_id     = data.vsphere_datastore.cluster.id

  num_cpus = tonumber(split("x", each.value.flavor_id)[0])
  memory   = tonumber(split("x", each.value.flavor_id)[1])

  # The id of an image is UUID,GUEST,FIRMWARE,BUS,GIB,FORMAT: the properties that a clone must share with its
  # template.
  guest_id  = split(",", each.value.image_id)[1]
  firmware  = split(",", each.value.image_id)[2]
  scsi_type = split(",", each.value.image_id)[3]

  disk {
    label            = "disk0"
    size             = local.linked ? tonumber(split(",", each.value.image_id)[4]) : tonumber(split("x", each.value.flavor_id)[2])
    thin_provisioned = split(",", each.value.image_id)[5] == "thin"
    eagerly_scrub    = split(",", each.value.image_id)[5] == "eager"
  }

  network_interface {
    network_id = each.value.network_id
  }

  clone {
    template_uuid = split(",", each.value.image_id)[0]
    linked_clone  = local.linked
  }

  extra_config = {
    # `reconfigure` finds the cluster's instances by these.
    "eiffel.cluster"    = local.cluster.cluster_name
    "eiffel.cluster_id" = var.cluster_id
    "eiffel.group"      = each.value.group
    "eiffel.node"       = each.key
    "eiffel.image"      = each.value.image_id
    "eiffel.flavor"     = each.value.flavor_id
    "eiffel.network"    = each.value.network_id

    # cloud-init, data source VMware.
    "guestinfo.metadata.encoding" = "base64"
    "guestinfo.metadata" = base64encode(yamlencode({
      instance-id    = terraform_data.node[each.key].id # another one for each instance
      local-hostname = each.key
    }))
    "guestinfo.userdata.encoding" = "base64"
    "guestinfo.userdata" = base64encode("#cloud-config\n${yamlencode({
      hostname            = each.key
      manage_etc_hosts    = true
      ssh_authorized_keys = [trimspace(try(local.cluster.key_pair.public_key, ""))]
      runcmd              = [["sh", "-c", local.say_keys]]
    })}")
    "guestinfo.eiffel_host_keys" = "" # those of the template, if it has any
  }

  # Any address that VMware Tools report is accepted.
  wait_for_guest_net_timeout  = local.patience
  wait_for_guest_net_routable = false

  lifecycle {
    replace_triggered_by = [terraform_data.node[each.key]]
    # The source of an instance is above. vCenter may move it to other hosts and datastores, and administrators may
    # change it: nothing of that is reverted, and no change of this file restarts an instance.
    ignore_changes = all

    precondition {
      condition     = trimspace(try(local.cluster.key_pair.public_key, "")) != ""
      error_message = "key_pair.public_key in group_vars/all.yml is empty: vSphere keeps no key pairs."
    }
  }
}
