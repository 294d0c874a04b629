"""Measurements inside a process: opening an index, and looking up nodes.

Runs in a fresh process that has not touched the repository. It reports where the index
came from, so that a row cannot show the figures of another one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import os
import pkgutil
import random
import struct
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.node import hex

from .. import compat
from ..configitems import LEAST_MAPPED_BYTES
from .samples import Meter
from .subjects import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mercurial.interfaces.types import RepoT, UiT

UNKNOWN = hashlib.sha1(b"a node that no repository has").digest()
_MANY = 1000
_PREFIX_LEN = 6

# an index of version 1, with general delta, of empty revisions, which all ways map
_HEADER = struct.pack(">I", 1 << 17 | 1)
_ENTRY = struct.pack(">2I6i20s12x", 0, 0, 0, 0, 0, 0, -1, -1, b"\1" * 20)
_INDEX = _HEADER + (_ENTRY * (LEAST_MAPPED_BYTES // len(_ENTRY)))[len(_HEADER) :]

_PACKAGES = ("hgext3rd.amalgam.index", "hgext3rd.amalgam.core")


def facts(repo: RepoT, manifest: bool) -> dict[str, Any]:
    """Return name and size of an index, and the nodes of each look-up."""
    revlog = _revlog(repo, manifest)
    last = len(revlog) - 1
    revs = random.Random(0).sample(range(last + 1), min(_MANY, last + 1))
    nodes = {
        "tip": [revlog.node(last)],
        "old": [revlog.node(min(10, last))],
        "unknown": [UNKNOWN],
        "prefix": [revlog.node(last // 2)],
        "many": [revlog.node(rev) for rev in revs],
    }
    return {
        "nodes": {kind: [node.hex() for node in nodes[kind]] for kind in nodes},
        "revs": len(revlog),
        "bytes": repo.svfs.stat(revlog._indexfile).st_size,
        "inline": bool(revlog._inline),
        "name": revlog.radix.decode(),
    }


def measure(
    repo: RepoT, step: str, nodes: Sequence[str], manifest: bool
) -> dict[str, Any]:
    """Open an index and do ``step``; return its cost, its answer and its source."""
    operation, wanted = _STEPS[step], [bytes.fromhex(node) for node in nodes]
    _load_code(repo.baseui, step, manifest)
    meter = Meter()
    revlog = _revlog(repo, manifest)
    answer = operation(revlog, wanted)
    sample = meter.sample()
    return {
        "sample": dataclasses.asdict(sample),
        "answer": answer,
        "source": _source(revlog).value,
    }


def _open(revlog: Any, _wanted: Sequence[bytes]) -> Any:
    """Read the entry of the last revision."""
    last = len(revlog) - 1
    return [last, hex(revlog.node(last)).decode()]


def _heads(revlog: Any, _wanted: Sequence[bytes]) -> Any:
    return revlog.headrevs()


def _look_up(revlog: Any, wanted: Sequence[bytes]) -> Any:
    return [revlog.index.get_rev(node) for node in wanted]


def _look_up_prefix(revlog: Any, wanted: Sequence[bytes]) -> Any:
    prefix = hex(wanted[0])[:_PREFIX_LEN]
    try:
        found = revlog._partialmatch(prefix)
    except error.AmbiguousPrefixLookupError:
        return "ambiguous"
    return found and hex(found).decode()


_STEPS: dict[str, Callable[[Any, Sequence[bytes]], Any]] = {
    "open": _open,
    "heads": _heads,
    "tip": _look_up,
    "old": _look_up,
    "unknown": _look_up,
    "prefix": _look_up_prefix,
    "many": _look_up,
}


def _revlog(repo: RepoT, manifest: bool) -> Any:
    repo = repo.unfiltered()
    if manifest:
        return repo.manifestlog.getstorage(b"").get_revlog()
    return repo.changelog


def _load_code(ui: UiT, step: str, manifest: bool) -> None:
    """Do the same on another repository, so that all code is loaded before.

    Loading is part of the start of a command, which is measured from outside. It ends
    when code has run once: the kernel maps the pages of a library when they are used.
    The repository is opened twice, since the first opening makes a snapshot.
    Modules that amalgam needs only for a mapped index are loaded by name.
    """
    for name in _PACKAGES:
        package = sys.modules.get(name)
        if package is not None:  # amalgam is enabled
            for found in pkgutil.iter_modules(package.__path__, f"{name}."):
                module = importlib.import_module(found.name)
                getattr(module, "__all__", None)  # lazy modules load themselves
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(os.fsencode(scratch), b"r")
        created = compat.open_repository(ui, path, create=True)
        for index in (b"00changelog.i", b"00manifest.i"):
            created.svfs.write(index, _INDEX)
        for repo in (created, compat.open_repository(ui, path)):
            _STEPS[step](_revlog(repo, manifest), [UNKNOWN])


def _source(revlog: Any) -> Source:
    """Return the source of the index, by the mappings of this process."""
    with open("/proc/self/maps", "rb") as maps:
        mapped = [line.split(b" ", 5)[-1].strip() for line in maps]
    snapshot = b"/amalgam/index/%s-" % revlog.radix
    if any(snapshot in path and path.endswith(b".snap") for path in mapped):
        return Source.SNAPSHOT
    if any(path.endswith(b"/store/%s.i" % revlog.radix) for path in mapped):
        return Source.MAPPED
    return Source.READ
