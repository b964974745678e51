"""Runs our module on a node, and checks its result."""

import fcntl
import hashlib
import json
import os

from ansible import constants
from ansible.errors import AnsibleActionSkip, AnsibleError
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

# Variables that differ between nodes, or change during a play. If common needs one, it is rendered for each node.
OWN = {
    "ansible_host", "ansible_play_batch", "ansible_play_hosts", "converged", "hostvars", "inventory_hostname", "inventory_hostname_short", "omit", "play_hosts", "reached", "vars",
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
        name = own.pop("common", None)
        options = {}
        if name:
            options = self._shared(name, task_vars) or self._templar.template(task_vars[name])
        for option, value in own.items():
            options[option] = options[option] + value if isinstance(options.get(option), list) else value
        return options

    def _shared(self, name, task_vars):
        """Returns the value of a variable that is rendered once, or nothing if it needs one of OWN. Ansible removes its local temporary folder at the end of the run."""
        shared = {key: value for key, value in task_vars.items() if key not in OWN}
        digest = hashlib.sha256(json.dumps([name, shared], sort_keys=True, default=str).encode()).hexdigest()
        path = os.path.join(constants.DEFAULT_LOCAL_TMP, "common-" + digest)
        with open(path, "a+", encoding="utf-8", opener=private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            if not text:
                text = json.dumps(self._render(task_vars[name], shared))
                file.write(text)
            return json.loads(text)

    def _render(self, value, variables):
        """Renders a value with these variables; nothing if that fails."""
        every = self._templar.available_variables
        self._templar.available_variables = variables
        try:
            return self._templar.template(value)
        except AnsibleError:
            return None
        finally:
            self._templar.available_variables = every


def private(path, flags):
    return os.open(path, flags, 0o600)
