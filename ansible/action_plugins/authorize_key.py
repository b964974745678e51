"""Authorizes a key on the control host."""

import fcntl
import os
import re
import tempfile

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

DOCUMENTATION = """
    action: authorize_key
    short_description: authorizes a key on the control host
    description:
      - Runs on the control host, without a module. It adds a restricted line to a file in the format of sshd(8), AUTHORIZED_KEYS FILE FORMAT.
      - The comment and the cluster directory in the command mark the line, so that the key of a new instance replaces that of the old one.
      - It may run for several hosts at once; a lock on the folder serializes them.
    options:
      file:
        description: the file
        required: true
      key:
        description: the public key, from the node; only the exact form of an ed25519 key is accepted, so that a node cannot authorize other keys
        required: true
      comment:
        description: marks the line, together with the cluster directory in the command; without spaces
        required: true
      command:
        description: the only command that the key may run
        required: true
      from:
        description: the addresses from which the key is accepted, in the form of sshd(8); none means all
        default: []
"""

# The text of an ed25519 key is 68 characters long (RFC 8709).
# An address, a network or a pattern: nothing that ends the option.
ADDRESS = re.compile(r"[A-Za-z0-9.:*?/_-]+", re.ASCII)
# The cluster directory in the command of the role slurm_scripts, as it is quoted there.
DIRECTORY = re.compile(r" --dir (.*) gate --role ")
KEY = re.compile(r"ssh-ed25519 (AAAAC3NzaC1lZDI1NTE5[A-Za-z0-9+/]{48})( [^\n]*)?\n?", re.ASCII)


def line(key, comment, command, addresses):
    match = KEY.fullmatch(key)
    if not match:
        raise AnsibleActionFail("the node does not have a public key of type ssh-ed25519: %.120r" % key)
    for address in addresses:
        if not ADDRESS.fullmatch(address):
            raise AnsibleActionFail("not a valid address for accepting the key of %s: %r" % (comment, address))
    options = 'restrict,command="%s"' % command.replace('"', '\\"')
    if addresses:
        options += ',from="%s"' % ",".join(addresses)
    return "%s ssh-ed25519 %s %s" % (options, match[1], comment)


def foreign(line, new):
    """Reports whether the command of a line has another cluster directory. Two clusters with the same name may share the file."""
    theirs, ours = DIRECTORY.search(line), DIRECTORY.search(new)
    return bool(theirs and ours) and theirs[1] != ours[1]


def with_line(lines, new):
    """Returns the lines with the new one instead of those with its comment and directory, or its key: sshd(8) takes the first line of a key."""
    comment, key = new.split()[-1], KEY.search(new)[1]
    ours = [old for old in lines if old.split()[-1:] == [comment] and (key in old or not foreign(old, new))]
    if ours == [new]:
        return lines
    return [new] + [old for old in lines if old not in ours]


def add(path, new):
    """Adds the line and reports whether the file has changed."""
    path = os.path.realpath(path)
    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = []
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                text = file.read()
            before = text.removesuffix("\n").split("\n") if text else []
        after = with_line(before, new)
        if after == before:
            return False
        number, unfinished = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=directory)
        try:
            with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                file.write("\n".join(after) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(unfinished, path)
        except OSError:
            os.unlink(unfinished)
            raise
        return True
    finally:
        os.close(lock)


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("file", "key", "comment", "command", "from"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        result["changed"] = self.authorize(self._task.args, self._task.args["key"])
        return result

    @staticmethod
    def authorize(options, key):
        """Authorizes a key by the other options, and reports whether the file has changed."""
        new = line(str(key), options["comment"], options["command"], options.get("from") or [])
        try:
            return add(options["file"], new)
        except OSError as error:
            raise AnsibleActionFail("authorize the key: %s" % error, result={"control_host": True}) from error
