#!/bin/sh
# Ansible managed
#
# Slurm's Prolog and Epilog on the nodes whose partition has `fresh: job` in group_vars/all.yml: an instance serves
# one run of one job. slurmd runs it as root, before the job's first process on the node and after its last one
# (slurm.conf(5)).
#
# After the job, Slurm powers the node down by state POWER_DOWN_ASAP. The node is COMPLETING until this program has
# ended, so no other job gets it before that. If the program fails, Slurm drains the node.
#
# A mark on the instance's disk says which run of which job it is for. With another job's mark the job does not begin:
# Slurm requeues it, and the node is powered down. A new instance has no mark, regardless of the node's state in
# Slurm.
case ${SLURMD_NODENAME-} in
s[0-9][0-9] | l-[0-9] | own[0-9][0-9][0-9]) ;;
*) exit 0 ;;
esac
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mark=/var/lib/slurm/slurmd/fresh
run="job $SLURM_JOB_ID, restart ${SLURM_JOB_RESTART_COUNT:-0}"

leave() {
	scontrol update nodename="$SLURMD_NODENAME" state=power_down_asap reason="$1"
}

case ${SLURM_SCRIPT_CONTEXT-} in
prolog_slurmd)
	# With noclobber, only one caller creates the file.
	if (set -C && echo "$run" >"$mark") 2>/dev/null; then
		exit 0
	fi
	# slurmd was restarted during the job.
	used=$(cat "$mark")
	if [ "$used" = "$run" ]; then
		exit 0
	fi
	leave "fresh: $mark on the instance is for ${used%%,*}, not for this run of job $SLURM_JOB_ID"
	exit 1
	;;
epilog_slurmd)
	echo "ended: $run" >>"$mark"
	leave "fresh: the instance was used by job $SLURM_JOB_ID" || exit 1
	;;
# Called by the playbooks on the control node, before the node's next job has a fresh instance.
deploy)
	leave "fresh: jobs may have used the instance" || exit 1
	;;
esac
