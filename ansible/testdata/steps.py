"""What the tests that kill a module have in common: they count its steps, and copy the files of the host before each, as a kill there leaves them."""

import copy
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile

import ansible.module_utils

taken, copies = 0, None  # how many steps there were, and what gets the number of each before it


def load(path):
    """Loads a module of a role. The script runs in the folder ansible."""
    ansible.module_utils.__path__.append(os.path.abspath("module_utils"))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def step():
    global taken
    taken += 1
    if copies:
        copies(taken)


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


class Host:
    """A host whose files are below root. place, of the class for a module, says where."""

    def __init__(self, base):
        self.base = base
        self.place(tempfile.mkdtemp(dir=base))

    @property
    def running(self):
        """The files with which slurmctld runs; None if it does not run."""
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    @running.setter
    def running(self, files):
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump(files, file)

    def killed_at(self, number):
        """Returns the host as a kill before this step of a call with copies leaves it."""
        killed = copy.copy(self)
        killed.place(tempfile.mkdtemp(dir=self.base))
        shutil.copytree("%s.%d" % (self.root, number), killed.root, dirs_exist_ok=True)
        return killed

    def copy(self, number):
        subprocess.run(["cp", "-a", self.root, "%s.%d" % (self.root, number)], check=True)

    def remove(self):
        for folder in [self.root] + glob.glob(self.root + ".*"):
            shutil.rmtree(folder)

    def in_child(self, act, copied):
        """Returns what act returns in another process, and the number of its steps. With copied, the host is copied before each."""
        global taken, copies
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            taken, copies = 0, self.copy if copied else None
            for name in ("rename", "unlink", "mkdir", "fsync", "rmdir"):
                setattr(os, name, stepping(getattr(os, name)))
            os.write(theirs, json.dumps([act(), taken]).encode())
            os._exit(0)
        os.close(theirs)
        with os.fdopen(ours, "rb") as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        if not said:
            sys.exit("the call ended without a result")
        return json.loads(said.decode())
