"""Runs slurmctld with other files, or with the previous ones. Ansible sends it with each module that imports it."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from ansible.module_utils import reconfigure_files, reconfigure_slurm
from ansible.module_utils.reconfigure_slurm import ACCEPTED, FAILED, PREPARED, STOPPED, STOPPING

JOBS = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"


class Failure(Exception):
    """An error that the module reports."""


class Slurmctld:
    """The daemon, and Slurm's commands, with variables of their environment."""

    def __init__(self, **environment):
        self.environment = dict(os.environ, LC_ALL="C", **environment)
        self.systemd = os.path.isdir("/run/systemd/system")  # sd_booted(3)

    def run(self, argv, **env):
        """Returns the exit status and the output of a command."""
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, env=dict(self.environment, **env), check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, "", str(error)
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")

    def control(self, verb):
        """Calls the service manager. A daemon would keep an output pipe open, so there is none. Another method checks whether slurmctld then runs."""
        argv = ["systemctl", verb, "slurmctld"] if self.systemd else ["service", "slurmctld", verb]
        try:
            # systemd sends SIGKILL after 90 seconds.
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=150, check=False)
        except (OSError, subprocess.TimeoutExpired):
            pass

    def runs(self):
        return self.run(["pgrep", "-x", "slurmctld"])[0] == 0

    def stop(self):
        """Stops it, and reports whether it has ended. Stop, wait and start instead of restart: slurmctld waits up to ten seconds for programs that it runs, and Debian's init script
        starts the new one before the old one has ended; the new one then exits."""
        self.control("stop")
        began = time.monotonic()
        while self.runs():
            if time.monotonic() - began > 60:
                return False
            time.sleep(0.5)
        return True

    def start(self):
        """Starts it, and reports whether it answers."""
        self.control("start")
        return self.answers()

    def answers(self):
        """Waits until it answers, or has ended."""
        began = time.monotonic()
        while not is_up(*self.run(["scontrol", "ping"])[:2], socket.gethostname()):
            waited = time.monotonic() - began
            if waited > 30 or waited > 5 and not self.runs():
                return False
            time.sleep(0.5)
        return True

    def since(self):
        """Returns the time at which slurmctld was started, or nothing if it does not answer."""
        found = re.search(r"^BOOT_TIME *= (.*)$", self.run(["scontrol", "show", "config"])[1], re.MULTILINE)
        return found.group(1) if found else ""

    def replaced(self, since):
        """Waits until another slurmctld runs than the one of that time. Since 23.11 `scontrol reconfigure` starts another one, which looks up each node name without an address for ten
        seconds. It answers after that, and scontrol gives up after MessageTimeout, ten seconds by default."""
        if not since:
            return False
        began = time.monotonic()
        while self.since() in ("", since):
            if time.monotonic() - began > 300:
                return False
            time.sleep(1)
        return True

    def words(self):
        """Returns slurmctld's output. It is started in the foreground, since it prints errors in slurm.conf before it has opened its log."""
        _, out, err = self.run(["timeout", "--kill-after=10", "10", "slurmctld", "-D"])
        return "\n".join((out + err).splitlines()[-10:])

    def jobs(self, danger):
        """Returns the jobs of a danger, for a message."""
        which = [option + danger[key] for option, key in (("--nodelist=", "nodes"), ("--partition=", "partition")) if danger[key]]
        status, out, err = self.run(["squeue", "--noheader", "--all", JOBS, "--format=%i"] + which)
        if status != 0:
            return "jobs that squeue does not list: " + err.strip()
        jobs = out.split()
        return "jobs " + ", ".join(jobs[:10]) + (" and more" if len(jobs) > 10 else "") if jobs else ""

    def power_down(self, script):
        """Powers down the nodes whose instances jobs may have used. A state that ends in ~ means a node without an instance (sinfo(1))."""
        if not self.runs():
            return
        status, out, err = self.run(["sinfo", "--all", "--noheader", "--Node", "--format=%N %t"])
        for node in sorted({line.split()[0] for line in out.splitlines() if line.split() and not line.rstrip().endswith("~")}):
            if status == 0:
                status, _, err = self.run([script], SLURM_SCRIPT_CONTEXT="deploy", SLURMD_NODENAME=node)
        if status != 0:
            raise Failure("slurm.conf was not changed: the nodes whose next jobs get fresh instances cannot be powered down: " + err.strip())


class Files:
    """The files in Slurm's folder, and in last-good and deploy, which are in the folder work."""

    names = reconfigure_slurm.NAMES

    def __init__(self, directory, work=None):
        self.directory = directory
        self.work = work or directory
        self.good = os.path.join(self.work, "last-good")
        self.deploy = os.path.join(self.work, reconfigure_slurm.DEPLOY)

    def there(self):
        return reconfigure_slurm.read(self.directory, self.names)

    def write(self, folder, name, text):
        reconfigure_files.write(os.path.join(folder, name), text, reconfigure_files.mode(name))

    def accepted(self):
        return reconfigure_slurm.accepted(self.directory)

    def stage(self):
        """Returns the progress of an interrupted call; None if there was none."""
        names = os.listdir(self.deploy) if os.path.isdir(self.deploy) else []
        return next((name for name in (PREPARED, STOPPING, STOPPED, ACCEPTED, FAILED) if name in names), None)

    def prepare(self, wanted):
        """Writes the folder deploy, which appears atomically: the new files (next), copies of them for Slurm's folder (place) and for last-good (good), the files that are there
        (before), and the names of the files to add (added) and of the playbooks' files to remove (gone)."""
        there = self.there()
        gone = [name for name in self.accepted() if name in there and name not in wanted]
        parts = {
            "next": wanted,
            "place": wanted,
            "good": wanted,
            "before": {name: text for name, text in there.items() if name in wanted or name in gone},
            "added": {name: "" for name in wanted if name not in there},
            "gone": {name: "" for name in gone},
        }
        unfinished = self.deploy + ".new"
        try:
            os.makedirs(self.good, mode=0o755, exist_ok=True)
            os.mkdir(unfinished, 0o755)
            for part, files in parts.items():
                folder = os.path.join(unfinished, part)
                os.mkdir(folder, 0o755)
                for name, text in files.items():
                    self.write(folder, name, text)
                sync(folder)
            self.write(unfinished, PREPARED, "")
            sync(unfinished)
            os.rename(unfinished, self.deploy)
            sync(self.work)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise Failure("slurm.conf was not changed: write to %s: %s" % (unfinished, error.strerror)) from error

    def now(self, stage):
        os.rename(os.path.join(self.deploy, self.stage()), os.path.join(self.deploy, stage))
        sync(self.deploy)

    def move(self, part, to):
        """Moves the files of a part of deploy to their place. It may be repeated."""
        for name in sorted(os.listdir(os.path.join(self.deploy, part))):
            os.rename(os.path.join(self.deploy, part, name), os.path.join(to, name))
        sync(to)

    def remove(self, part, folder):
        """Removes the files named by a part of deploy. It may be repeated."""
        for name in sorted(os.listdir(os.path.join(self.deploy, part))):
            if os.path.exists(os.path.join(folder, name)):
                os.unlink(os.path.join(folder, name))
        sync(folder)

    def place(self):
        self.move("place", self.directory)
        self.remove("gone", self.directory)

    def put_back(self):
        self.move("before", self.directory)
        self.remove("added", self.directory)

    def accept(self):
        """Makes the new files those of last-good."""
        self.move("good", self.good)
        self.remove("gone", self.good)

    def placed(self):
        """Reports whether all new files are in place for slurmctld."""
        there, after = self.there(), reconfigure_slurm.read(os.path.join(self.deploy, "next"), self.names)
        return all(there.get(name) == text for name, text in after.items()) and not self.listed("gone", there)

    def back(self):
        """Reports whether all previous files are in place."""
        return not os.listdir(os.path.join(self.deploy, "before")) and not self.listed("added", self.there())

    def listed(self, part, there):
        return [name for name in os.listdir(os.path.join(self.deploy, part)) if name in there]

    def keep(self):
        """Makes the files in place those of last-good, without files that the playbooks did not write."""
        there, good = self.there(), reconfigure_slurm.read(self.good, self.names)
        for name, text in good.items():
            if name not in there:
                os.unlink(os.path.join(self.good, name))
            elif there[name] != text:
                self.write(self.good, name, there[name])
        sync(self.good)

    def restore(self):
        """Puts the files of last-good in place, and reports whether that changed anything."""
        there, good = self.there(), reconfigure_slurm.read(self.good, self.names)
        differing = [name for name, text in good.items() if there.get(name) != text]
        for name in differing:
            self.write(self.directory, name, good[name])
        sync(self.directory)
        return bool(differing)

    def clear(self):
        """Removes the folder deploy, which disappears atomically."""
        os.rename(self.deploy, self.deploy + ".old")
        sync(self.work)
        self.sweep()

    def sweep(self):
        """Removes leftovers of killed calls: parts of deploy, and files that were not renamed yet."""
        for name in (".new", ".old"):
            shutil.rmtree(self.deploy + name, ignore_errors=True)
        unnamed = re.compile(r"\.(%s)\.[a-z0-9_]{8}$" % "|".join(re.escape(name) for name in self.names))
        for folder in (self.directory, self.good):
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                if unnamed.match(name):
                    os.unlink(os.path.join(folder, name))


def is_up(status, out, host):
    """Reports whether slurmctld of this host answers, from the answer of `scontrol ping`. With a backup slurmctld, the status is 0 if one of them answers."""
    hosts = dict(re.findall(r"^Slurmctld\([^)]*\) at (\S+) is (\S+)", out, re.MULTILINE))
    short = {name.partition(".")[0]: state for name, state in hosts.items()}
    return status == 0 and (len(hosts) < 2 or short.get(host.partition(".")[0], "UP") == "UP")


def sync(folder):
    """Makes the names in a folder survive a loss of power."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def refusal(daemon, params):
    if params["unknown"]:
        return "it is unknown whether jobs would be ended: " + params["unknown"]
    for danger in params["dangers"] or []:
        jobs = daemon.jobs(danger)
        if jobs:
            where = "partition " + danger["partition"] if danger["partition"] else danger["nodes"] or "all nodes"
            return "of %s, %s; a restarted slurmctld %s end %s" % (where, danger["what"], "may" if danger.get("unsure") else "would", jobs)
    return ""


def stop(daemon, files):
    """Stops slurmctld, for files that were prepared. If it does not end, the files are removed and the call fails."""
    files.now(STOPPING)
    if not daemon.stop():
        daemon.start()  # it may have ended by now
        files.clear()
        raise Failure("slurm.conf was not changed: slurmctld does not end within a minute")


def lock(directory):
    """Waits until no other call uses the folder, and reports whether it had to wait. This process has the lock until it ends."""
    number = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        fcntl.flock(number, fcntl.LOCK_EX)
        return True


def answer(params, what, act):
    """Acts, and returns the module's result. If it waited for another call for the same, it returns that call's result."""
    mine = hashlib.sha256(what.encode()).hexdigest()
    waited, there = lock(params["directory"]), os.path.exists(params["result"])
    if waited and there:
        with open(params["result"], encoding="utf-8") as file:
            other = json.load(file)
        if other["files"] == mine:
            return other["result"]
    if there:
        os.unlink(params["result"])
    try:
        result = act()
    except (Failure, OSError) as error:
        result = {"failed": True, "msg": str(error)}
    try:
        reconfigure_files.write(params["result"], json.dumps({"files": mine, "result": result}), 0o600)
    except OSError:
        pass  # a waiting call acts itself
    return result


def exit_with(module, call):
    """Ends a module with the result of a call in another process. The next process repairs what a killed one left."""
    result = None
    for _ in range(3):
        result = result or detached(call)
    if result is None:
        module.fail_json(msg="the process that restarts slurmctld was killed three times")
    if result.get("failed"):
        module.fail_json(msg=result["msg"])
    module.exit_json(**result)


def detached(call):
    """Lets a process in its own session make a call, and returns its answer; None if it was killed."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            for number in (signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            os.close(ours)
            try:
                result = call()
            except Exception as error:  # pylint: disable=broad-except  # the call needs an answer
                result = {"failed": True, "msg": "%s: %s" % (type(error).__name__, error)}
            os.write(theirs, json.dumps(result).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said.decode()) if said else None
