"""The configuration of slurmctld on the disk of the control node. Ansible sends it with each module that imports it."""

import os

# The files that slurmctld and slurmd get from the playbooks.
NAMES = ("slurm.conf", "gres.conf", "cgroup.conf", "topology.conf", "fresh.sh")

# The subfolder of Slurm's folder with the new configuration with which slurmctld is being started: see the module
# run_slurmctld.
DEPLOY = "deploy"
# It has a file with one of these names, which records the progress.
PREPARED, STOPPING, STOPPED, ACCEPTED, FAILED = "prepared", "stopping", "stopped", "accepted", "failed"


def read(directory, names=NAMES):
    """Returns the contents of the existing files, by name."""
    found = {}
    for name in names:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                found[name] = file.read()
    return found


def accepted(directory):
    """Returns the files that slurmctld last answered with; none if it never did."""
    deploy = os.path.join(directory, DEPLOY)
    if os.path.exists(os.path.join(deploy, ACCEPTED)):
        return read(os.path.join(deploy, "next"))
    return read(os.path.join(directory, "last-good"))
