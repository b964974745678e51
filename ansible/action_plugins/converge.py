"""Runs our module on a node, and checks its result."""

from ansible.plugins.action import ActionBase

DOCUMENTATION = """
    action: converge
    short_description: runs the module of the same name, and checks its result
    description:
      - Ansible uses some keys of a result, of any type, as facts and variables, which later tasks on the control host read. A user may be root on a node, so the node is not
        trusted. The result is reduced to the keys that the module returns, with values of the right type.
"""


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
        name = self._task.action.rpartition(".")[-1]
        result.update(checked(self._execute_module(module_name=name, module_args=self._task.args, task_vars=task_vars)))
        return result
