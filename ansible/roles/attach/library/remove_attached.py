"""Removes the files that `reconfigure attach` has written."""

import os
import shutil

from ansible.module_utils import reconfigure_files
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: remove_attached
    short_description: removes files, folders and a block of a file
    options:
      block:
        description: path, with ~USER for that user's home, and marker of a block that the module converge has written
        type: dict
      files:
        description: paths
        type: list
      folder:
        description: a folder, which is removed last
        type: path
"""


def without_block(text, marker):
    begin, end = "# BEGIN %s\n" % marker, "# END %s\n" % marker
    at = text.find(begin)
    after = text.find(end, at)
    return text if at < 0 or after < 0 else text[:at] + text[after + len(end):]


def main():
    module = AnsibleModule(argument_spec={"block": {"type": "dict"}, "files": {"type": "list", "elements": "path"}, "folder": {"type": "path"}})
    changed = False
    path = os.path.realpath(os.path.expanduser(module.params["block"]["path"]))
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            before = file.read()
        there, after = os.stat(path), without_block(before, module.params["block"]["marker"])
        if after != before:
            changed = True
            if after:
                reconfigure_files.write(path, after, there.st_mode & 0o7777, (there.st_uid, there.st_gid))
            else:
                os.unlink(path)  # the block made the file
    for path in module.params["files"]:
        if os.path.exists(path):
            changed = True
            os.unlink(path)
    if os.path.isdir(module.params["folder"]):
        changed = True
        shutil.rmtree(module.params["folder"])
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
