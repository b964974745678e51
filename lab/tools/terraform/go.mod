module eiffel/lab/tools/terraform

go 1.21

require github.com/hashicorp/terraform v1.5.7
