"""Waits until Ansible can log in to a node, and reads the family of its system."""

import time

from ansible.errors import AnsibleError
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.action import ActionBase

DOCUMENTATION = """
    action: wait_for_node
    short_description: waits until Ansible can log in to a node, and reads the family of its system
    description:
      - Runs the module node_platform until it succeeds. So the wait and the facts cost one round trip, where wait_for_connection and setup cost three.
    options:
      timeout:
        description: seconds after which the node counts as failed
        type: int
        default: 120
      families:
        description: the families of operating systems that the playbooks support; a node of another one fails
        type: list
        required: true
"""


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("timeout", "families"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        answer = self._wait(time.monotonic() + int(self._task.args.get("timeout", 120)), task_vars)
        if answer.get("failed"):
            result.update(failed=True, msg=to_text(answer.get("msg")), module_stdout=to_text(answer.get("module_stdout", "")),
                          module_stderr=to_text(answer.get("module_stderr", "")))
            return result
        # Only these two facts are used, and only known values of them: the node is not trusted.
        facts = answer["ansible_facts"]
        family = facts["os_family"]
        if family in self._task.args["families"]:
            result["ansible_facts"] = {"os_family": family, "service_mgr": "systemd" if facts["service_mgr"] == "systemd" else "service"}
        else:
            result.update(failed=True, msg="the playbooks do not support its operating system: %.40r" % family)
        return result

    def _wait(self, end, task_vars):
        pause = 0.25
        while True:
            try:
                result = self._execute_module(module_name="node_platform", module_args={}, task_vars=task_vars)
            except AnsibleError as error:
                if time.monotonic() > end:
                    raise
                reason = to_text(error)
            else:
                # The module fails until cloud-init has allowed the user to become root.
                if not result.get("failed") or time.monotonic() > end:
                    return result
                reason = result.get("msg")
            self._display.vvv("%s: retry after: %s" % (self._task.get_name(), reason))
            time.sleep(pause)
            pause = min(2 * pause, 2)
            if hasattr(self._connection, "reset"):
                self._connection.reset()
