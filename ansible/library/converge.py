"""Brings a node into a state that is given as data."""

import glob
import grp
import os
import pwd
import re
import stat
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: converge
    short_description: brings a node into a state that is given as data
    description:
      - Makes folders, files, a key pair and mounts, and runs services, in this order, and changes only what differs.
      - All in one module, because what a run costs is tasks times hosts.
      - Where packages are missing it changes nothing and names them, so that they can be installed first.
    options:
      packages:
        description: names that must be installed; query is the command to ask for them, which prints the word installed for each one that is
        type: dict
      folders:
        description: path, owner, group and mode
        type: list
      files:
        description: path, owner, group, mode, and content or secret, which is not shown; a file that is optional is left out where its folder is missing
        type: list
      blocks:
        description: content that stands between two lines with the marker, at the beginning of a file that others write too
        type: list
      key:
        description: path and owner of a key pair of type ed25519, which is made if it is missing, and a comment
        type: dict
      mounts:
        description: server, paths and options of folders that are mounted by NFS under the same paths, now and at each boot
        type: dict
      services:
        description: name of each service that must run, now and from each boot; one that runs is restarted if restart is set, or if one of the files restart_for changed
        type: list
"""

RETURN = """
    missing:
      description: packages; if there are any, nothing was changed
    changes:
      description: what was changed, by path or name
    public_key:
      description: of the key pair
    restarted:
      description: services that ran before and were restarted
"""

OWNERSHIP = {
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str"},  # the owner's own
    "mode": {"type": "str", "required": True},
}

ARGUMENTS = {
    "packages": {"type": "dict", "options": {
        "names": {"type": "list", "elements": "str", "required": True},
        "query": {"type": "list", "elements": "str", "required": True},
        "installed": {"type": "str", "required": True},
    }},
    "folders": {"type": "list", "elements": "dict", "default": [], "options": dict(OWNERSHIP, path={"type": "str", "required": True})},
    "files": {"type": "list", "elements": "dict", "default": [], "options": dict(
        OWNERSHIP,
        path={"type": "str", "required": True},
        content={"type": "str"},
        secret={"type": "str", "no_log": True},
        optional={"type": "bool", "default": False},
    ), "required_one_of": [("content", "secret")], "mutually_exclusive": [("content", "secret")]},
    "blocks": {"type": "list", "elements": "dict", "default": [], "options": {
        "path": {"type": "str", "required": True},
        "marker": {"type": "str", "required": True},
        "content": {"type": "str", "required": True},
    }},
    "key": {"type": "dict", "no_log": False, "options": {
        "path": {"type": "str", "required": True},
        "owner": {"type": "str", "default": "root"},
        "comment": {"type": "str", "required": True},
    }},
    "mounts": {"type": "dict", "options": {
        "server": {"type": "str", "required": True},
        "paths": {"type": "list", "elements": "str", "required": True},
        "options": {"type": "str", "required": True},
    }},
    "services": {"type": "list", "elements": "dict", "default": [], "options": {
        "name": {"type": "str", "required": True},
        "restart": {"type": "bool", "default": False},
        "restart_for": {"type": "list", "elements": "str", "default": []},
    }},
}


class Failure(Exception):
    """What the module fails with."""


class Node:
    """The node, and what was changed on it."""

    def __init__(self, module):
        self.module = module
        self.changes = []
        self.restarted = []
        self.systemd = os.path.isdir("/run/systemd/system")  # sd_booted(3)

    def missing(self, packages):
        """The packages that are not installed; each is asked for, as a query of several does not say which line is whose."""
        def there(names):
            return self.module.run_command(packages["query"] + names)[1].splitlines() == [packages["installed"]] * len(names)

        return [] if there(packages["names"]) else [name for name in packages["names"] if not there([name])]

    def folder(self, wanted):
        if not os.path.isdir(wanted["path"]):
            os.makedirs(wanted["path"])
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
        if wanted["optional"] and not os.path.isdir(os.path.dirname(path)):
            return
        content = wanted["content"] if wanted["secret"] is None else wanted["secret"]
        if read(path) == content:
            self.own(path, wanted)
        else:
            self.write(path, content, ids(wanted), int(wanted["mode"], 8))

    def write(self, path, content, owner, mode):
        """Writes a file all at once: nobody sees a part of it."""
        number, unfinished = tempfile.mkstemp(prefix=".%s." % os.path.basename(path), dir=os.path.dirname(path))
        try:
            with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(content)
                os.fchown(number, *owner)
                os.fchmod(number, mode)
            os.rename(unfinished, path)
        except OSError:
            os.unlink(unfinished)
            raise
        self.changes.append(path)

    def block(self, wanted):
        before = read(wanted["path"]) or ""
        after = with_block(before, wanted["marker"], wanted["content"])
        if after != before:
            self.write(wanted["path"], after, *attributes(wanted["path"]))

    def key(self, wanted):
        """Makes the key pair if it is missing. Its private half comes last, so that it is there with the other one or not at all."""
        path = wanted["path"]
        if not os.path.exists(path):
            with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as directory:
                new = os.path.join(directory, "new")
                self.run("make a key pair", ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", wanted["comment"], "-f", new])
                for name in (new, new + ".pub"):
                    os.chown(name, *ids(wanted))
                os.rename(new + ".pub", path + ".pub")
                os.rename(new, path)
            self.changes.append(path)
        return read(path + ".pub")

    def mount(self, path, server, options):
        """Mounts a folder; at boot, fstab(5) has it mounted."""
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
        if not self.enabled(name):
            self.enable(name)
            self.changes.append("%s at boot" % name)
        if not self.runs(name):
            self.control("start", name)
        elif wanted["restart"] or any(path in self.changes for path in wanted["restart_for"]):
            self.control("restart", name)
            self.restarted.append(name)
        else:
            return
        self.changes.append(name)

    def control(self, verb, name):
        self.run("%s %s" % (verb, name), ["systemctl", verb, name] if self.systemd else ["service", name, verb])

    def runs(self, name):
        return self.module.run_command(["systemctl", "--quiet", "is-active", name] if self.systemd else ["service", name, "status"])[0] == 0

    def enabled(self, name):
        if self.systemd:
            return self.module.run_command(["systemctl", "--quiet", "is-enabled", name])[0] == 0
        return bool(glob.glob("/etc/rc[2-5].d/S[0-9][0-9]%s" % name))

    def enable(self, name):
        if self.systemd:
            self.run("have %s start at boot" % name, ["systemctl", "--quiet", "enable", name])
        else:
            self.run("have %s start at boot" % name, ["update-rc.d", name, "defaults"])

    def run(self, what, argv):
        status, out, err = self.module.run_command(argv)
        if status != 0:
            raise Failure("%s: %s: exit status %d: %s" % (what, " ".join(argv), status, (out + err).strip()))


def ids(wanted):
    try:
        user = pwd.getpwnam(wanted["owner"])
        return user.pw_uid, grp.getgrnam(wanted["group"]).gr_gid if wanted.get("group") else user.pw_gid
    except KeyError as error:
        raise Failure("there is no such user or group: %s" % error) from error


def attributes(path):
    """Owner and mode of a file that others write too."""
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
    """The text with the block in the place where it was, or else at the beginning."""
    begin, end = "# BEGIN %s\n" % marker, "# END %s\n" % marker
    block = begin + content + end
    at = text.find(begin)
    after = text.find(end, at)
    if at < 0 or after < 0:
        return block + text
    return text[:at] + block + text[after + len(end):]


def with_mount(text, path, line):
    """The text of an fstab(5) with the line in the place of those for the same path."""
    lines = text.splitlines()
    ours = [at for at, old in enumerate(lines) if re.match(r"[^#\s]\S*\s+%s\s" % re.escape(path), old)]
    if not ours:
        return "\n".join(lines + [line]) + "\n"
    lines[ours[-1]] = line
    return "\n".join(lines) + "\n"


def converge(node, wanted):
    for item in wanted["folders"]:
        node.folder(item)
    for item in wanted["files"]:
        node.file(item)
    for item in wanted["blocks"]:
        node.block(item)
    public_key = node.key(wanted["key"]) if wanted["key"] else ""
    for path in wanted["mounts"]["paths"] if wanted["mounts"] else []:
        node.mount(path, wanted["mounts"]["server"], wanted["mounts"]["options"])
    for item in wanted["services"]:
        node.service(item)
    return public_key


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS)
    node = Node(module)
    missing = node.missing(module.params["packages"]) if module.params["packages"] else []
    if missing:
        module.exit_json(changed=False, missing=missing, changes=[], restarted=[])
    try:
        public_key = converge(node, module.params)
    except (Failure, OSError) as error:
        module.fail_json(msg=str(error), changed=bool(node.changes), changes=node.changes)
    module.exit_json(changed=bool(node.changes), missing=[], changes=node.changes, restarted=node.restarted, public_key=public_key)


if __name__ == "__main__":
    main()
