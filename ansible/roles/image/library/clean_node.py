"""Removes from a node what must not be in an image of its disk."""

import errno
import glob
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: clean_node
    short_description: removes from a node what must not be in an image of its disk
    description:
      - Stops services, unmounts and removes the items in the options, in their order, and then writes everything to the disk. It may be repeated.
      - It overwrites files before it removes them, and discards the free blocks of their file systems if the disk supports that.
      - It does not follow symbolic links, and removes nothing on other file systems.
    options:
      services:
        description: name, and process, of services to stop first; if a process still runs, nothing is removed
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
        description: folder below which old logs and systemd's journal are removed, and other files are truncated
        type: path
      empty:
        description: files that are truncated, if they exist
        type: list
      hide:
        description: folder, and pattern of the files to remove from it on the disk; until the next boot, a copy of the folder in memory replaces it
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

LARGEST = 64 << 20  # bytes; larger files are removed without being overwritten, which would take minutes. No secret is larger.


class Failure(Exception):
    """An error that the module reports."""


def run(module, what, argv):
    status, out, err = module.run_command(argv)
    if status != 0:
        raise Failure("%s: %s: exit status %d: %s" % (what, " ".join(argv), status, (out + err).strip()))


def stop(module, name, process):
    systemd = os.path.isdir("/run/systemd/system")  # sd_booted(3)
    module.run_command(["systemctl", "stop", name] if systemd else ["service", name, "stop"])
    deadline = time.monotonic() + 30  # an init script need not wait; slurmd's does nothing without slurm.conf
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
        # another file system is mounted below it


def matching(patterns):
    """Returns the files and folders that match, each with the device of its folder."""
    return [(path, os.lstat(os.path.dirname(path)).st_dev) for pattern in patterns for path in glob.glob(pattern)]


def content(folder):
    """Returns the entries of a folder, each with the folder's device."""
    if not os.path.isdir(folder):
        return []
    device = os.lstat(folder).st_dev
    return [(os.path.join(folder, name), device) for name in os.listdir(folder)]


def files(path, device):
    """Returns the regular files at and below a path that are on the device."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return
    if there.st_dev != device:
        return
    if stat.S_ISREG(there.st_mode):
        yield path
    elif stat.S_ISDIR(there.st_mode):
        for name in os.listdir(path):
            yield from files(os.path.join(path, name), device)


def overwrite(path):
    """Writes zeros over a file's blocks. A file with a second hard link is skipped, with its content."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        there = os.fstat(descriptor)
        if there.st_nlink > 1 or there.st_size > LARGEST:
            return
        end = 0
        while True:
            try:
                begin = os.lseek(descriptor, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return  # there is no more data
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            os.lseek(descriptor, begin, os.SEEK_SET)
            while begin < end:
                begin += os.write(descriptor, bytes(min(end - begin, 1 << 20)))
    finally:
        os.close(descriptor)


def overwrite_all(found):
    """Overwrites files on the disk. Blocks that were removed or truncated before they were written are never written."""
    for path, device in found:
        for file in files(path, device):
            overwrite(file)
    os.sync()


def trim(paths):
    """Discards the free blocks of the file systems, if their disks support it: they may have older copies of removed files."""
    if not shutil.which("fstrim"):
        return
    for place in set(map(mount_point, paths)):
        subprocess.call(["fstrim", place], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def mount_point(path):
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def truncate(path):
    if os.path.isfile(path):
        with open(path, "w", encoding="utf-8"):
            pass


def clean_logs(found):
    for path, device in found:
        for file in files(path, device):
            if re.search(r"\.(gz|xz|zst|old|\d+)$", file):
                os.unlink(file)
            else:
                truncate(file)


def hide(module, folder, pattern):
    """Removes files from the disk that daemons still need: sshd reads its host keys at each login. An interrupted run may have done the first half."""
    if not os.path.ismount(folder):
        copy = os.path.join(tempfile.mkdtemp(dir="/run", prefix="clean_node."), "copy")
        shutil.copytree(folder, copy, symlinks=True)
        run(module, "hide %s" % folder, ["mount", "--bind", copy, folder])
    disk = tempfile.mkdtemp(dir="/run", prefix="clean_node.")
    run(module, "show the disk", ["mount", "--bind", "/", disk])  # without the file systems mounted below
    try:
        found = matching([disk + os.path.join(folder, pattern)])
        overwrite_all(found)
        for path, device in found:
            remove(path, device)
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
    removed = matching(wanted["paths"])
    for folder in wanted["folders"]:
        removed += content(folder)
    logs = content(wanted["logs"]) if wanted["logs"] else []
    # journald has its files mapped and would notice the overwriting: they are only removed.
    journals = [(path, device) for folder, device in logs if os.path.basename(folder) == "journal" for path, _ in content(folder)]
    logs = [(path, device) for path, device in logs if os.path.basename(path) != "journal"]
    overwrite_all(removed + logs)
    for path, device in removed + journals:
        remove(path, device)
    clean_logs(logs)
    for path in wanted["empty"]:
        truncate(path)
    if wanted["hide"]:
        hide(module, **wanted["hide"])
    os.sync()
    trim(wanted["paths"] + wanted["folders"])


def main():
    module = AnsibleModule(argument_spec=ARGUMENTS)
    try:
        clean(module, module.params)
    except (Failure, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
