"""Reads the configuration files of slurmctld."""

from ansible.module_utils import reconfigure_slurm
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: slurm_conf_files
    short_description: reads the configuration files of slurmctld, and the number of its jobs
    description:
      - Returns the files with which slurmctld last answered. It also returns files in Slurm's folder that differ, since somebody may have told slurmctld to read them, and
        the number of jobs by partition, if slurmctld answers.
    options:
      directory:
        description: the folder of Slurm's configuration
        required: true
"""


def jobs_by_partition(module):
    """Returns the number of jobs by partition, or None if slurmctld does not answer. A job that waits for one of several partitions counts in each."""
    states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"
    status, out, _ = module.run_command(["squeue", "--noheader", "--all", states, "--format=%P"])
    if status != 0:
        return None
    jobs = {}
    for names in out.split():
        for name in names.split(","):
            jobs[name] = jobs.get(name, 0) + 1
    return jobs


def printable(files):
    """Returns the files without bytes that are not UTF-8, which JSON cannot hold."""
    return {name: text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name, text in files.items()}


def main():
    module = AnsibleModule(argument_spec={"directory": {"type": "path", "required": True}}, supports_check_mode=True)
    running = reconfigure_slurm.accepted(module.params["directory"])
    there = reconfigure_slurm.read(module.params["directory"])
    # A package's file may exist before the first deploy. No job can run then.
    found = [running] + ([there] if there != running else []) if running else []
    module.exit_json(changed=False, running=[printable(files) for files in found], jobs=jobs_by_partition(module) if running else {})


if __name__ == "__main__":
    main()
