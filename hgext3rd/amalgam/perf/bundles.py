"""Bundles for a measurement: the command that writes one, and its content."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any

from .subjects import READ

if TYPE_CHECKING:
    from .passes import Take
    from .processes import Processes
    from .sample import Sample
    from .subjects import Subject

_OF_GIT = {b"git-v2", b"cinnabar-v1"}
_NODE = re.compile(rb"^ +([0-9a-f]{40})$", re.MULTILINE)


def is_of_git(kind: bytes) -> bool:
    """Return whether a type is one of git's, written only by amalgam."""
    return kind in _OF_GIT


def command(kind: bytes) -> list[bytes]:
    """Return the command that writes everything, without the file."""
    if is_of_git(kind):
        return [b"git::bundle", b"-t", kind]
    return [b"bundle", b"-q", b"--all", b"-t", kind]


def taking(processes: Processes, root: bytes, words: list[bytes]) -> Take:
    """Return a function that writes a bundle and reads its contents back.

    The same contents are read once, and reading is not timed.
    """
    path = os.path.join(root, b"bundle")
    known: dict[bytes, Any] = {}

    def take(subject: Subject, _profiled: bool) -> tuple[Sample, Any]:
        if os.path.exists(path):
            os.unlink(path)
        command = [words[0], path, *words[1:]]
        sample, _output = processes.run(subject, command, root=root)
        with open(path, "rb") as file:
            digest = hashlib.sha1(file.read()).digest()
        if digest not in known:
            known[digest] = _contents(processes, root, path)
        return sample, known[digest]

    return take


def _contents(processes: Processes, root: bytes, path: bytes) -> Any:
    """Return the changesets of hg, or the refs of git, in a bundle."""
    with open(path, "rb") as file:
        if file.readline().endswith(b"git bundle\n"):
            return sorted(iter(file.readline, b"\n"))
    _sample, output = processes.run(READ, [b"debugbundle", path], root=root)
    return _NODE.findall(output)
