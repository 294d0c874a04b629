"""Packs that git makes in a staging area, with fixed bounds and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ..state.docket import PACK
from . import staging

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...placement import Directory
    from .gitprocess import Git

_CONFIG = {
    # they may name objects that are gone
    "core.commitGraph": "false",
    "core.multiPackIndex": "false",
    "pack.packSizeLimit": "0",
    "pack.threads": "1",
    "pack.windowMemory": "64m",
    "pack.writeReverseIndex": "true",
}


def packed(
    git: Git, area: Directory, asked: Iterable[bytes], *options: str
) -> tuple[str, ...]:
    """Let git write a pack of what is asked for, in ``area``; none for no object."""
    git = git._replace(new_objects=staging.objects(area))
    arguments = ("--quiet", "--non-empty", "--delta-base-offset", *options)
    with git.pieces(
        "pack-objects", *arguments, area.join(b"pack"), input=asked, config=_CONFIG
    ) as pieces:
        sums = b"".join(pieces).decode("ascii", "replace").split()
    names = tuple(f"pack-{name}" for name in sums)
    if not all(map(PACK.fullmatch, names)):
        raise error.Abort(_(b"git pack-objects failed"))
    return names


def line(oid: bytes) -> bytes:
    """Return an oid as git wants it on its standard input."""
    return oid.hex().encode() + b"\n"
