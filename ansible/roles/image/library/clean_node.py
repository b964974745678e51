"""Removes from a node what must not be in an image of its disk."""

import glob
import os
import re
import shutil
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: clean_node
    short_description: removes from a node what must not be in an image of its disk
    description:
      - Stops services, unmounts and removes what is named, in the order of the options, and then writes everything to the disk. It may be repeated.
      - It does not follow symbolic links, and removes nothing on other file systems.
    options:
      services:
        description: name, and process, of services that are stopped first; if a process still runs, nothing is removed
        type: list
      mounts:
        description: folders that are unmounted, and whose lines are removed from fstab(5)
        type: list
      blocks:
        description: path of a file, and marker of the lines that are removed from it
        type: list
      commands:
        description: argument lists; each is run if its program is installed
        type: list
      paths:
        description: patterns of files and folders that are removed
        type: list
      folders:
        description: folders that are emptied
        type: list
      logs:
        description: folder below which old logs and the journal are removed, and other files are truncated
        type: path
      empty:
        description: files that are truncated, if they exist
        type: list
      hide:
        description: folder, and pattern of the files that are removed from it on the disk; until the next boot, a copy of the folder in memory is in its place
        type: dict
"""

STRINGS = {"type": "list", "elements": "str", "default": []}
ARGUMENTS = {
    "services": {"type": "list", "elements": "dict", "default": [], "options": {
        "name": {"type": "str", "required": True},
        "process": {"type": "str", "required": True},
    }},
    "mounts": STRINGS, "paths": STRINGS, "folders": STRINGS, "empty": STRINGS,
    "hide": {"type": "dict", "options": {
        "folder": {"type": "str", "required": True},
        "pattern": {"type": "str", "required": True},
    }},
    "blocks": {"type": "list", "elements": "dict", "default": [], "options": {
        "path": {"type": "str", "required": True},
        "marker": {"type": "str", "required": True},
    }},
    "commands": {"type": "list", "elements": "list", "default": []},
    "logs": {"type": "path"},
}


class Failure(Exception):
    """An error that the module reports."""


def run(module, what, argv):
    status, out, err = module.run_command(argv)
    if status != 0:
        raise Failure("%s: %s: exit status %d: %s" % (what, " ".join(argv), status, (out + err).strip()))


def stop(module, name, process):
    systemd = os.path.isdir("/run/systemd/system")  # sd_booted(3)
    module.run_command(["systemctl", "stop", name] if systemd else ["service", name, "stop"])
    deadline = time.monotonic() + 30  # an init script need not wait; without slurm.conf, that of slurmd does nothing
    while module.run_command(["pgrep", "-x", process])[0] == 0:
        if time.monotonic() > deadline:
            raise Failure("%s still runs" % name)
        time.sleep(0.1)


def unmount(module, paths):
    for path in paths:
        if os.path.ismount(path):
            run(module, "unmount %s" % path, ["umount", path])
    rewrite("/etc/fstab", lambda text: "".join(
        line for line in text.splitlines(True) if not any(re.match(r"[^#\s]\S*\s+%s\s" % re.escape(path), line) for path in paths)
    ))


def without_block(text, marker):
    begin, end = "# BEGIN %s\n" % marker, "# END %s\n" % marker
    at = text.find(begin)
    after = text.find(end, at)
    return text if at < 0 or after < 0 else text[:at] + text[after + len(end):]


def rewrite(path, change):
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        before = file.read()
    after = change(before)
    if after != before:
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(after)


def remove(path, device):
    """Removes a file, or a folder that is on the device."""
    try:
        there = os.lstat(path)
        if there.st_dev != device:
            return
        if os.path.isdir(path) and not os.path.islink(path):
            for name in os.listdir(path):
                remove(os.path.join(path, name), device)
            os.rmdir(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if not os.path.isdir(path) or os.path.islink(path):
            raise
        if not os.listdir(path):
            raise Failure("remove %s: %s" % (path, error)) from error
        # something else is mounted below it


def remove_all(patterns):
    for pattern in patterns:
        for path in glob.glob(pattern):
            remove(path, os.lstat(os.path.dirname(path)).st_dev)


def empty_folder(path):
    if os.path.isdir(path):
        for name in os.listdir(path):
            remove(os.path.join(path, name), os.lstat(path).st_dev)


def truncate(path):
    if os.path.isfile(path):
        with open(path, "w", encoding="utf-8"):
            pass


def clean_logs(folder):
    empty_folder(os.path.join(folder, "journal"))
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            if re.search(r"\.(gz|xz|zst|old|\d+)$", name):
                os.unlink(path)
            elif not os.path.islink(path):
                truncate(path)


def hide(module, folder, pattern):
    """Removes files from the disk that daemons still need: sshd reads its host keys for each login. An interrupted run may have done the first half."""
    if not os.path.ismount(folder):
        copy = os.path.join(tempfile.mkdtemp(dir="/run", prefix="clean_node."), "copy")
        shutil.copytree(folder, copy, symlinks=True)
        run(module, "hide %s" % folder, ["mount", "--bind", copy, folder])
    disk = tempfile.mkdtemp(dir="/run", prefix="clean_node.")
    run(module, "show the disk", ["mount", "--bind", "/", disk])  # without what is mounted below
    try:
        remove_all([disk + os.path.join(folder, pattern)])
    finally:
        run(module, "end that", ["umount", disk])
        os.rmdir(disk)


def clean(module, wanted):
    for service in wanted["services"]:
        stop(module, **service)
    unmount(module, wanted["mounts"])
    for block in wanted["blocks"]:
        rewrite(block["path"], lambda text, marker=block["marker"]: without_block(text, marker))
    for argv in wanted["commands"]:
        if shutil.which(argv[0]):
            run(module, "clean up", [str(word) for word in argv])
    remove_all(wanted["paths"])
    for folder in wanted["folders"]:
        empty_folder(folder)
    if wanted["logs"]:
        clean_logs(wanted["logs"])
    for path in wanted["empty"]:
        truncate(path)
    if wanted["hide"]:
        hide(module, **wanted["hide"])
    os.sync()


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS)
    try:
        clean(module, module.params)
    except (Failure, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
