"""Writes the events of each host as JSON lines, for `reconfigure`."""

import gc
import json
import time

from ansible.plugins.callback import CallbackBase

# Ansible forks a process for each task of each host. A garbage collection in such a process visits all objects of its
# parent, and so copies their memory. By default Python runs one for every 700 new objects.
gc.freeze()
gc.set_threshold(100_000)

DOCUMENTATION = """
    name: reconfigure_events
    type: aggregate
    short_description: writes the events of each host as JSON lines
    description:
      - Writes one JSON object per line to the file that the environment names. Without that variable, as when an administrator runs the playbooks, it does nothing.
      - The output of a task with no_log is not in the results that Ansible passes to callbacks, so it is not in the file either.
    options:
      file:
        description: the file, for instance a named pipe
        env:
          - name: RECONFIGURE_EVENTS
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "reconfigure_events"
    CALLBACK_NEEDS_ENABLED = True

    def set_options(self, *args, **kwargs):
        super().set_options(*args, **kwargs)
        path = self.get_option("file")
        self.disabled = not path
        self._file = open(path, "w", buffering=1) if path else None
        self._began = {}

    def v2_playbook_on_start(self, playbook):
        self._write(event="playbook", plays=len(playbook.get_plays()))

    def v2_playbook_on_play_start(self, play):
        self._write(event="play")

    def v2_runner_on_start(self, host, task):
        if "installs" in task.tags:
            self._began[host.get_name()] = time.monotonic()
        self._write(event="start", host=host.get_name(), task=task.get_name(include_role_fqcn=False).strip())

    def v2_runner_on_ok(self, result):
        if "installs" in result._task.tags:
            self._installed(result)
        # A later play installs the missing packages, and runs the task again.
        if "last" in result._task.tags and not result._result.get("missing"):
            self._write(event="done", host=result._host.get_name(), hardware=result._result.get("hardware", ""), clock=_ahead(result._result.get("time")))

    def _installed(self, result):
        host = result._host.get_name()
        took = time.monotonic() - self._began.get(host, time.monotonic())
        # A node is not trusted.
        waited = min(max(result._result.get("waited", 0), 0), took)
        self._write(event="installed", host=host, seconds=round(took, 1), waited=round(waited, 1))

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._failure("failed", result, bool(ignore_errors))

    def v2_runner_on_unreachable(self, result):
        self._failure("unreachable", result, bool(result._task.ignore_unreachable))

    def v2_playbook_on_stats(self, stats):
        for host in sorted(stats.processed):
            ended = stats.summarize(host)
            if ended["failures"] or ended["unreachable"]:
                self._write(event="left", host=host)

    def _failure(self, event, result, ignored):
        task = result._task.get_name(include_role_fqcn=False).strip()
        self._write(
            event=event, host=result._host.get_name(), task=task, message=_message(result._result), output=_output(result._result),
            ignored=ignored, rescued=event == "failed" and _rescued(result._task), here=_here(result._result),
            unhealthy=result._result.get("unhealthy") is True,
        )

    def _write(self, **event):
        self._file.write(json.dumps(event) + "\n")


def _ahead(then):
    """Returns the seconds that the clock of a node is ahead. A node is not trusted: a number must not be too large for `reconfigure`."""
    now = int(time.time())
    return min(max(then - now, -now), now) if isinstance(then, int) else 0


def _here(result):
    """Reports whether the control host failed and not the host of the task: our action plugin says so, or a plugin ended with an exception, as on a full disk."""
    return result.get("control_host") is True or str(result.get("msg", "")).startswith("Unexpected failure during module execution")


def _rescued(task):
    """Reports whether tasks of a rescue section may follow, or the task is one of them. A later failure may then say more."""
    block = task._parent
    while block is not None:
        if getattr(block, "rescue", None):
            return True
        block = block._parent
    return False


def _message(result):
    """Returns the error of a result, under any key that modules use for it."""
    if "censored" in result:
        return str(result["censored"])
    for item in result.get("results", []):
        if item.get("failed"):
            return "%s: %s" % (item.get("item", "an item"), _message(item))
    parts = [str(result.get(key, "")).strip() for key in ("msg", "stderr", "module_stderr", "module_stdout")]
    return "\n".join(dict.fromkeys(part for part in parts if part))


def _output(result):
    """Returns the last 64 KiB of what a task has printed, with the module's names for the parts."""
    if "censored" in result:
        return str(result["censored"])
    failed = [item for item in result.get("results", []) if item.get("failed")] or [result]
    keys = ("item", "cmd", "rc", "msg", "stdout", "stderr", "module_stdout", "module_stderr", "exception")
    parts = ["%s: %s" % (key, str(part[key]).strip()) for part in failed for key in keys if str(part.get(key, "")).strip()]
    return "\n".join(parts)[-65536:]
