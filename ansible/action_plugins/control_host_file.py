"""Writes or removes a file on the control host."""

import os
import tempfile

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

DOCUMENTATION = """
    action: control_host_file
    short_description: writes or removes a file on the control host
    description:
      - Runs on the control host, as the user that runs Ansible, without a module. A module that is delegated to the control host starts a Python, which takes as long as a task on a node.
      - A file that has the content stays as it is. Another one is replaced at once, or stays, and only its owner can read it.
    options:
      path:
        description: the file
        required: true
      content:
        description: its text; without it, the file is removed. Data needs the filter to_json, whose result Ansible leaves as a text
"""


def write(path, text):
    """Writes the file atomically, and reports whether it has changed."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text and os.fstat(file.fileno()).st_mode & 0o777 == 0o600:
                return False
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    number, unfinished = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path))
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
    return True


def remove(path):
    """Removes the file, and reports whether it was there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("path", "content"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        path, content = self._task.args["path"], self._task.args.get("content")
        try:
            result["changed"] = remove(path) if content is None else write(path, content)
        except OSError as error:
            raise AnsibleActionFail("change a file of the control host: %s" % error, result={"control_host": True}) from error
        return result
