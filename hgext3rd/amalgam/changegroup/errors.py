"""Errors while a bundle is written or sent.

An incomplete file is removed. A pulling client gets the reason: Mercurial writes it
into the bundle and raises the error again. Then hgweb would write an error page into
the compressed stream, which the client would take for damage. Does not know the
bundle's writer.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from mercurial import (
    error,
    wireprototypes,
)
from mercurial.i18n import _

from ..terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mercurial.interfaces.types import RepoT, UiT

_BUNDLE2 = b"HG20"


def write(
    orig: Callable[..., bytes],
    ui: UiT,
    chunks: Iterable[bytes],
    filename: bytes | None,
    vfs: Any = None,
) -> bytes:
    """Write a bundle to a file, and remove the file if it stays incomplete."""
    is_open = False

    def read() -> Iterator[bytes]:
        nonlocal is_open
        is_open = True  # else a file of this name is not ours to remove
        yield from chunks

    try:
        return orig(ui, read(), filename, vfs=vfs)
    except OSError:
        # Mercurial does not come to it if the rest cannot be written at closing, either
        if filename and is_open:
            path = vfs.join(filename) if vfs else filename
            with contextlib.suppress(OSError):
                if os.path.isfile(path):
                    os.unlink(path)
        raise


def getbundle(
    orig: Callable[..., Any], repo: RepoT, proto: Any, *args: Any, **kwargs: Any
) -> Any:
    """Answer a pull, and tell the client the reason if the bundle breaks off."""
    answer = orig(repo, proto, *args, **kwargs)
    if not isinstance(answer, wireprototypes.streamres):
        return answer
    chunks = _ended(repo.ui, answer.gen)
    return wireprototypes.streamres(chunks, answer.prefer_uncompressed)


def _ended(ui: UiT, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a stream. If it is a bundle that says why it ends, end it there."""
    is_bundle2 = None
    try:
        for chunk in chunks:
            if is_bundle2 is None:
                is_bundle2 = chunk.startswith(_BUNDLE2)
            yield chunk
    except (error.Abort, error.StorageError) as exc:
        if not is_bundle2:
            raise
        text = _(b"warning: a pull was ended: %s") % bytes(exc)
        ui.warn(one_line(text))
