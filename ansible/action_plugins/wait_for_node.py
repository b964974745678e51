"""Waits until Ansible can log in to a node, reads the family of its system, and makes a key pair there, which it authorizes."""

import shlex
import time

from ansible.errors import AnsibleError
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import action_loader

DOCUMENTATION = """
    action: wait_for_node
    short_description: waits until Ansible can log in to a node, reads the family of its system, and makes a key pair there, which it authorizes
    description:
      - Runs a few commands until the login works. So the wait, the facts and the key cost one round trip and no start of Python on the node.
      - A task of its own for the authorization would cost one more fork of Ansible for each node.
      - Returns the facts os_family and service_mgr and, with key, public_key.
    options:
      timeout:
        description: seconds after which the node counts as failed
        type: int
        default: 120
      families:
        description: the families of operating systems that the playbooks support; a node of another one fails
        type: list
        required: true
      key:
        description: path and comment of a key pair of type ed25519 of root, which is created if it is missing
        type: dict
      authorize:
        description: with key, the other options of the action authorize_key, which then authorizes the public key on the control host
        type: dict
"""

# os-release(5), sd_booted(3)
PLATFORM = """([ ! -e /etc/os-release ] || . /etc/os-release; echo "${ID-} ${ID_LIKE-}")
if [ -d /run/systemd/system ]; then echo systemd; else echo service; fi
"""

# The module converge makes the keys of other users, which exist only when the packages are installed. The private half
# is renamed last, so that it never exists without the public one. Ansible regards ssh-keygen's exit status 255 as that
# of ssh, and so the node as unreachable.
KEY = """set -e
umask 022
key=%s
if [ ! -e "$key" ]; then
	folder=$(dirname "$key")
	mkdir -p "$(dirname "$folder")"
	[ -d "$folder" ] || mkdir -m 0700 "$folder"
	new=$(mktemp -d "$folder/XXXXXXXX")
	trap 'rm -rf "$new"' EXIT
	ssh-keygen -q -t ed25519 -N '' -C %s -f "$new/key" || exit 1
	mv "$new/key.pub" "$key.pub"
	mv "$new/key" "$key"
fi
cat "$key.pub"
"""

MANAGERS = ("systemd", "service")
# ID and ID_LIKE of os-release(5).
FAMILIES = {"debian": "Debian", "ubuntu": "Debian", "rhel": "RedHat", "fedora": "RedHat", "centos": "RedHat"}


def family(names):
    return next((FAMILIES[name] for name in names if name in FAMILIES), " ".join(names[:1]))


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("timeout", "families", "key", "authorize"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        key = self._task.args.get("key")
        commands = PLATFORM + (KEY % (shlex.quote(key["path"]), shlex.quote(key["comment"])) if key else "")
        status, lines, said = self._wait(commands, time.monotonic() + int(self._task.args.get("timeout", 120)))
        if status != 0:
            result.update(failed=True, msg=said or "exit status %d" % status)
            return result
        # Only these two facts are used, and only known values of them: the node is not trusted.
        system = family(lines[0].split())
        if system not in self._task.args["families"]:
            result.update(failed=True, msg="the playbooks do not support its operating system: %.40r" % system)
            return result
        result["ansible_facts"] = {"os_family": system, "service_mgr": lines[1]}
        if key:
            result["public_key"] = "\n".join(lines[2:])
        if self._task.args.get("authorize"):
            authorize_key = action_loader.get("authorize_key", class_only=True)
            result["changed"] = authorize_key.authorize(self._task.args["authorize"], result["public_key"])
        return result

    def _wait(self, commands, end):
        """Runs the commands until the login works, and returns their exit status, the lines of their output, and the message of a failure. The status 0 means that the second line is one of
        MANAGERS."""
        pause = 0.25
        while True:
            try:
                # With input there is no terminal, which would join both outputs.
                answer = self._low_level_execute_command("/bin/sh", in_data=to_bytes(commands))
            except AnsibleError as error:
                if time.monotonic() > end:
                    raise
                reason = to_text(error)
            else:
                lines = to_text(answer["stdout"]).splitlines()
                reason = to_text(answer.get("stderr") or answer["stdout"]).strip()
                if len(lines) >= 2 and lines[1] in MANAGERS:
                    return answer["rc"], lines, reason
                # The user is not allowed to become root yet: cloud-init does that.
                if time.monotonic() > end:
                    return answer["rc"] or 1, lines, reason
            self._display.vvv("%s: retry after: %s" % (self._task.get_name(), reason))
            time.sleep(pause)
            pause = min(2 * pause, 2)
            if hasattr(self._connection, "reset"):
                self._connection.reset()
