# The instances of a Slurm cluster on hosts with libvirt. There are no shared resources: image, network and storage pool exist already. With two rules, a
# change of one node does not affect another:
#   - a resource of a node has `for_each = local.nodes`, uses only `each` from it, and refers to other resources of the node by `[each.key]`;
#   - nothing is made from all nodes: no resource, no local, no output.
#
# Each host has a state of its own, a workspace of this module: the first one of the table the default workspace, the others host-1, host-2, …

locals {
  cluster = yamldecode(file(var.cluster_file))
  cloud   = yamldecode(file(var.clouds_file)).clouds[local.cluster.cloud]

  shard = terraform.workspace == "default" ? "" : terraform.workspace
  host  = local.cloud.hosts[local.shard == "" ? 0 : tonumber(trimprefix(local.shard, "host-"))]

  # Terraform parses the variables at each start, so they have the nodes of one workspace: by hand those of the
  # default one; files have those of the others. `reconfigure` itself passes those of the workspace in which it runs
  # Terraform.
  given = var.shard == local.shard
  file  = jsondecode(local.given ? jsonencode({ nodes = {} }) : file("nodes/${local.shard}.json"))
  nodes = { for name, node in merge(local.given ? var.nodes : {}, local.file.nodes) : name => node if node.shard == local.shard }

  # The time limit for the guest to request its address, that is, to boot: an early failure leaves time for another
  # instance. Slurm gives up a node at resume_timeout; the last third is for the playbooks, or for the report of the
  # failure.
  patience = "${min(try(local.cluster.reconfigure.boot_timeout, 300), floor(try(local.cluster.slurm.resume_timeout, 900) * 2 / 3))}s"
}

# The source of the instance. If it changes, all resources of the node are made anew; `reconfigure` also replaces it
# for a fresh instance.
resource "terraform_data" "node" {
  for_each = local.nodes

  triggers_replace = [each.value.image_id, each.value.flavor_id, each.value.network_id, each.value.group]
}

# The disk, on top of the image: only differences take space.
resource "libvirt_volume" "node" {
  for_each = local.nodes

  name             = "${local.cluster.cluster_name}-${each.key}.qcow2"
  pool             = local.cloud.pool
  format           = "qcow2"
  base_volume_name = each.value.image_id
  base_volume_pool = local.cloud.pool
  size             = tonumber(split("x", each.value.flavor_id)[2]) * 1024 * 1024 * 1024

  lifecycle {
    replace_triggered_by = [terraform_data.node[each.key]]
  }
}

# The instance's console log. `reconfigure` reads the host keys of a new instance there.
resource "libvirt_volume" "console" {
  for_each = local.nodes

  name   = "${local.cluster.cluster_name}-${each.key}.console"
  pool   = local.cloud.pool
  format = "raw"
  size   = 1

  lifecycle {
    replace_triggered_by = [terraform_data.node[each.key]]
    ignore_changes       = [size] # it grows
  }
}

resource "libvirt_cloudinit_disk" "node" {
  for_each = local.nodes

  name = "${local.cluster.cluster_name}-${each.key}.iso"
  pool = local.cloud.pool
  meta_data = yamlencode({
    instance-id    = terraform_data.node[each.key].id # another one for each instance
    local-hostname = each.key
  })
  user_data = "#cloud-config\n${yamlencode({
    hostname            = each.key
    manage_etc_hosts    = true
    ssh_authorized_keys = [trimspace(try(local.cluster.key_pair.public_key, ""))]
  })}"

  lifecycle {
    replace_triggered_by = [terraform_data.node[each.key]]
    # Only the first boot reads it; a change must not replace existing instances.
    ignore_changes = [user_data]

    precondition {
      condition     = trimspace(try(local.cluster.key_pair.public_key, "")) != ""
      error_message = "key_pair.public_key in group_vars/all.yml is empty: libvirt keeps no key pairs."
    }
  }
}

resource "libvirt_domain" "node" {
  for_each = local.nodes

  name      = "${local.cluster.cluster_name}-${each.key}"
  type      = lookup(local.cloud, "type", "kvm")
  vcpu      = tonumber(split("x", each.value.flavor_id)[0])
  memory    = tonumber(split("x", each.value.flavor_id)[1])
  autostart = true
  cloudinit = libvirt_cloudinit_disk.node[each.key].id

  # `reconfigure` finds the cluster's instances by it. libvirt stores neither the time of creation nor the name of the
  # image.
  description = jsonencode({
    eiffel_cluster    = local.cluster.cluster_name
    eiffel_cluster_id = var.cluster_id
    eiffel_group      = each.value.group
    node              = each.key
    image             = each.value.image_id
    flavor            = each.value.flavor_id
    network           = each.value.network_id
    created           = plantimestamp()
  })

  cpu {
    mode = lookup(local.cloud, "type", "kvm") == "kvm" ? "host-passthrough" : "maximum"
  }

  disk {
    volume_id = libvirt_volume.node[each.key].id
  }

  network_interface {
    network_name   = each.value.network_id
    wait_for_lease = true
  }

  console {
    type        = "pty"
    target_type = "serial"
    target_port = "0"
  }

  # The provider has no argument for the log of a console.
  xml {
    xslt = templatefile("${path.module}/console.xslt", { file = libvirt_volume.console[each.key].id })
  }

  timeouts {
    create = local.patience
  }

  lifecycle {
    replace_triggered_by = [terraform_data.node[each.key], libvirt_volume.node[each.key]]
    ignore_changes       = [description, cloudinit, network_interface[0].addresses]
  }
}
