"""Adds the line to a site's slurm.conf, or removes it, and has slurmctld read that."""

import hashlib
import os
import stat

from ansible.module_utils import reconfigure_files, reconfigure_slurmctld
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.reconfigure_slurm import ACCEPTED, FAILED, STOPPED, STOPPING
from ansible.module_utils.reconfigure_slurmctld import Failure, Files, Slurmctld, refusal, stop

DOCUMENTATION = """
    module: attach_slurmctld
    short_description: adds the line to a site's slurm.conf, or removes it
    description:
      - The line is the first of slurm.conf; no other byte of the file changes. It includes a file in the same folder, which is written before the line and removed after it.
      - slurmctld reads the files by `scontrol reconfigure`, or is restarted. If it does not accept them, the files that were there are restored, and it reads those.
      - A process in its own session does that. If the process is killed, the next call continues from what is in the folder work. See the module run_slurmctld.
    options:
      conf:
        description: the path of slurm.conf
        required: true
      line:
        description: the line, with its newline
        required: true
      include:
        description: the name of the included file
        required: true
      text:
        description: the content of the included file; without it, the line and the file are removed
        type: str
      expect:
        description: the SHA-256 sum of slurm.conf without the line; the module changes nothing if somebody has edited the file since
        required: true
      restart:
        description: slurmctld is restarted; otherwise `scontrol reconfigure` is enough
        type: bool
      work:
        description: a folder on the same file system
        required: true
      path:
        description: PATH of Slurm's commands; they get the path of slurm.conf, too
        required: true
      dangers:
        description: as for run_slurmctld
        type: list
        elements: dict
      repair:
        description: only a killed call is continued
        type: bool
      result:
        description: the file for the result, in a folder that is empty after a boot
        type: path
"""


class Attached(Files):
    """slurm.conf and the included file. Copies have the owner and the mode of slurm.conf. There is no last-good: the site may edit its file at any time."""

    def __init__(self, params):
        super().__init__(os.path.dirname(params["conf"]), params["work"])
        self.params = params
        self.conf, self.include = os.path.basename(params["conf"]), params["include"]
        self.names = (self.include, self.conf)
        there = os.stat(params["conf"])
        self.owner, self.mode = (there.st_uid, there.st_gid), stat.S_IMODE(there.st_mode)

    def own(self):
        """Returns the text of slurm.conf without the line."""
        text, line = self.there()[self.conf], self.params["line"]
        return text[len(line):] if text.startswith(line) else text

    def wanted(self):
        if self.params["text"] is None:
            return {self.conf: self.own()}
        return {self.conf: self.params["line"] + self.own(), self.include: self.params["text"]}

    def accepted(self):
        return {self.include: ""}  # of these two files, only the included one is ever removed

    def write(self, folder, name, text):
        reconfigure_files.write(os.path.join(folder, name), text, self.mode, self.owner)

    def move(self, part, to):
        """The included file comes first, so that slurm.conf never includes a missing file. A link stays a link."""
        if to == self.good:
            return
        for name in sorted(os.listdir(os.path.join(self.deploy, part)), key=lambda name: name != self.include):
            os.rename(os.path.join(self.deploy, part, name), os.path.realpath(os.path.join(to, name)))
        reconfigure_slurmctld.sync(to)

    def check(self):
        """Fails if a file cannot be renamed from work to its place."""
        os.makedirs(self.work, mode=0o755, exist_ok=True)
        if os.stat(os.path.dirname(os.path.realpath(self.params["conf"]))).st_dev != os.stat(self.work).st_dev:
            raise Failure("slurm.conf was not changed: %s is a link to another file system" % self.params["conf"])


def load(daemon, restart):
    """Has slurmctld read the files, and returns an error, or nothing."""
    if restart or not daemon.runs():
        return "" if daemon.start() else daemon.words()
    # Since 23.11 slurmctld goes on with its former files if it does not accept the new ones.
    since = daemon.since()
    status, out, err = daemon.run(["scontrol", "reconfigure"])
    if status != 0 and not ("timed out" in out + err and daemon.replaced(since)):
        return (out + err).strip()
    return "" if daemon.answers() else "it does not answer"


def go_back(daemon, files, restart):
    """Restores the files that were there, and returns an error, or nothing."""
    if restart:
        daemon.stop()
    files.put_back()
    problem = load(daemon, restart)
    files.clear()
    return problem


def repair(daemon, files, restart):
    """Continues a killed call, and reports whether slurmctld has read files."""
    stage = files.stage()
    if stage is None:
        files.sweep()
        return False
    if stage == STOPPED and files.placed() and (not restart or daemon.runs()):
        stage = FAILED if restart and not daemon.answers() or not restart and load(daemon, False) else ACCEPTED
    if stage in (STOPPED, FAILED):
        go_back(daemon, files, restart)
        return True
    if stage == STOPPING:
        daemon.stop()  # it may be about to end
        daemon.start()
    files.clear()
    return stage in (STOPPING, ACCEPTED)


def act(daemon, files):
    """Returns the module's result."""
    params = files.params
    restart = params["restart"]
    files.check()
    changed = repair(daemon, files, restart)
    if params.get("repair"):
        return {"changed": changed}
    wanted, there = files.wanted(), files.there()
    if there == wanted:
        return {"changed": changed}
    if hashlib.sha256(files.own().encode("utf-8", "surrogateescape")).hexdigest() != params["expect"]:
        raise Failure("slurm.conf was not changed: somebody has edited it meanwhile. Repeat the command")
    if not daemon.runs() or not daemon.answers():
        raise Failure("slurm.conf was not changed: slurmctld does not answer")
    files.prepare(wanted)
    why = refusal(daemon, params)
    if why:
        files.clear()
        raise Failure("slurm.conf was not changed: " + why)
    if restart:
        stop(daemon, files)
    files.now(STOPPED)
    files.place()
    problem = load(daemon, restart)
    if not problem:
        files.now(ACCEPTED)
        files.clear()
        return {"changed": True}
    files.now(FAILED)
    after = go_back(daemon, files, restart)
    then = ", nor the site's own, which is restored: " + after if after else "; the site's own is restored"
    raise Failure("slurmctld does not accept the new configuration%s. Its output:\n%s" % (then, problem))


def answer(daemon, params):
    what = "%s\n%s" % (params["expect"], params["text"])
    return reconfigure_slurmctld.answer(params, what, lambda: act(daemon, Attached(params)))


def main():
    module = AnsibleModule(
        argument_spec={
            "conf": {"type": "path", "required": True},
            "line": {"type": "str", "required": True},
            "include": {"type": "str", "required": True},
            "text": {"type": "str"},
            "expect": {"type": "str", "required": True},
            "restart": {"type": "bool", "default": False},
            "repair": {"type": "bool", "default": False},
            "work": {"type": "path", "required": True},
            "path": {"type": "str", "required": True},
            "dangers": {"type": "list", "elements": "dict"},
            "unknown": {"type": "str", "default": ""},
            "result": {"type": "path", "default": "/run/reconfigure-slurmctld.json"},
        },
    )
    params = dict(module.params, directory=os.path.dirname(module.params["conf"]))
    reconfigure_slurmctld.exit_with(module, lambda: answer(Slurmctld(PATH=params["path"], SLURM_CONF=params["conf"]), params))


if __name__ == "__main__":
    main()
