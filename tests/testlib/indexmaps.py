"""An hg extension with a command that tells how the indexes were opened.

It asks amalgam, and it asks the kernel, and says so where they differ. Two settings
make what is rare: an index that is small and not inline, and a file system like NFS.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mercurial import registrar, revlog, vfs

from hgext3rd.amalgam.index import opening as index

try:
    from mercurial.repo import factory
except ImportError:  # hg <= 7.1
    from mercurial import hg as factory

cmdtable: dict[bytes, Any] = {}
command = registrar.command(cmdtable)
configtable: dict[bytes, Any] = {}
configitem = registrar.configitem(configtable)
configitem(b"indexmaps", b"split", default=False)
configitem(b"indexmaps", b"unsafe", default=False)


def extsetup(ui: Any) -> None:
    if ui.configbool(b"indexmaps", b"split"):
        revlog._maxinline = 1
    if ui.configbool(b"indexmaps", b"unsafe"):
        vfs.abstractvfs.is_mmap_safe = lambda self, path=None: False


def open_repository(ui: Any, path: bytes) -> Any:
    return factory.repository(ui, path)


def mapped_files() -> list[str]:
    """Return the files of indexes that this process has mapped, once a mapping."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split()[-1] for line in lines if _is_index(line)]


def open_indexes() -> int:
    """Return how many descriptors of files of indexes this process has open."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += _is_index(str(descriptor.readlink()))
        except FileNotFoundError:  # that of the directory itself
            continue
    return count


def _is_index(name: str) -> bool:
    # what is removed while it is mapped says so
    return name.removesuffix(" (deleted)").endswith((".i", ".idx", ".snap"))


@command(b"debugindexmaps", [], b"[REPO]...", norepo=True)
def debugindexmaps(ui: Any, *paths: bytes, **_opts: Any) -> None:
    """open repositories, all in one process, and tell how"""
    for path in paths or (b".",):
        before = mapped_files()
        repo = open_repository(ui, path)
        lengths = [len(repo.changelog), len(repo.manifestlog.getstorage(b""))]
        mapped = sorted(set(mapped_files()) - set(before))
        opened = index.open_indexes(repo)
        if not opened:
            ui.write(b"left to Mercurial\n")
        for decision in (how.decision for how in opened):
            ui.write(b"%s: %s\n" % (decision.name, decision.explain()))
        if mapped != sorted(
            os.fsdecode(how.snapshot.path) for how in opened if how.snapshot
        ):
            ui.write(b"mapped in fact: %s\n" % " ".join(mapped).encode())
        ui.debug(b"lengths: %d %d\n" % tuple(lengths))
