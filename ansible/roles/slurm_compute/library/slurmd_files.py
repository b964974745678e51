"""Restarts slurmd with other configuration files, or restores the previous ones."""

import filecmp
import os
import shutil
import time

from ansible.module_utils import reconfigure_files
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: slurmd_files
    short_description: restarts slurmd with other configuration files
    description:
      - Writes the files that differ, and then restarts slurmd if it runs. Jobs go on, since they belong to slurmstepd.
      - All this is one module, because on thousands of nodes each task is expensive.
      - The previous files are in the folder before until slurmd has answered with the new ones. An interrupted run leaves that folder, and the next run continues. If
        slurmd does not answer, the files are restored, since without slurmd Slurm sets the node down after SlurmdTimeout and ends its jobs.
    options:
      directory:
        description: the folder of Slurm's configuration
        required: true
      files:
        description: the contents by file name
        type: dict
        required: true
      patience:
        description: seconds that slurmd may take to answer
        type: int
        default: 30
"""


class Files:
    """The files in Slurm's folder, and slurmd's previous files in its subfolder before, if they differ."""

    def __init__(self, directory, contents):
        self.directory = directory
        self.contents = contents
        self.before = os.path.join(directory, "before")

    def differing(self):
        return [name for name, text in self.contents.items() if read(os.path.join(self.directory, name)) != text]

    def keep(self):
        """Copies the files to the folder before, which appears atomically."""
        if os.path.isdir(self.before):
            return
        unfinished = self.before + ".new"
        shutil.rmtree(unfinished, ignore_errors=True)
        os.mkdir(unfinished, 0o755)
        for name in self.contents:
            if os.path.exists(os.path.join(self.directory, name)):
                shutil.copy2(os.path.join(self.directory, name), unfinished)
        os.rename(unfinished, self.before)

    def put_back(self):
        for name in self.contents:
            there, kept = os.path.join(self.directory, name), os.path.join(self.before, name)
            if not os.path.exists(kept):
                if os.path.exists(there):
                    os.remove(there)
            elif not os.path.exists(there) or not filecmp.cmp(kept, there, shallow=False):
                self.write(name, read(kept))

    def forget(self):
        shutil.rmtree(self.before)

    def write(self, name, text):
        reconfigure_files.write(os.path.join(self.directory, name), text, reconfigure_files.mode(name))


def read(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def runs(module):
    return module.run_command(["pgrep", "-x", "slurmd"])[0] == 0


def restart(module):
    """Restarts slurmd and reports whether it answers. After 5 s it does not wait for a slurmd that does not run."""
    systemd = os.path.isdir("/run/systemd/system")  # sd_booted(3)
    module.run_command(["systemctl", "restart", "slurmd"] if systemd else ["service", "slurmd", "restart"])
    began = time.monotonic()
    while module.run_command(["scontrol", "show", "slurmd"])[0] != 0:
        waited = time.monotonic() - began
        if waited > module.params["patience"] or waited > 5 and not runs(module):
            return False
        time.sleep(0.5)
    return True


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "files": {"type": "dict", "required": True},
            "patience": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    files = Files(module.params["directory"], module.params["files"])
    if not os.path.isdir(files.directory):
        module.fail_json(msg="there is no %s: the node has not been configured" % files.directory)
    interrupted = os.path.isdir(files.before)
    differing = files.differing()
    if module.check_mode or not differing and not interrupted:
        module.exit_json(changed=bool(differing) or interrupted)

    goes_on = interrupted or runs(module)
    if goes_on:
        files.keep()
    for name in differing:
        files.write(name, files.contents[name])
    if not goes_on:  # it reads them at its next start
        module.exit_json(changed=True)
    if restart(module):
        files.forget()
        module.exit_json(changed=True)

    # Started in the foreground, since slurmd prints errors in slurm.conf before it has opened its log.
    words = module.run_command("timeout --kill-after=10 10 slurmd -D 2>&1 | tail -n 10", use_unsafe_shell=True)[1]
    files.put_back()
    again = restart(module)
    if again:
        files.forget()
    module.fail_json(
        msg="slurmd does not answer with the new configuration; the previous one is restored%s. Its output:\n%s" % ("" if again else ", but slurmd does not answer with it either", words)
    )


if __name__ == "__main__":
    main()
