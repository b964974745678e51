"""Runs our module on a node, and checks its result."""

import fcntl
import hashlib
import json
import os

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleActionSkip, AnsibleError
from ansible.plugins.action import ActionBase

DOCUMENTATION = """
    action: converge
    short_description: runs the module of the same name, and checks its result
    description:
      - Ansible uses some keys of a result, of any type, as facts and variables, which later tasks on the control host read. A user may be root on a node, so the node is not
        trusted. The result is reduced to the keys that the module returns, with values of the right type.
    options:
      common:
        description:
          - the name of a variable with further options, which are the same for many nodes; its lists are put before those of the task
          - Templates take most of the time of a task. This variable is rendered once in a run for all nodes whose variables are the same.
"""

OPTIONS = ("apart", "packages", "users", "folders", "files", "blocks", "key", "mounts", "services", "health", "limit", "hardware")

# Variables that differ between nodes, or change during a play. If common needs one, it is rendered for each node.
OWN = {
    "ansible_host", "ansible_play_batch", "ansible_play_hosts", "hostvars", "inventory_hostname", "inventory_hostname_short", "omit", "play_hosts", "reached", "vars",
}


def texts(value):
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def is_a(kind):
    return lambda value: isinstance(value, kind)


KNOWN = dict.fromkeys(("changed", "failed", "unhealthy"), is_a(bool))
KNOWN.update(dict.fromkeys(("msg", "stdout", "stderr", "module_stdout", "module_stderr", "exception", "public_key", "hardware"), is_a(str)))
KNOWN.update(dict.fromkeys(("missing", "changes", "restarted"), texts))
KNOWN.update(dict.fromkeys(("rc", "time", "waited"), is_a(int)))


def checked(answer):
    return {key: answer[key] for key, fits in KNOWN.items() if key in answer and fits(answer[key])}


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        name, args = self._task.action.rpartition(".")[-1], self._task.args
        if name == "converge":
            if self._task.check_mode:
                raise AnsibleActionSkip("converge does not support check mode")
            args = self._options(dict(args), task_vars)
        result.update(checked(self._execute_module(module_name=name, module_args=args, task_vars=task_vars)))
        return result

    def _options(self, own, task_vars):
        """Returns all options of the module."""
        common = own.pop("common", None)
        options = self._common(common, task_vars) if common else {}
        for name, value in own.items():
            options[name] = options[name] + value if isinstance(options.get(name), list) else value
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise AnsibleActionFail("converge has no option %s" % ", ".join(unknown))
        return options

    def _common(self, name, task_vars):
        """Returns the value of a variable that is rendered once. Ansible removes its local temporary folder at the end of the run."""
        shared = {key: value for key, value in task_vars.items() if key not in OWN}
        digest = hashlib.sha256(json.dumps([name, shared], sort_keys=True, default=str).encode()).hexdigest()
        path = os.path.join(constants.DEFAULT_LOCAL_TMP, "common-" + digest)
        with open(path, "a+", encoding="utf-8", opener=private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            if text:
                return json.loads(text) or self._templar.template(task_vars[name])
            every = self._templar.available_variables
            self._templar.available_variables = shared
            try:
                value = self._templar.template(task_vars[name])
            except AnsibleError:  # it needs one of OWN, or is wrong
                value = {}
            finally:
                self._templar.available_variables = every
            file.write(json.dumps(value))
            return value or self._templar.template(task_vars[name])


def private(path, flags):
    return os.open(path, flags, 0o600)
