#!/usr/bin/python3
"""Runs Debian's ansible-playbook as it is, but starts it in less time: it does not parse Ansible's own two large YAML
files, which do not change, and does not import two optional libraries that no playbook here uses."""

import hashlib
import os
import pickle
import sys

sys.modules["cryptography"] = None  # for Ansible Vault
sys.modules["paramiko"] = None  # for a connection plugin beside ssh

import yaml  # noqa: E402

# The parsed files, by the SHA-256 sums of their texts. Only root can write here.
PARSED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "parsed")

parse = yaml.load


def load(stream, Loader):
    """Is yaml.load, which Ansible calls for its configuration's definitions and its table of plugins."""
    text = stream if isinstance(stream, (str, bytes)) else stream.read()
    raw = text.encode("utf-8") if isinstance(text, str) else text
    if len(raw) < 20000:
        return parse(text, Loader)
    path = os.path.join(PARSED, hashlib.sha256(raw).hexdigest())
    try:
        with open(path, "rb") as file:
            return pickle.load(file)
    except (OSError, EOFError, pickle.UnpicklingError):
        pass
    value = parse(text, Loader)
    part = "%s.%d" % (path, os.getpid())
    try:
        with open(part, "wb") as file:
            pickle.dump(value, file, pickle.HIGHEST_PROTOCOL)
        os.rename(part, path)
    except OSError:
        pass  # another user
    return value


yaml.load = load

from ansible.cli.playbook import main  # noqa: E402

sys.exit(main())
