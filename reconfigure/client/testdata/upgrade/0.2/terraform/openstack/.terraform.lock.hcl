# This file is maintained automatically by "terraform init".
# Manual edits may be lost in future updates.

provider "registry.terraform.io/terraform-provider-openstack/openstack" {
  version     = "1.54.1"
  constraints = "1.54.1"
  hashes = [
    "h1:0oOU6/ZHUygvO2dTaueBLpqZIJyNou0Lal6U+GWg5Zw=",
  ]
}
