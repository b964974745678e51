module eiffel/lab/tools/provider

go 1.21

require github.com/terraform-provider-openstack/terraform-provider-openstack v1.54.1
