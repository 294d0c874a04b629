"""The stream of one changegroup, from the native core.

Owns the request to the core and the progress bars. Does not decide whether the core
can write a changegroup: ``fallthrough`` does.
"""

from __future__ import annotations

import array
import operator
from itertools import islice
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _

from ...gitstore.state import requirements
from ...index import openhooks
from ...native._core import ffi, lib
from ...native.buffers import lent, lent_writable
from ...native.errors import call
from ...native.operation import Operation
from . import wholehistory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from mercurial.interfaces.types import RepoT, UiT

VERSIONS = {b"02": 2, b"03": 3}
"""Versions of the format, and how the core numbers them."""

_BUFFER_BYTES = 1 << 20
# phases of amalgam_changegroup_read: as in mercurial/changegroup.py
_PHASES = {
    0: (_(b"changesets"), _(b"chunks")),
    1: (_(b"manifests"), _(b"chunks")),
    2: (_(b"files"), _(b"files")),
}


class NativeChangegroup:
    """A changegroup that the core writes; it ends with ``close``.

    ``nodes`` are its changesets. ``common`` are numbers of changesets that the receiver
    has, with all their ancestors. ``trusts_links``: whether every revision belongs to
    the changeset that its link names.

    ``errors.Moved`` if the files of the store have not these changesets (yet);
    ``errors.Unsupported`` if their format is not known.
    """

    def __init__(
        self,
        repo: RepoT,
        version: bytes,
        nodes: Sequence[bytes],
        common: Collection[int],
        *,
        trusts_links: bool,
    ) -> None:
        # no list of numbers, which takes ten times the memory
        revs = wholehistory.numbers(repo, nodes)
        if any(map(operator.gt, revs, islice(revs, 1, None))):
            pairs = sorted(zip(revs, nodes, strict=True))
            revs = array.array("I", map(operator.itemgetter(0), pairs))
            nodes = [*map(operator.itemgetter(1), pairs)]
        known = array.array("I", sorted(common))
        assert revs.itemsize == 4
        request = ffi.new("amalgam_changegroup_request *")
        store = lent(repo.store.path)
        joined = lent(b"".join(nodes))
        changesets = ffi.from_buffer("uint32_t[]", revs)
        common_numbers = ffi.from_buffer("uint32_t[]", known)
        request.store, request.nodes = store, joined
        request.encoding = requirements.encoding(repo)
        request.version = VERSIONS[version]
        request.changesets, request.changesets_len = changesets, len(revs)
        request.common, request.common_len = common_numbers, len(known)
        request.trusts_links = trusts_links
        lent_indexes = _lend_indexes(request, repo)
        handle = ffi.new("amalgam_changegroup **")
        call(lib.amalgam_changegroup_open, handle, request)
        del lent_indexes  # the core has shares of its own
        self._handle = ffi.gc(handle[0], lib.amalgam_changegroup_free)

    def close(self) -> None:
        """Let its files and memory go."""
        ffi.release(self._handle)

    def chunks(self, ui: UiT) -> Iterator[bytes]:
        """Yield its bytes."""
        buffer = bytearray(_BUFFER_BYTES)
        part: Any = ffi.new("amalgam_changegroup_part *")
        operation = Operation(ui, _PHASES)
        read = lib.amalgam_changegroup_read
        try:
            while True:
                operation.step(read, part, *lent_writable(buffer), self._handle)
                if not part.len:
                    return
                operation.report(part.phase, part.done, part.total)
                yield bytes(memoryview(buffer)[: part.len])
        finally:
            operation.close()


def _lend_indexes(request: Any, repo: RepoT) -> list[Any]:
    """Let the core use the indexes that are mapped: it makes no copy of them.

    Return what has to live as long as the call.
    """
    changelog = openhooks.lendable(repo.unfiltered().changelog)
    if changelog is None:
        return []
    request.changelog = changelog
    manifest = openhooks.lendable(repo.manifestlog.getstorage(b"").get_revlog())
    if manifest is None:
        return [changelog]
    request.manifest = manifest
    return [changelog, manifest]
