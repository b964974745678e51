"""Reads the files of a site's control node that the compute nodes get."""

import base64
import os
import pwd
import re
import socket

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
    module: read_site
    short_description: reads the munge key and the configuration files of a control node that a site runs
    options:
      key:
        description: the file of the munge key
        required: true
      conf:
        description: the path of slurm.conf
        required: true
      address:
        description: the address of the control node, for the nodes' /etc/hosts
        required: true
"""

# Files that slurmd reads beside slurm.conf, if there.
OTHERS = ("cgroup.conf", "gres.conf", "topology.conf", "topology.yaml", "acct_gather.conf", "job_container.conf", "mpi.conf", "oci.conf", "helpers.conf", "plugstack.conf")
PACKAGED = "/etc/slurm"
INCLUDE = re.compile(r"^\s*include\s+(\S+)", re.IGNORECASE | re.MULTILINE)
HOST = re.compile(r"^\s*(?:SlurmctldHost|ControlMachine)\s*=\s*([^\s#]+)", re.IGNORECASE | re.MULTILINE)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def configuration(conf):
    """Returns the text of slurm.conf with its includes, and the contents by path."""
    found, texts, waiting = {}, [], [conf]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = read(path)
        text = found[path].decode("utf-8", "surrogateescape")
        texts.append(text)
        waiting += [os.path.join(os.path.dirname(path), name) for name in INCLUDE.findall(text)]
    for name in OTHERS:
        path = os.path.join(os.path.dirname(conf), name)
        if os.path.isfile(path):
            found[path] = read(path)
    return "\n".join(texts), found


def placed(files, conf):
    """Returns the files by their paths on a node: those of the control node and, for a slurm.conf elsewhere, also those of /etc/slurm, where slurmd of the packages looks for it."""
    folder = os.path.dirname(conf)
    own = {os.path.join(PACKAGED, os.path.relpath(path, folder)): text for path, text in files.items() if path.startswith(folder + "/")}
    return dict(files, **own)


def setting(text, name, default):
    """Returns a setting without the patterns for a node's name, or the default."""
    match = re.search(r"^\s*%s\s*=\s*([^\s#]+)" % name, text, re.IGNORECASE | re.MULTILINE)
    return default if match is None or "%" in match.group(1) else match.group(1)


def hosts(text, address):
    """Returns lines of hosts(5) for the names of slurmctld's hosts without an address in slurm.conf."""
    lines, own = [], {socket.gethostname(), socket.gethostname().partition(".")[0]}
    for host in HOST.findall(text):
        if "(" in host:
            continue
        at = address if host in own else lookup(host)
        if at and not at.startswith("127."):
            lines.append("%s %s\n" % (at, host))
    return "".join(lines)


def lookup(host):
    try:
        return socket.gethostbyname(host)
    except OSError:
        return ""


def main():
    module = AnsibleModule(
        argument_spec={"key": {"type": "path", "required": True, "no_log": False}, "conf": {"type": "path", "required": True}, "address": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    try:
        text, files = configuration(module.params["conf"])
        files = placed(files, module.params["conf"])
        key = base64.b64encode(read(module.params["key"])).decode()
        user = setting(text, "SlurmUser", "root")
        uid = pwd.getpwnam(user).pw_uid if not user.isdigit() else int(user)
    except (OSError, KeyError) as error:
        module.fail_json(msg="the control node of the site does not have what its nodes need: %s" % error)
    folders = {os.path.dirname(path) for path in files} | {os.path.dirname(setting(text, "SlurmdLogFile", "/var/log/slurmd.log")), setting(text, "SlurmdSpoolDir", "/var/spool/slurmd")}
    module.exit_json(changed=False, given={
        "munge_key": key, "user": user, "uid": uid, "hosts": hosts(text, module.params["address"]),
        "slurm": [{"path": path, "base64": base64.b64encode(files[path]).decode(), "mode": "0644"} for path in sorted(files)],
        "folders": [{"path": path, "mode": "0755", "keep": True} for path in sorted(folders)],
    })


if __name__ == "__main__":
    main()
