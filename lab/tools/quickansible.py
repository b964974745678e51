#!/usr/bin/python3
"""Runs Debian's ansible-playbook as it is, but in less time. It keeps from one run to the next what does not change:
Ansible's own two large YAML files, parsed, and the archives of modules, which Ansible makes anew in each run. It sends
modules as bytecode, which machines of Debian 12 need not compile. It does not import two optional libraries that no
playbook here uses."""

import hashlib
import importlib.util
import marshal
import os
import pickle
import sys
import types
import zipfile

sys.modules["cryptography"] = None  # for Ansible Vault
sys.modules["paramiko"] = None  # for a connection plugin beside ssh

import yaml  # noqa: E402

# The folder of what is kept: the one beside this program is root's, and is also read by others.
SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kept")
OWN = SHARED if os.geteuid() == 0 else os.path.expanduser("~/.ansible/kept")


def kept(name):
    """Returns the contents of a kept file, or None."""
    for folder in dict.fromkeys((SHARED, OWN)):
        try:
            with open(os.path.join(folder, name), "rb") as file:
                return file.read()
        except OSError:
            pass
    return None


def keep(name, contents):
    path = os.path.join(OWN, name)
    part = "%s.%d" % (path, os.getpid())
    try:
        os.makedirs(OWN, exist_ok=True)
        with open(part, "wb") as file:
            file.write(contents)
        os.rename(part, path)
    except OSError:
        pass  # the next run makes it again


def digest(*parts):
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8") if isinstance(part, str) else part
        total.update(b"%d " % len(raw))
        total.update(raw)
    return total.hexdigest()


parse = yaml.load


def load(stream, Loader):
    """Is yaml.load, which Ansible calls for its configuration's definitions and its table of plugins."""
    text = stream if isinstance(stream, (str, bytes)) else stream.read()
    if len(text) < 20000:
        return parse(text, Loader)
    name = "yaml-" + digest(text)
    raw = kept(name)
    if raw:
        return pickle.loads(raw)
    value = parse(text, Loader)
    keep(name, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    return value


yaml.load = load

import ansible  # noqa: E402
from ansible import constants  # noqa: E402
from ansible.cli.playbook import main  # noqa: E402
from ansible.executor import module_common  # noqa: E402
from ansible.plugins.loader import module_utils_loader  # noqa: E402

LIBRARY = os.path.dirname(os.path.dirname(ansible.__file__))


def bytecode(name, source):
    """Returns the bytecode of a module, which the package has for its own ones."""
    path = os.path.join(LIBRARY, name)
    try:
        with open(path, "rb") as file, open(importlib.util.cache_from_source(path), "rb") as compiled:
            code = compiled.read()
            if file.read() == source and int.from_bytes(code[8:12], "little") == int(os.stat(path).st_mtime):
                return code
    except OSError:
        pass
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(source, name, "exec", dont_inherit=True))


class Compiled(zipfile.ZipFile):
    """The archive of a module and what it imports."""

    def writestr(self, name, data, *rest, **named):
        if isinstance(name, str) and name.endswith(".py") and data:
            name, data = name + "c", bytecode(name, data)
        super().writestr(name, data, *rest, **named)


def imports():
    """Returns what modules may import beside Ansible's own library, which changes with the version."""
    found = [ansible.__version__, sys.version, repr(os.stat(module_common.__file__).st_mtime_ns)]
    for folder in module_utils_loader._get_paths(subdirs=False):
        if not folder.startswith(LIBRARY) and os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".py"):
                    with open(os.path.join(folder, name), "rb") as file:
                        found += [name, file.read()]
    return found


pack = module_common._find_module_utils


def find_module_utils(name, source, path, arguments, variables, templar, compression, *rest, **named):
    """Is Ansible's function that makes the archive of a module, unless the run has one. The arguments are beside it."""
    try:
        full = module_common._get_ansible_module_fqn(path)
    except ValueError:
        full = "ansible.modules." + name
    folder = os.path.join(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache")
    archive = os.path.join(folder, "%s-%s" % (full, compression))
    known = None
    if not os.path.exists(archive):
        known = "module-" + digest(full, compression, source, *imports())
        raw = kept(known)
        if raw:
            os.makedirs(folder, exist_ok=True)
            part = "%s.%d" % (archive, os.getpid())
            with open(part, "wb") as file:
                file.write(raw)
            os.rename(part, archive)
            known = None
    try:
        return pack(name, source, path, arguments, variables, templar, compression, *rest, **named)
    finally:
        if known and os.path.exists(archive):
            with open(archive, "rb") as file:
                keep(known, file.read())


if sys.version_info[:2] == (3, 11):  # that of Debian 12
    module_common.zipfile = types.SimpleNamespace(**dict(vars(zipfile), ZipFile=Compiled))
module_common._find_module_utils = find_module_utils

sys.exit(main())
