#!/usr/bin/python3
"""Brings a node into a declared state."""

import base64
import glob
import grp
import json
import os
import pwd
import re
import stat
import subprocess
import tempfile
import time

DOCUMENTATION = """
    module: converge
    short_description: brings a node into a declared state
    description:
      - Creates users, folders, files, a key pair and mounts, and starts services, in this order. It changes only what differs.
      - All this is one module, because the cost of a run is tasks times hosts.
      - It imports nothing of Ansible, which would take most of its time. Ansible writes its arguments into it (developer guide, JSONARGS).
      - Where packages are missing it changes nothing and returns their names, so that they can be installed first.
    options:
      apart:
        description: users whose homes must not be in one of the folders paths; else nothing is changed, and the module fails
        type: dict
      packages:
        description: names that must be installed; query is the command that prints the word installed for each installed one
        type: dict
      users:
        description: name and uid of system users; one that is missing is made, one with another uid gets this one
        type: list
      folders:
        description: path, owner, group and mode; with keep, a folder that exists stays as it is
        type: list
      files:
        description: path, owner, group, mode, and content, secret, which is not logged, base64 or secret64, since Ansible converts a text that looks like JSON; an optional file is skipped if its folder is missing
        type: list
      blocks:
        description: content between two lines with the marker, at the beginning of a file that also has other content; ~USER is that user's home
        type: list
      key:
        description: path, owner and comment of a key pair of type ed25519, which is created if it is missing
        type: dict
      mounts:
        description: server, paths and options of folders that are mounted by NFS under the same paths, now and at each boot
        type: dict
      services:
        description: services that must run, now and, unless boot is false, after each boot; with boot false they do not start at boot; a running one is restarted if restart is set, or if one of the files restart_for changed
        type: list
      health:
        description: the program that checks the node's health; it runs before the last service, unless that runs already. If it fails, that service does not start, and the module fails as unhealthy
        type: str
      limit:
        description: seconds after which the last service is not started, and the module fails; 0 is no limit
        type: int
      hardware:
        description: return the node's hardware as slurmd detects it
        type: bool
"""

RETURN = """
    missing:
      description: missing packages; if there are any, nothing was changed
    changes:
      description: what was changed, by path or name
    public_key:
      description: the public half of the key pair
    restarted:
      description: services that ran before and were restarted
    unhealthy:
      description: of a failure, whether the node did not pass its health check; the message is what the check has printed
    hardware:
      description: the line that slurmd -C prints; empty if it fails
    time:
      description: the node's time, in seconds since 1970
"""

# The options, with the values of those that are left out.
OPTIONS = {
    "apart": None,
    "packages": None,
    "users": [],
    "folders": [],
    "files": [],
    "blocks": [],
    "key": None,
    "mounts": None,
    "services": [],
    "health": "",
    "limit": 0,
    "hardware": False,
}


class Failure(Exception):
    """An error that the module reports."""


class Unhealthy(Failure):
    """The node did not pass its health check."""


class Node:
    """The node, and what was changed on it."""

    def __init__(self):
        self.began = time.monotonic()
        self.changes = []
        self.restarted = []
        self.systemd = os.path.isdir("/run/systemd/system")  # sd_booted(3)

    def missing(self, packages):
        """Returns the packages that are not installed. They are queried one by one if some are missing, since the output has no names."""
        def there(names):
            return called(packages["query"] + names)[1].splitlines() == [packages["installed"]] * len(names)

        return [] if there(packages["names"]) else [name for name in packages["names"] if not there([name])]

    def user(self, wanted):
        """Creates a system user, or changes its uid. Slurm's daemons trust SlurmUser's messages by the uid."""
        name, uid = wanted["name"], str(wanted["uid"])
        try:
            there = pwd.getpwnam(name).pw_uid
        except KeyError:
            self.run("create the user %s" % name, ["useradd", "--system", "--uid", uid, "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", name])
        else:
            if str(there) == uid:
                return
            self.run("give the user %s the uid that it has on the control node" % name, ["usermod", "--uid", uid, name])
        self.changes.append(name)

    def folder(self, wanted):
        if not os.path.isdir(wanted["path"]):
            os.makedirs(wanted["path"])
        elif wanted.get("keep"):
            return
        self.own(wanted["path"], wanted)

    def own(self, path, wanted):
        uid, gid, mode = ids(wanted) + (int(wanted["mode"], 8),)
        there = os.stat(path)
        if (there.st_uid, there.st_gid) != (uid, gid):
            os.chown(path, uid, gid)
            self.changes.append(path)
        if stat.S_IMODE(there.st_mode) != mode:
            os.chmod(path, mode)
            self.changes.append(path)

    def file(self, wanted):
        path = wanted["path"]
        if wanted.get("optional") and not os.path.isdir(os.path.dirname(path)):
            return
        content = text_of(wanted)
        if read(path) == content:
            self.own(path, wanted)
        else:
            self.write(path, content, ids(wanted), int(wanted["mode"], 8))

    def write(self, path, content, owner, mode):
        try:
            replace(path, content, owner, mode)
        except OSError as error:
            raise Failure("write %s: %s" % (path, error.strerror)) from error
        self.changes.append(path)

    def block(self, wanted):
        path = os.path.expanduser(wanted["path"])
        before = read(path) or ""
        after = with_block(before, wanted["marker"], wanted["content"])
        if after != before:
            self.write(path, after, *attributes(path))

    def key(self, wanted):
        """Creates the key pair if it is missing. The private half is renamed last, so that it never exists without the public one."""
        path = wanted["path"]
        if not os.path.exists(path):
            with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as directory:
                new = os.path.join(directory, "new")
                self.run("create a key pair", ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", wanted["comment"], "-f", new])
                for name in (new, new + ".pub"):
                    os.chown(name, *ids(wanted))
                os.rename(new + ".pub", path + ".pub")
                os.rename(new, path)
            self.changes.append(path)
        return read(path + ".pub")

    def mount(self, path, server, options):
        """Mounts a folder, now and by fstab(5) at boot."""
        line = "%s:%s %s nfs %s 0 0" % (server, path, path, options)
        before = read("/etc/fstab") or ""
        after = with_mount(before, path, line)
        if after != before:
            self.write("/etc/fstab", after, *attributes("/etc/fstab"))
        if not os.path.ismount(path):
            os.makedirs(path, exist_ok=True)
            self.run("mount %s" % path, ["mount", path])
            self.changes.append(path)

    def service(self, wanted):
        name = wanted["name"]
        boot = wanted.get("boot", True)
        if self.enabled(name) != boot:
            self.enable(name) if boot else self.disable(name)
            self.changes.append("%s at boot" % name)
        if not self.runs(name):
            self.control("start", name)
        elif wanted.get("restart") or any(path in self.changes for path in wanted.get("restart_for", [])):
            self.control("restart", name)
            self.restarted.append(name)
        else:
            return
        self.changes.append(name)

    def healthy(self, program):
        """Fails if the node does not pass its health check. The program prints what is wrong."""
        status, out, err = called([program])
        if status == 93:
            raise Unhealthy((out + err).strip())
        if status != 0:
            raise Failure("%s: exit status %d: %s" % (program, status, (out + err).strip()))

    def control(self, verb, name):
        self.run("%s %s" % (verb, name), ["systemctl", verb, name] if self.systemd else ["service", name, verb])

    def runs(self, name):
        return called(["systemctl", "--quiet", "is-active", name] if self.systemd else ["service", name, "status"])[0] == 0

    def enabled(self, name):
        if self.systemd:
            return called(["systemctl", "--quiet", "is-enabled", name])[0] == 0
        return bool(glob.glob("/etc/rc[2-5].d/S[0-9][0-9]%s" % name))

    def enable(self, name):
        if self.systemd:
            self.run("have %s start at boot" % name, ["systemctl", "--quiet", "enable", name])
        else:
            self.run("have %s start at boot" % name, ["update-rc.d", name, "defaults"])

    def disable(self, name):
        """An upgrade of the package keeps this setting: systemctl(1), and update-rc.d(8), which keeps the stop links."""
        self.run("have %s not start at boot" % name, ["systemctl", "--quiet", "disable", name] if self.systemd else ["update-rc.d", name, "disable"])

    def hardware(self):
        """Returns the hardware that slurmd detects. If slurmd fails, the module does not."""
        status, out, _ = called(["sh", "-c", "slurmd -C"])
        return out.partition("\n")[0] if status == 0 else ""

    def run(self, what, argv):
        status, out, err = called(argv)
        if status != 0:
            raise Failure("%s: %s: exit status %d: %s" % (what, " ".join(argv), status, (out + err).strip()))


def called(argv):
    """Runs a program, and returns its exit status and both outputs. They are files, since a service that the program starts may keep them open, and in memory, since the disk may be full."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryFile(dir=memory) as out, tempfile.TemporaryFile(dir=memory) as err:
        status = subprocess.call(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        out.seek(0)
        err.seek(0)
        return status, out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace")


def text_of(wanted):
    """Returns the content of a file, which one of four keys has."""
    encoded = wanted.get("base64", wanted.get("secret64"))
    if encoded is not None:
        return base64.b64decode(encoded).decode("utf-8", "surrogateescape")
    return wanted.get("content", wanted.get("secret"))


def replace(path, text, owner, mode):
    """Writes a file as module_utils/reconfigure_files.py does, which the module cannot import."""
    number, unfinished = tempfile.mkstemp(prefix=".%s." % os.path.basename(path), dir=os.path.dirname(path))
    try:
        with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
            file.flush()
            os.fchown(number, *owner)
            os.fchmod(number, mode)
            os.fsync(number)
        os.rename(unfinished, path)
    except OSError:
        os.unlink(unfinished)
        raise


def check_apart(users, paths):
    """Fails if the home of one of the users is in one of the shared folders. The paths are first compared as text, since a hanging file system must not be accessed."""
    for user in users:
        try:
            home = os.path.normpath(pwd.getpwnam(user).pw_dir)
        except KeyError as error:
            raise Failure("there is no such user: %s" % error) from error
        shared = within(home, paths) or within(os.path.realpath(home), paths)
        if shared:
            raise Failure(
                "the home of %s, %s, is in the folder %s of nfs_shares. Root of any node can write there as %s, for instance a key with which it becomes root on all nodes. "
                "Share a folder without that home, for instance %s/users, or let the image give %s a home elsewhere (cloud-init: system_info, default_user, homedir)"
                % (user, home, shared, user, shared, user)
            )


def within(folder, paths):
    """Returns the path that is the folder or contains it."""
    return next((path for path in paths if (folder + "/").startswith(path.rstrip("/") + "/")), None)


def ids(wanted):
    try:
        user = pwd.getpwnam(wanted.get("owner", "root"))
        return user.pw_uid, grp.getgrnam(wanted["group"]).gr_gid if wanted.get("group") else user.pw_gid
    except KeyError as error:
        raise Failure("there is no such user or group: %s" % error) from error


def attributes(path):
    """Returns owner and mode of a file that may exist."""
    if not os.path.exists(path):
        return (0, 0), 0o644
    there = os.stat(path)
    return (there.st_uid, there.st_gid), stat.S_IMODE(there.st_mode)


def read(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def with_block(text, marker, content):
    """Returns the text with the block at its old place, or else at the beginning."""
    begin, end = "# BEGIN %s\n" % marker, "# END %s\n" % marker
    block = begin + content + end
    at = text.find(begin)
    after = text.find(end, at)
    if at < 0 or after < 0:
        return block + text
    return text[:at] + block + text[after + len(end):]


def with_mount(text, path, line):
    """Returns the text of an fstab(5) with the line instead of the one for the same path, or else at the end."""
    lines = text.splitlines()
    ours = [at for at, old in enumerate(lines) if re.match(r"[^#\s]\S*\s+%s\s" % re.escape(path), old)]
    if not ours:
        return "\n".join(lines + [line]) + "\n"
    lines[ours[-1]] = line
    return "\n".join(lines) + "\n"


def converge(node, wanted):
    if wanted["apart"]:
        check_apart(**wanted["apart"])
    for item in wanted["users"]:
        node.user(item)
    for item in wanted["folders"]:
        node.folder(item)
    for item in wanted["files"]:
        node.file(item)
    for item in wanted["blocks"]:
        node.block(item)
    public_key = node.key(wanted["key"]) if wanted["key"] else ""
    for path in wanted["mounts"]["paths"] if wanted["mounts"] else []:
        node.mount(path, wanted["mounts"]["server"], wanted["mounts"]["options"])
    for item in wanted["services"][:-1]:
        node.service(item)
    for item in wanted["services"][-1:]:
        if wanted["health"] and not node.runs(item["name"]):
            node.healthy(wanted["health"])
        limit = int(wanted["limit"])
        if limit and time.monotonic() - node.began > limit:
            raise Failure("%s is not started: the node was not ready within %d seconds" % (item["name"], limit))
        node.service(item)
    return public_key


def options(given):
    """Returns all options of those that Ansible has given, among others of its own."""
    unknown = sorted(name for name in given if name not in OPTIONS and not name.startswith("_ansible_"))
    if unknown:
        raise Failure("converge has no option %s" % ", ".join(unknown))
    return {name: given.get(name) or default for name, default in OPTIONS.items()}


def answer(given):
    """Converges the node, and returns the module's result."""
    node = Node()
    try:
        wanted = options(given)
        missing = node.missing(wanted["packages"]) if wanted["packages"] else []
        if missing:
            return {"changed": False, "missing": missing, "changes": [], "restarted": []}
        public_key = converge(node, wanted)
    except Unhealthy as error:
        return {"failed": True, "msg": str(error), "unhealthy": True, "changed": bool(node.changes), "changes": node.changes}
    except (Failure, OSError) as error:
        return {"failed": True, "msg": str(error), "changed": bool(node.changes), "changes": node.changes}
    hardware = {"hardware": node.hardware()} if wanted["hardware"] else {}
    return dict(hardware, time=int(time.time()), changed=bool(node.changes), missing=[], changes=node.changes, restarted=node.restarted, public_key=public_key)


def main():
    print(json.dumps(answer(json.loads(r"""<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>"""))))


if __name__ == "__main__":
    main()
