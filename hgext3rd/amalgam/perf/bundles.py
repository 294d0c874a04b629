"""Bundles as a measurement writes them: the command, and what is in the file."""

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
    """Tell whether a type is one of git's, which only amalgam writes."""
    return kind in _OF_GIT


def command(kind: bytes) -> list[bytes]:
    """Return the command that writes everything, without the file."""
    if is_of_git(kind):
        return [b"git::bundle", b"-t", kind]
    return [b"bundle", b"-q", b"--all", b"-t", kind]


def taking(processes: Processes, root: bytes, words: list[bytes]) -> Take:
    """Return what writes a bundle and reads its contents back.

    What it names is read once for the same bytes, and not timed.
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
    """Return what a bundle names: changesets of hg, or refs of git."""
    with open(path, "rb") as file:
        if file.readline().endswith(b"git bundle\n"):
            return sorted(iter(file.readline, b"\n"))
    _sample, output = processes.run(READ, [b"debugbundle", path], root=root)
    return _NODE.findall(output)
