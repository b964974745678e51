module eiffel/lab/tools/provider3

go 1.26

require github.com/terraform-provider-openstack/terraform-provider-openstack/v3 v3.4.0
