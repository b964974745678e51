"""Installs packages by apt-get, and waits while other programs hold apt's locks."""

import errno
import fcntl
import time

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: install_packages
    short_description: installs packages by apt-get, and waits while other programs hold apt's locks
    description:
      - At an instance's first boot cloud-init, apt-daily and others use apt. apt-get can wait for the lock of dpkg, but for no other lock, regardless of
        DPkg::Lock::Timeout. Ansible's module apt waits only for the lock of the lists, and not if it must first install python3-apt.
      - It always updates the package lists, since a new image has recent ones that may still lack a package.
    options:
      names:
        description: the packages
        type: list
        required: true
      patience:
        description: seconds to wait for locks
        type: int
        default: 300
"""

RETURN = """
    waited:
      description: seconds that it waited for locks
"""

LISTS = ["/var/lib/apt/lists/lock"]
# The first is held during all actions of dpkg, the second also while packages are only downloaded.
PACKAGES = ["/var/lib/dpkg/lock-frontend", "/var/cache/apt/archives/lock"]
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
# Changes of configuration files by the administrator or the image stay.
INSTALL = ["install", "--yes", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]


class Apt:
    def __init__(self, module):
        self.module = module
        self.end = time.monotonic() + module.params["patience"]
        self.waited = 0.0

    def run(self, locks, argv):
        """Runs apt-get. It may fail because another program took the lock first, so it runs up to three times."""
        for _ in range(3):
            self.wait(locks)
            timeout = "DPkg::Lock::Timeout=%d" % max(0, self.end - time.monotonic())
            status, out, err = self.module.run_command(["apt-get", "--quiet", "-o", timeout] + argv, environ_update=ENVIRONMENT)
            if status == 0:
                return
        self.module.fail_json(msg="apt-get %s: exit status %d: %s" % (argv[0], status, err.strip()[-2000:]), rc=status, stdout=out, stderr=err)

    def wait(self, locks):
        began = time.monotonic()
        while any(held(path) for path in locks):
            if time.monotonic() > self.end:
                self.module.fail_json(msg="another program has held a lock of apt for %d s: %s; run `ps` on the node to find it" % (
                    self.module.params["patience"], ", ".join(path for path in locks if held(path))))
            time.sleep(0.5)
        self.waited += time.monotonic() - began


def held(path):
    """Reports whether another process holds a lock. The locks are those of fcntl(2), which end when the file is closed."""
    try:
        with open(path, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return True
        raise


def main():
    module = AnsibleModule(argument_spec={
        "names": {"type": "list", "elements": "str", "required": True},
        "patience": {"type": "int", "default": 300},
    })
    apt = Apt(module)
    apt.run(LISTS, ["update"])
    apt.run(PACKAGES, INSTALL + module.params["names"])
    module.exit_json(changed=True, waited=round(apt.waited))


if __name__ == "__main__":
    main()
