variable "nodes" {
  description = <<-EOT
    Every instance that shall exist, the control node too, by node name. `reconfigure` owns this map and writes it to nodes.auto.tfvars.json; ids and not
    names, so that a new image under an old name changes nothing by itself. An empty map removes everything.
  EOT
  type = map(object({
    group      = string
    image_id   = string
    flavor_id  = string
    network_id = string
  }))
  default  = {}
  nullable = false
}

variable "cluster_file" {
  description = "The declaration of the cluster, relative to this folder."
  type        = string
  default     = "../../group_vars/all.yml"
}
