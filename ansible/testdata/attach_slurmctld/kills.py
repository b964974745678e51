"""Kills the module attach_slurmctld before each of its steps, and calls it again. The files that a kill leaves are a copy made before the step. slurmctld and Slurm's commands are doubles. It is run in the folder ansible."""

import hashlib
import os
import socket
import sys
import tempfile

sys.path.append("testdata")
import steps  # pylint: disable=wrong-import-position  # it is beside the folder of this script

module = steps.load("roles/attach/library/attach_slurmctld.py")

OWN = "# M\udcfcnster\r\nClusterName=site"  # it has a byte that is not UTF-8, and no newline at the end
LINE = "Include eiffel.conf\n"
GOOD, OTHER, BAD = "NodeName=a\n", "NodeName=b\n", "bad\n"

def files(text):
    return {"slurm.conf": OWN} if text is None else {"slurm.conf": LINE + OWN, "eiffel.conf": text}


class World(steps.Host):
    """The control node of a site."""

    def __init__(self, text, jobs=False, backup=False, slow=False):
        super().__init__(base)
        os.mkdir(self.etc)
        for name, content in files(text).items():
            with open(os.path.join(self.etc, name), "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(content)
        os.chmod(os.path.join(self.etc, "slurm.conf"), 0o640)
        self.jobs, self.backup, self.slow = jobs, backup, slow
        self.running = self.there()

    def place(self, root):
        self.root = root
        self.etc, self.file = os.path.join(root, "etc"), os.path.join(root, "world")

    def there(self):
        return module.reconfigure_slurmctld.reconfigure_slurm.read(self.etc, ("slurm.conf", "eiffel.conf"))

    def load(self):
        there = self.there()
        if not there["slurm.conf"].startswith(LINE):
            self.running = {"slurm.conf": there["slurm.conf"]}
        elif there["eiffel.conf"] != BAD:  # a missing file is an error here
            self.running = there
        else:
            return 1
        return 0

    def call(self, text, restart, copied=False, repair=False):
        """Returns the result and the number of steps. With copied, the control node is copied before each step."""

        def act():
            module.reconfigure_slurmctld.time = steps.Clock()
            params = {
                "conf": os.path.join(self.etc, "slurm.conf"), "line": LINE, "include": "eiffel.conf", "text": text, "restart": restart, "repair": repair, "unknown": "", "directory": self.etc,
                "expect": hashlib.sha256(OWN.encode("utf-8", "surrogateescape")).hexdigest(), "work": os.path.join(self.etc, "eiffel", "work"),
                "result": os.path.join(self.root, "result"), "dangers": [{"nodes": "", "partition": "", "what": "something changes"}],
            }
            return module.answer(Daemon(self), params)

        return self.count(act, copied)


class Daemon(module.Slurmctld):
    def __init__(self, world):
        super().__init__()
        self.world, self.asked = world, False

    def control(self, verb):
        steps.step()
        if verb == "stop":
            self.world.running = None
        elif self.world.running is None:
            self.world.load()

    def run(self, argv, **env):
        steps.step()
        running = self.world.running
        if argv == ["scontrol", "reconfigure"]:
            if self.world.slow:
                self.world.load()
                return 1, "", "slurm_reconfigure error: Socket timed out on send/recv operation"
            return (self.world.load(), "", "slurm_reconfigure error") if running else (1, "", "no answer")
        if argv == ["scontrol", "show", "config"]:
            if self.world.slow == "silent" and not self.asked:  # it does not say when the one before was started
                self.asked = True
                return 1, "", ""
            return 0, "BOOT_TIME               = %s\n" % hashlib.sha256(repr(running).encode()).hexdigest(), ""
        if argv[0] == "squeue":
            return 0, "7\n" if self.world.jobs else "", ""
        if argv[0] == "timeout":
            return 1, "fatal: a bad setting\n", ""
        if self.world.backup and argv[0] == "scontrol":  # it answers also while this host's slurmctld is down
            return 0, "Slurmctld(primary) at %s is %s\nSlurmctld(backup) at other is UP\n" % (socket.gethostname(), "UP" if running else "DOWN"), ""
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
        undisturbed = World(before)
        result, most = undisturbed.call(text, restart, copied=True)
        if bool(result.get("failed")) != (text == BAD):
            sys.exit("%s: %s" % (name, result))
        for at in range(1, most + 1):
            what = "%s, killed at step %d of %d" % (name, at, most)
            world = undisturbed.killed_at(at)
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
            world.remove()
        undisturbed.remove()
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
    world = World(None, backup=True)
    result, _ = world.call(BAD, restart)
    if "does not accept the new configuration; the site's own is restored" not in result.get("msg", ""):
        sys.exit("with a backup slurmctld: %s" % result)
    check(world, "with a backup slurmctld", files(None))
    if not restart:
        world = World(None, slow=True)  # `scontrol reconfigure` gives up before slurmctld is ready
        result, _ = world.call(GOOD, restart)
        if not result.get("changed"):
            sys.exit("slowly: %s" % result)
        check(world, "slowly", files(GOOD))
        result, _ = world.call(BAD, restart)
        if "does not accept the new configuration" not in result.get("msg", ""):
            sys.exit("slowly, badly: %s" % result)
        check(world, "slowly, badly", files(GOOD))
        world = World(None, slow="silent")
        result, _ = world.call(GOOD, restart)
        if "does not accept the new configuration" not in result.get("msg", ""):
            sys.exit("slowly and silently: %s" % result)
        check(world, "slowly and silently", files(None))
    print("refused")


with tempfile.TemporaryDirectory(dir="/dev/shm") as base:
    {"kills": kills, "refusals": refusals}[sys.argv[1]](sys.argv[2] == "restart")
