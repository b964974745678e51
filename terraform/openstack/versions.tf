# The module uses only what versions 1.54 and 3.x of the provider have in common.
terraform {
  required_version = ">= 1.5"

  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = ">= 1.54.0, < 4"
    }
  }
}

provider "openstack" {
  cloud = local.cluster.cloud
}
