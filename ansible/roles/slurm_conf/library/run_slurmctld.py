"""Runs slurmctld with a configuration, or with the previous one if it does not accept the new one."""

import json
import os
import re

from ansible.module_utils import reconfigure_slurm, reconfigure_slurmctld
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.reconfigure_slurm import ACCEPTED, FAILED, PREPARED, STOPPED, STOPPING
from ansible.module_utils.reconfigure_slurmctld import Failure, Files, Slurmctld, refusal, stop

DOCUMENTATION = """
    module: run_slurmctld
    short_description: runs slurmctld with a configuration, or with the previous one
    description:
      - If slurmctld does not run with these files, it asks for jobs that would end, stops slurmctld, puts the files in place, starts slurmctld and waits until it answers. If it does
        not answer, it restores the files that were there and starts slurmctld with them.
      - A process in its own session does that, so it goes on when the connection of the module breaks. A later call of the module waits for it, and returns its result if both
        have the same files.
      - The new files are in the folder deploy of Slurm's folder before slurmctld is stopped. After that files are only renamed, which needs no space on the disk. A file in deploy that is
        called prepared, stopping, stopped, accepted or failed records the progress. If the process is killed, the next call continues from there.
      - The folder last-good has the files with which slurmctld last answered.
    options:
      directory:
        description: the folder of Slurm's configuration
        required: true
      files:
        description: the contents by file name
        type: dict
        required: true
      dangers:
        description: the changes with which slurmctld ends jobs, or may end them (unsure); nodes or partition selects the jobs; all jobs if both are empty
        type: list
        elements: dict
      unknown:
        description: why it is unknown which jobs slurmctld would end; empty if it is known
        type: str
      fresh:
        description: jobs get fresh instances in some partition; when this begins, nodes whose instances may have been used by jobs are powered down
        type: bool
      result:
        description: the file for the result, in a folder that is empty after a boot
        type: path
"""

RETURN = """
    restarted:
      description: slurmctld was started
      type: bool
"""

JOBS = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"


def go_back(daemon, files):
    """Starts slurmctld with the previous files, and reports whether it answers. If it does not, somebody had edited them, and it gets those with which it last answered."""
    daemon.stop()
    files.put_back()
    back = "slurm.conf" in files.there() and daemon.start()
    if not back and daemon.stop() and files.restore():
        back = daemon.start()
    files.clear()
    if back and os.path.isdir(files.good):
        files.keep()
    return back


def repair(daemon, files):
    """Continues a killed call, and reports whether it started slurmctld."""
    stage = files.stage()
    if stage is None:
        files.sweep()
        return False
    if stage == STOPPED and daemon.runs() and daemon.answers():  # the call or somebody else started it
        if files.placed():
            files.now(ACCEPTED)
            stage = ACCEPTED
        elif files.back():
            stage = PREPARED
    if stage in (STOPPED, FAILED):
        go_back(daemon, files)
        return True
    if stage == STOPPING:
        daemon.stop()  # it may be about to end
        daemon.start()
    elif stage == ACCEPTED:
        files.accept()
    files.clear()
    return stage == STOPPING


def fresh_began(good, wanted):
    """Reports whether slurmctld runs with the same groups of fresh instances."""
    prolog = re.search(r"^Prolog=.*/fresh\.sh$", good.get("slurm.conf", ""), re.MULTILINE)
    return bool(prolog) and good.get("fresh.sh") == wanted.get("fresh.sh")


def act(daemon, files, params):
    """Runs slurmctld with the files, and returns the module's result."""
    restarted = repair(daemon, files)
    wanted, good, there = params["files"], files.accepted(), files.there()
    if good == wanted and all(there.get(name) == text for name, text in wanted.items()):
        if daemon.runs():
            return {"changed": restarted, "restarted": restarted}
        if daemon.start():
            return {"changed": True, "restarted": True}
        raise Failure("slurmctld does not answer with this configuration, although it did before. Its output:\n" + daemon.words())
    files.prepare(wanted)
    # This check is as late as possible, since jobs start at any moment. Before the first configuration there are no jobs.
    why = refusal(daemon, params) if good else ""
    if why:
        files.clear()
        raise Failure("slurm.conf was not changed: " + why)
    if params["fresh"] and not fresh_began(good, wanted):
        try:
            daemon.power_down(os.path.join(files.deploy, "next", "fresh.sh"))
        except Failure:
            files.clear()
            raise
    stop(daemon, files)
    files.now(STOPPED)
    files.place()
    if daemon.start():
        files.now(ACCEPTED)
        files.accept()
        files.clear()
        return {"changed": True, "restarted": True}
    files.now(FAILED)
    daemon.stop()
    words = daemon.words()
    if go_back(daemon, files):
        then = "the new configuration; the previous one is restored"
    elif good or "slurm.conf" in there:
        then = "the new configuration, nor with the previous one, which is restored"
    else:
        then = "this configuration, and there is no previous one"
    raise Failure("slurmctld does not answer with %s. Its output:\n%s" % (then, words))


def answer(daemon, params):
    """Acts, and returns the module's result."""
    what = json.dumps(params["files"], sort_keys=True)
    return reconfigure_slurmctld.answer(params, what, lambda: act(daemon, Files(params["directory"]), params))


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True},
            "dangers": {"type": "list", "elements": "dict"},
            "unknown": {"type": "str", "default": ""},
            "fresh": {"type": "bool", "default": False},
            "result": {"type": "path", "default": "/run/reconfigure-slurmctld.json"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if module.check_mode:
        module.exit_json(changed=reconfigure_slurm.accepted(params["directory"]) != params["files"], restarted=False)
    reconfigure_slurmctld.exit_with(module, lambda: answer(Slurmctld(), params))


if __name__ == "__main__":
    main()
