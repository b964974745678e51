"""Writes files of a node. Ansible sends it with each module that imports it."""

import os
import tempfile


def mode(name):
    """Returns the mode of one of Slurm's files: the scripts among them are programs."""
    return 0o755 if name.endswith(".sh") else 0o644


def write(path, text, mode, owner=None):
    """Writes a file atomically, also if the computer loses power. The owner is a pair of ids; the default is the current user. It raises OSError, and then leaves the file unchanged."""
    number, unfinished = tempfile.mkstemp(prefix=".%s." % os.path.basename(path), dir=os.path.dirname(path))
    try:
        with os.fdopen(number, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
            file.flush()
            if owner:
                os.fchown(number, *owner)
            os.fchmod(number, mode)
            os.fsync(number)
        os.rename(unfinished, path)
    except OSError:
        os.unlink(unfinished)
        raise
