"""Reads and writes the configuration files of slurmctld."""

import os

from ansible.module_utils import reconfigure_files
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: slurm_conf_files
    short_description: reads and writes the configuration files of slurmctld
    description:
      - Without files it returns those that slurmctld runs with. The folder last-good has the files that it last answered with. Files in Slurm's folder that differ from those
        are returned too, since somebody may have had slurmctld read them. So is the number of jobs by partition, if slurmctld answers.
      - With files it writes those that differ. It writes nothing if slurmctld would be restarted with other files than it runs with, and would then end jobs. This is asked as
        late as possible, since jobs start at any moment.
    options:
      directory:
        description: the folder of Slurm's configuration
        required: true
      files:
        description: the contents by file name
        type: dict
      dangers:
        description: what changes with which slurmctld ends jobs, or may end them (unsure); nodes or partition says which, and all of them if both are empty
        type: list
        elements: dict
      unknown:
        description: why it is unknown which jobs slurmctld would end; empty if it is known
        type: str
"""

NAMES = ("slurm.conf", "gres.conf", "cgroup.conf", "fresh.sh")
STATES = "PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"


def read(directory):
    found = {}
    for name in NAMES:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace", newline="") as file:
                found[name] = file.read()
    return found


def squeue(module, column, which):
    return module.run_command(["squeue", "--noheader", "--all", "--states=" + STATES, "--format=" + column] + which)


def jobs_by_partition(module):
    """Returns the number of jobs by partition, or None if slurmctld does not answer. A job that waits for any of several counts in each."""
    status, out, _ = squeue(module, "%P", [])
    if status != 0:
        return None
    jobs = {}
    for names in out.split():
        for name in names.split(","):
            jobs[name] = jobs.get(name, 0) + 1
    return jobs


def endangered(module, danger):
    """Returns the jobs that slurmctld would end, for a message."""
    which = [option + danger[key] for option, key in (("--nodelist=", "nodes"), ("--partition=", "partition")) if danger[key]]
    status, out, err = squeue(module, "%i", which)
    if status != 0:
        return "jobs that squeue does not list: " + err.strip()
    jobs = out.split()
    return "jobs " + ", ".join(jobs[:10]) + (" and more" if len(jobs) > 10 else "") if jobs else ""


def refusal(module, running):
    files = module.params["files"]
    if not running or all(running.get(name) == text for name, text in files.items()):
        return ""
    if module.params["unknown"]:
        return "it is unknown whether jobs would be ended: " + module.params["unknown"]
    for danger in module.params["dangers"] or []:
        jobs = endangered(module, danger)
        if jobs:
            where = "partition " + danger["partition"] if danger["partition"] else danger["nodes"] or "all nodes"
            would = "may" if danger.get("unsure") else "would"
            return "of %s, %s; a restarted slurmctld %s end %s" % (where, danger["what"], would, jobs)
    return ""


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "files": {"type": "dict"},
            "dangers": {"type": "list", "elements": "dict"},
            "unknown": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    directory = module.params["directory"]
    running = read(os.path.join(directory, "last-good"))
    there = read(directory)
    if module.params["files"] is None:
        # A package's own file is there before the first deploy. No job can run then.
        found = [running] + ([there] if there != running else []) if running else []
        module.exit_json(changed=False, running=found, jobs=jobs_by_partition(module) if running else {})
    why = refusal(module, running)
    if why:
        module.fail_json(msg="slurm.conf is left as it is: " + why)
    differing = [name for name, text in module.params["files"].items() if there.get(name) != text]
    if not module.check_mode:
        for name in differing:
            reconfigure_files.write(os.path.join(directory, name), module.params["files"][name], reconfigure_files.mode(name))
    module.exit_json(changed=bool(differing), names=sorted(module.params["files"]))


if __name__ == "__main__":
    main()
