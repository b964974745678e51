"""Kills the module run_slurmctld before each of its steps, and calls it again. The files that a kill leaves are a copy made before the step. slurmctld, Slurm's commands and the service manager are doubles. It is run in the folder ansible."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append("testdata")
import steps  # pylint: disable=wrong-import-position  # it is beside the folder of this script

module = steps.load("roles/slurm_conf/library/run_slurmctld.py")

A = {"slurm.conf": "one\n", "cgroup.conf": "c\n", "gres.conf": "g\n"}
B = {"slurm.conf": "two\nProlog=/etc/slurm/fresh.sh\n", "cgroup.conf": "d\n", "fresh.sh": "#!/bin/sh\n"}
BAD = dict(B, **{"slurm.conf": "bad\n"})  # slurmctld does not start
MUTE = dict(B, **{"slurm.conf": "mute\n"})  # slurmctld starts, and does not answer
EDITED = dict(A, **{"slurm.conf": "edited\n"})
ALL_JOBS = [{"nodes": "", "partition": "", "what": "something changes"}]

class World(steps.Host):
    """A control node."""

    def __init__(self, there, good, running, jobs=False):
        super().__init__(base)
        os.makedirs(os.path.join(self.root, "run"))
        for folder, files in ((self.etc, there), (os.path.join(self.etc, "last-good"), good)):
            if files is not None:
                os.makedirs(folder, exist_ok=True)
                for name, text in files.items():
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        file.write(text)
        self.running = running
        self.jobs = jobs

    def place(self, root):
        self.root = root
        self.etc, self.result, self.file = (os.path.join(root, name) for name in ("etc", "run/result", "world"))

    def there(self):
        return module.reconfigure_slurm.read(self.etc)

    def start(self):
        files = self.there()
        if self.running is None and "slurm.conf" in files and "bad" not in files["slurm.conf"]:
            self.running = files

    def reboot(self, put_back):
        """put_back: systemd runs our program before slurmctld."""
        self.running = None
        shutil.rmtree(os.path.dirname(self.result))
        os.mkdir(os.path.dirname(self.result))
        if put_back:
            with open("roles/slurm_control/templates/put_back.sh.j2", encoding="utf-8") as file:
                script = file.read().replace("{{ (slurm_directory ~ '/deploy') | quote }}", self.etc + "/deploy")
            subprocess.run(["sh", "-c", script], check=True)
        self.start()

    def call(self, files, dangers=(), copied=False):
        """Returns the result and the number of steps. With copied, the control node is copied before each step."""

        def act():
            module.reconfigure_slurmctld.time = steps.Clock()
            params = {"directory": self.etc, "files": files, "dangers": list(dangers), "unknown": "", "fresh": "fresh.sh" in files, "result": self.result}
            return module.answer(Daemon(self), params)

        return self.count(act, copied)


class Daemon(module.Slurmctld):
    def __init__(self, world):
        super().__init__()
        self.world = world

    def control(self, verb):
        steps.step()
        if verb == "stop":
            self.world.running = None
        else:
            self.world.start()

    def run(self, argv, **env):
        steps.step()
        running = self.world.running
        if argv[0] == "pgrep":
            return (0 if running else 1), "", ""
        if argv[0] == "scontrol":
            return (0 if running and "mute" not in running["slurm.conf"] else 1), "", ""
        if argv[0] == "squeue":
            return (0, "7\n" if self.world.jobs else "", "") if running else (1, "", "no answer")
        if argv[0] == "sinfo":
            return 0, "n1 idle\nn2 idle~\n", ""
        if argv[0] == "timeout":
            return 1, "fatal: a bad setting\n", ""
        assert argv[0].endswith("/fresh.sh") and env["SLURMD_NODENAME"] == "n1", argv
        return 0, "", ""


def check(world, what, wanted):
    """slurmctld runs with files that it accepted, which are the ones on the disk, and nothing is left over."""
    running, there = world.running, world.there()
    left = [name for name in os.listdir(world.etc) if name not in module.reconfigure_slurm.NAMES + ("last-good",)]
    good = module.reconfigure_slurm.accepted(world.etc)
    # Nobody knows whether slurmctld runs with an edited file.
    if running is None or running != there or good != running and there != EDITED or running not in wanted or left:
        sys.exit("%s: slurmctld runs with %s; on the disk are %s, last-good has %s, and %s are left" % (what, running, there, good, left))


def check_result(what, result, words):
    """Without words the call must succeed."""
    if not words and result.get("failed") or words and words not in result.get("msg", ""):
        sys.exit("%s: the result is %s" % (what, result))


# Name, the files that are there, last-good, those that slurmctld runs with, the new ones, and words of the result.
CALLS = [
    ("another configuration", A, A, A, B, ""),
    ("one that slurmctld does not accept", A, A, A, BAD, "the previous one is restored. Its output:\nfatal: a bad setting"),
    ("one with which it does not answer", A, A, A, MUTE, "the previous one is restored"),
    ("the same, while it does not run", A, A, None, A, ""),
    ("the first one", {}, None, None, B, ""),
    ("another than an edited one", EDITED, A, EDITED, B, ""),
    ("a bad one instead of an edited one", EDITED, A, EDITED, BAD, "the previous one is restored"),
]
LATER = {
    "the same call": lambda world, files: world.call(files),
    "the former files": lambda world, files: world.call(A),
    "a call that is refused": lambda world, files: refused(world, files),
    "a reboot with systemd": lambda world, files: (world.reboot(True), must_run(world), world.call(files))[2],
    "a reboot without it": lambda world, files: (world.reboot(False), world.call(files))[1],
}


def must_run(world):
    if world.running is None and module.reconfigure_slurm.accepted(world.etc):
        sys.exit("slurmctld does not run after the reboot")


def refused(world, files):
    world.jobs = True
    return world.call(files, ALL_JOBS)


def kills():
    for name, there, good, running, files, words in CALLS:
        undisturbed = World(there, good, running)
        result, most = undisturbed.call(files, copied=True)
        check_result(name, result, words)
        for at, (next_name, later) in itertools.product(range(1, most + 1), LATER.items()):
            if next_name == "a call that is refused" and good is None:
                continue  # before the first configuration there are no jobs
            what = "%s, killed at step %d of %d, then %s" % (name, at, most, next_name)
            world = undisturbed.killed_at(at)
            if world.running not in (None, world.there()):
                sys.exit(what + ": slurmctld runs with %s, and on the disk are %s" % (world.running, world.there()))
            ran = world.running
            result, _ = later(world, files)
            check(world, what, [A, EDITED, B])
            if next_name == "a call that is refused" and ran and "mute" not in ran["slurm.conf"] and world.running != ran:
                sys.exit("%s: slurmctld ran with %s, and runs with %s, while there are jobs" % (what, ran, world.running))
            if next_name == "the same call":
                check_result(what, result, words)
            world.remove()
        undisturbed.remove()
    print("killed at each step")


def twice():
    """Kills the call that repairs, too."""
    for name, there, good, running, files, words in CALLS[:3]:
        undisturbed = World(there, good, running)
        most = undisturbed.call(files, copied=True)[1]
        for at in range(1, most + 1, 7):
            repairing = undisturbed.killed_at(at)
            most_again = repairing.call(files, copied=True)[1]
            for again in range(1, most_again + 1, 13):
                world = repairing.killed_at(again)
                world.call(files)
                check(world, "%s, killed at steps %d and %d" % (name, at, again), [A, B])
                world.remove()
            repairing.remove()
        undisturbed.remove()
    print("killed twice")


def refusals():
    """A refused call changes nothing, also if somebody has edited the files."""
    for there in (A, EDITED):
        world = World(there, A, there, jobs=True)
        result, _ = world.call(B, ALL_JOBS)
        check_result("refused", result, "a restarted slurmctld would end jobs 7")
        if world.running != there or world.there() != there or os.path.exists(os.path.join(world.etc, "deploy")):
            sys.exit("a refused call leaves %s" % world.there())
    print("refused")


def full_disk(size):
    """Calls it on file systems that are full but for a few KiB, which are mounted here."""
    for room in range(0, 80, 4):
        for files in (B, BAD):
            folder = tempfile.mkdtemp(dir=base)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % size, "tmpfs", folder], check=True)
            world = World({}, {}, None)
            world.etc = os.path.join(folder, "etc")
            for name in ("", "last-good"):
                os.mkdir(os.path.join(world.etc, name))
                for file_name, text in A.items():
                    with open(os.path.join(world.etc, name, file_name), "w", encoding="utf-8") as file:
                        file.write(text)
            world.running = A
            with open(os.path.join(folder, "filler"), "wb") as file:
                free = os.statvfs(folder)
                file.write(b"x" * max(0, free.f_bavail * free.f_frsize - room * 1024))
            result, _ = world.call(files)
            full = "No space left on device" in json.dumps(result)
            full_disk.seen.add((full, files is BAD))
            what = "a disk with %d KiB: %s" % (room, result)
            check(world, what, [A] if full or files is BAD else [B])
            os.unlink(os.path.join(folder, "filler"))
            world.call(B)
            check(world, what + ", and then with room", [B])
            subprocess.run(["umount", folder], check=True)
    if len(full_disk.seen) != 4:
        sys.exit("no disk was full, or all were: %s" % full_disk.seen)
    print("a full disk")


full_disk.seen = set()


def together():
    """A call waits for another one, and returns its result if both have the same files."""
    for second, picked in ((B, True), (A, False)):
        world = World(A, A, A)
        go = os.path.join(world.root, "go")
        first = os.fork()
        if first == 0:
            os.setsid()
            stop = Daemon.control

            def slow(self, verb):
                while verb == "stop" and not os.path.exists(go):
                    time.sleep(0.01)
                stop(self, verb)

            Daemon.control = slow
            world.call(B)
            os._exit(0)
        while not os.path.exists(os.path.join(world.etc, "deploy", "stopping")):
            time.sleep(0.01)
        waits = os.path.join(world.root, "waits")
        child = os.fork()
        if child == 0:
            flock = module.reconfigure_slurmctld.fcntl.flock

            def noted(number, how):
                if not how & module.reconfigure_slurmctld.fcntl.LOCK_NB:
                    open(waits, "w", encoding="utf-8").close()
                flock(number, how)

            module.reconfigure_slurmctld.fcntl.flock = noted
            result, most = world.call(second)
            acted = most > 2  # it removes no result
            os._exit(0 if acted != picked and result == {"changed": True, "restarted": True} else 1)
        while not os.path.exists(waits):
            time.sleep(0.01)
        open(go, "w", encoding="utf-8").close()
        os.waitpid(first, 0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit("the second call does not return the first one's result")
        check(world, "two calls", [second])
    print("two calls")


with tempfile.TemporaryDirectory(dir="/dev/shm") as base:
    {"kills": kills, "twice": twice, "refusals": refusals, "full": lambda: full_disk(256), "together": together}[sys.argv[1]]()
