# Only what both the 1.54 and the 3.x line of the provider know is used here.
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
