"""What the tests that kill a module have in common: they count its steps, and copy the files of the host before each, as a kill there leaves them."""

import copy
import fcntl
import importlib.util
import json
import os
import shutil
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
    global taken, copies
    taken += 1
    if copies:
        number, copy_host, copies = taken, copies, None
        copy_host(number)
        taken, copies = number, copy_host  # what the copy did is no step


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
    """A host whose files are below root. place, of the class for a module, says where. The copies are beside them."""

    def __init__(self, base):
        self.base = base
        self.move()
        os.mkdir(self.root)

    def move(self):
        """Gives it another folder."""
        self.place(os.path.join(tempfile.mkdtemp(dir=self.base), "host"))

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
        killed.move()
        shutil.copytree("%s.%d" % (self.root, number), killed.root, symlinks=True)
        return killed

    def copy(self, number):
        shutil.copytree(self.root, "%s.%d" % (self.root, number), symlinks=True)

    def remove(self):
        shutil.rmtree(os.path.dirname(self.root))

    def count(self, act, copied):
        """Returns what act returns, and the number of its steps. With copied, the host is copied before each."""
        global taken, copies
        taken, copies = 0, self.copy if copied else None
        locked = set()

        def flock(number, how):
            locked.add(number)
            original_flock(number, how)

        original = {name: getattr(os, name) for name in ("rename", "unlink", "mkdir", "fsync", "rmdir")}
        original_flock, fcntl.flock = fcntl.flock, flock
        try:
            for name, function in original.items():
                setattr(os, name, stepping(function))
            return act(), taken
        finally:
            for name, function in original.items():
                setattr(os, name, function)
            fcntl.flock = original_flock
            for number in locked:  # a module holds its lock until its process ends
                os.close(number)
