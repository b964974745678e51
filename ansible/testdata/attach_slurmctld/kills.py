"""Kills the module attach_slurmctld before each of its steps, and calls it again. slurmctld and Slurm's commands are doubles. It is run in the folder ansible."""

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile

import ansible.module_utils

ansible.module_utils.__path__.append(os.path.abspath("module_utils"))
spec = importlib.util.spec_from_file_location("attach_slurmctld", "roles/attach/library/attach_slurmctld.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

OWN = "# M\udcfcnster\r\nClusterName=site"  # it has a byte that is not UTF-8, and no newline at the end
LINE = "Include eiffel.conf\n"
GOOD, OTHER, BAD = "NodeName=a\n", "NodeName=b\n", "bad\n"

steps, last = 0, 0  # how many there were, and the one at which this process is killed


def step():
    global steps
    steps += 1
    if steps == last:
        os._exit(137)


def stepping(function):
    def after_step(*args, **named):
        step()
        return function(*args, **named)

    return after_step


class Clock:
    """Has a second pass at each look."""

    def __init__(self):
        self.now = 0

    def monotonic(self):
        self.now += 1
        return self.now

    def sleep(self, _):
        pass


def files(text):
    return {"slurm.conf": OWN} if text is None else {"slurm.conf": LINE + OWN, "eiffel.conf": text}


class World:
    """The control node of a site."""

    def __init__(self, text, jobs=False):
        self.root = tempfile.mkdtemp(dir=base)
        self.etc, self.file = os.path.join(self.root, "etc"), os.path.join(self.root, "world")
        os.mkdir(self.etc)
        for name, content in files(text).items():
            with open(os.path.join(self.etc, name), "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(content)
        os.chmod(os.path.join(self.etc, "slurm.conf"), 0o640)
        self.jobs = jobs
        self.running = self.there()

    def there(self):
        return module.reconfigure_slurmctld.reconfigure_slurm.read(self.etc, ("slurm.conf", "eiffel.conf"))

    @property
    def running(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    @running.setter
    def running(self, loaded):
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump(loaded, file)

    def load(self):
        there = self.there()
        if not there["slurm.conf"].startswith(LINE):
            self.running = {"slurm.conf": there["slurm.conf"]}
        elif there["eiffel.conf"] != BAD:  # a missing file is an error here
            self.running = there
        else:
            return 1
        return 0

    def call(self, text, restart, at=0, repair=False):
        """Returns the result, None if the call was killed, and the number of its steps."""
        global steps, last
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            steps, last = 0, at
            for name in ("rename", "unlink", "mkdir", "fsync", "rmdir"):
                setattr(os, name, stepping(getattr(os, name)))
            module.reconfigure_slurmctld.time = Clock()
            params = {
                "conf": os.path.join(self.etc, "slurm.conf"), "line": LINE, "include": "eiffel.conf", "text": text, "restart": restart, "repair": repair, "unknown": "", "directory": self.etc,
                "expect": hashlib.sha256(OWN.encode("utf-8", "surrogateescape")).hexdigest(), "work": os.path.join(self.etc, "eiffel", "work"),
                "result": os.path.join(self.root, "result"), "dangers": [{"nodes": "", "partition": "", "what": "something changes"}],
            }
            result = module.answer(Daemon(self), params)
            os.write(theirs, json.dumps([result, steps]).encode())
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours, "rb") as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        return json.loads(said.decode()) if said else (None, 0)


class Daemon(module.Slurmctld):
    def __init__(self, world):
        super().__init__()
        self.world = world

    def control(self, verb):
        step()
        if verb == "stop":
            self.world.running = None
        elif self.world.running is None:
            self.world.load()

    def run(self, argv, **env):
        step()
        running = self.world.running
        if argv == ["scontrol", "reconfigure"]:
            return (self.world.load(), "", "slurm_reconfigure error") if running else (1, "", "no answer")
        if argv[0] == "squeue":
            return 0, "7\n" if self.world.jobs else "", ""
        if argv[0] == "timeout":
            return 1, "fatal: a bad setting\n", ""
        return (0 if running else 1), "", ""


def check(world, what, wanted):
    """slurmctld runs with the files on the disk, and nothing is left of the call."""
    running, there, work = world.running, world.there(), os.path.join(world.etc, "eiffel", "work")
    left = [name for name in os.listdir(world.etc) if name not in ("slurm.conf", "eiffel.conf", "eiffel")]
    left += [name for name in (os.listdir(work) if os.path.isdir(work) else []) if name != "last-good"]
    mode = os.stat(os.path.join(world.etc, "slurm.conf")).st_mode & 0o777
    if running != there or there != wanted or left or mode != 0o640:
        sys.exit("%s: slurmctld runs with %s; on the disk are %s with mode %o, and %s are left" % (what, running, there, mode, left))


# Name, eiffel.conf that is there, the new one, and that afterwards.
CALLS = [("attach", None, GOOD, GOOD), ("attach badly", None, BAD, None), ("attach again", GOOD, OTHER, OTHER), ("again, badly", GOOD, BAD, GOOD), ("detach", GOOD, None, None)]


def kills(restart):
    for name, before, text, after in CALLS:
        result, most = World(before).call(text, restart)
        if bool(result.get("failed")) != (text == BAD):
            sys.exit("%s: %s" % (name, result))
        for at in range(1, most + 1):
            what = "%s, killed at step %d of %d" % (name, at, most)
            world = World(before)
            if world.call(text, restart, at=at)[0] is not None:
                sys.exit(what + ": it was not killed")
            there = world.there()
            if there["slurm.conf"] not in (OWN, LINE + OWN) or there["slurm.conf"] != OWN and "eiffel.conf" not in there:
                sys.exit("%s: on the disk are %s" % (what, there))
            if not restart and world.running is None:
                sys.exit(what + ": slurmctld does not run")
            if at % 2:
                world.call(text, restart, repair=True)
                check(world, what + ", then repaired", files(after if world.there() == files(after) else before))
            world.call(text, restart)
            check(world, what, files(after))
            world.call(None, restart)
            check(world, what + ", then detached", files(None))
            shutil.rmtree(world.root)
    print("killed at each step")


def refusals(restart):
    world = World(None, jobs=True)
    result, _ = world.call(GOOD, restart)
    if "would end jobs 7" not in result.get("msg", ""):
        sys.exit("refused: %s" % result)
    check(world, "refused", files(None))
    world = World(None)
    with open(os.path.join(world.etc, "slurm.conf"), "a", encoding="utf-8") as file:
        file.write("\n# an edit\n")
    result, _ = world.call(GOOD, restart)
    if "somebody has edited it" not in result.get("msg", "") or "eiffel.conf" in world.there():
        sys.exit("edited: %s, %s" % (result, world.there()))
    print("refused")


with tempfile.TemporaryDirectory(dir="/dev/shm") as base:
    {"kills": kills, "refusals": refusals}[sys.argv[1]](sys.argv[2] == "restart")
