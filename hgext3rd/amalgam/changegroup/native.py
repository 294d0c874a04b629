"""The native writer under Mercurial's changegroups.

``generate`` of Mercurial's packers yields the bytes of the native core, and bundles
forward them. Mercurial writes a changegroup itself for the reasons of
``fallback_reason``; each is a row of the table in docs/decisions/changegroups.rst. A
case that was never checked is a reason, since a changegroup cannot change hands once it
has begun. Everything around the stream is Mercurial's: the choice of changesets, parts,
phases, obsolescence, compression and hooks.
"""

from __future__ import annotations

import array
import functools
import operator
from itertools import islice
from typing import TYPE_CHECKING, Any

from mercurial import changegroup, node as nodemod
from mercurial.i18n import _
from mercurial.revlogutils import flagutil

from ..config import wants_native_bundles
from ..core._core import ffi, lib
from ..core.buffers import lent, lent_writable
from ..core.errors import Moved, Unsupported, call
from ..core.message import encode
from ..core.operation import Operation
from ..gitstore import requirements
from ..index.opening import mapped_indexes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence, Set

    from mercurial.interfaces.types import RepoT, UiT


VERSIONS = {b"02": 2, b"03": 3}
"""Versions of the format, and how the core numbers them."""

_BUFFER_BYTES = 1 << 20
# size of the chunks that are forwarded
_FORWARDED_BYTES = 1 << 20
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
        rev = repo.unfiltered().changelog.rev
        revs = array.array("I", map(rev, nodes))
        if any(map(operator.gt, revs, islice(revs, 1, None))):
            pairs = sorted(zip(revs, nodes, strict=True))
            revs = array.array("I", map(operator.itemgetter(0), pairs))
            nodes = [*map(operator.itemgetter(1), pairs)]
        known = array.array("I", sorted(common))
        assert revs.itemsize == 4
        message = encode(
            {
                "store": repo.store.path,
                "encoding": requirements.encoding(repo),
                "version": VERSIONS[version],
                "changesets": revs,
                "nodes": b"".join(nodes),
                "common": known,
                "trusts_links": trusts_links,
                "threads": 0,
            }
        )
        handle = ffi.new("amalgam_changegroup **")
        # the core has shares of its own of the indexes
        indexes = [index or ffi.NULL for index in mapped_indexes(repo)]
        call(lib.amalgam_changegroup_open, handle, *lent(message), *indexes)
        self._handle = ffi.gc(handle[0], lib.amalgam_changegroup_free)

    def close(self) -> None:
        """Let its files and memory go."""
        ffi.release(self._handle)

    def chunks(self, ui: UiT) -> Iterator[bytes]:
        """Yield its bytes."""
        buffer = bytearray(_BUFFER_BYTES)
        written = ffi.new("size_t *")
        operation = Operation(ui, _PHASES)
        read = lib.amalgam_changegroup_read
        try:
            while True:
                operation.step(read, written, *lent_writable(buffer), self._handle)
                if not written[0]:
                    return
                yield bytes(memoryview(buffer)[: written[0]])
        finally:
            operation.close()


_NEEDED = frozenset({b"store", b"revlogv1"})
# censored, ellipsis, stored elsewhere, and those that leave texts as they are
_FLAGS_OF_MERCURIAL = 0xFFC0
# The core reads the indexes of changelog and manifest again. That takes as long as
# Mercurial takes for one changeset of this many revisions.
_REVS_A_CHANGESET = 2000


def fallback_reason(packer: Any, changesets: int, *, has_changelog: bool) -> bytes:
    """Return the reason why Mercurial writes the changegroup of ``packer`` itself.

    ``changesets``: its changesets, for whose manifests and files it is, too. Empty: the
    core writes it.
    """
    repo = packer._repo
    if not wants_native_bundles(repo.ui):
        return b"amalgam.bundles.native"
    return (
        _reason_of_packer(packer, has_changelog=has_changelog)
        or _reason_of_repository(repo)
        or _reason_of_display(repo)
        or _reason_of_size(repo, changesets)
    )


def _reason_of_packer(packer: Any, *, has_changelog: bool) -> bytes:
    if type(packer).__module__ != changegroup.__name__:
        return b"packer of another extension"
    if packer.version not in VERSIONS:
        return b"version %s" % packer.version
    if not has_changelog:
        return b"no changesets"
    if packer._ellipses or packer._isshallow or packer._fullclnodes:
        return b"ellipses"
    if packer._forcedeltaparentprev:
        return b"deltas against the previous revision"
    if not packer._matcher.always() or packer._oldmatcher.visitdir(b""):
        return b"narrow"
    return b""


def _reason_of_repository(repo: RepoT) -> bytes:
    if not repo.url().startswith(b"file:"):
        return b"repository that is no directory"
    known = requirements.ORDINARY | requirements.ELSEWHERE
    unknown = repo.requirements - known | _NEEDED - repo.requirements
    if unknown:
        return b"requirement %s" % b", ".join(sorted(unknown))
    if any(flag & ~_FLAGS_OF_MERCURIAL for flag in flagutil.flagprocessors):
        return b"flags of another extension"
    if repo.currenttransaction() is not None:
        return b"transaction"
    return b""


def _reason_of_display(repo: RepoT) -> bytes:
    ui = repo.ui
    if ui.verbose and not ui.debugflag:
        return b"sizes are shown"
    if ui.configbool(b"debug", b"bundling-stats") or ui.config(
        b"devel", b"bundle.delta"
    ):
        return b"debugging"
    return b""


def _reason_of_size(repo: RepoT, changesets: int) -> bytes:
    if changesets * _REVS_A_CHANGESET < len(repo.unfiltered().changelog):
        return b"few changesets"
    return b""


def generate(
    orig: Callable[..., Iterator[bytes]],
    packer: Any,
    commonrevs: Any,
    clnodes: Sequence[bytes],
    fastpathlinkrev: bool,
    source: bytes,
    changelog: bool = True,
) -> Iterator[bytes]:
    """Write the changegroup in the core, or leave it to Mercurial."""
    repo = packer._repo
    begun = _begin(packer, commonrevs, clnodes, fastpathlinkrev, changelog)
    if isinstance(begun, bytes):
        text = b"changegroup of %d changesets is Mercurial's: %s\n"
        repo.ui.log(b"amalgam", text, len(clnodes), begun)
        yield from orig(packer, commonrevs, clnodes, fastpathlinkrev, source, changelog)
        return
    repo.ui.log(b"amalgam", b"changegroup of %d changesets is native\n", len(clnodes))
    try:
        yield from begun.chunks(repo.ui)
    finally:
        begun.close()
    if clnodes:
        repo.hook(b"outgoing", node=nodemod.hex(clnodes[0]), source=source)


def _begin(
    packer: Any,
    commonrevs: Any,
    clnodes: Sequence[bytes],
    fastpathlinkrev: bool,
    changelog: bool,
) -> NativeChangegroup | bytes:
    """Return the native changegroup, or the reason for none."""
    reason = fallback_reason(packer, len(clnodes), has_changelog=changelog)
    if reason:
        return reason
    common = (
        frozenset() if fastpathlinkrev else _heads(packer._repo, commonrevs, clnodes)
    )
    if common is None:
        return b"what the receiver has is not known"
    try:
        return NativeChangegroup(
            packer._repo,
            packer.version,
            clnodes,
            common - {nodemod.nullrev},
            trusts_links=fastpathlinkrev,
        )
    except (Moved, Unsupported) as exc:
        # some changesets are not in the file yet, or it is not of version 1
        return exc.message if isinstance(exc.message, bytes) else b"store"


def _heads(repo: RepoT, commonrevs: Any, clnodes: Sequence[bytes]) -> Set[int] | None:
    """Return changesets that, with their ancestors, are the common ones.

    ``None`` if that is not known: ``discovery.outgoing`` knows two ways to make them.
    """
    if not commonrevs:
        return frozenset()
    # revlog.findcommonmissing keeps the heads apart
    added = getattr(commonrevs, "addedvalues", None)
    if isinstance(added, set):
        return added
    # from missing roots: parents of the missing changesets, and their ancestors
    changelog = repo.unfiltered().changelog
    if type(commonrevs) is not type(changelog.ancestors([], inclusive=True)):
        return None
    missing = {changelog.rev(node) for node in clnodes}
    parents = {parent for rev in missing for parent in changelog.parentrevs(rev)}
    return parents - missing


def make(orig: Callable[..., Any], repo: RepoT, *args: Any, **kwargs: Any) -> Any:
    """Make a changegroup whose ``getchunks`` forwards the stream of its packer.

    Mercurial parses the stream, chunk by chunk, to find the end of the changegroup.
    That is for streams of a peer, which go on; this one ends with the changegroup.
    """
    unpacker = orig(repo, *args, **kwargs)
    kind: Any = type(unpacker)
    is_replaced = kind.getchunks is not changegroup.cg1unpacker.getchunks
    if wants_native_bundles(repo.ui) and not is_replaced:
        unpacker.__class__ = _forwarding(kind)
    return unpacker


@functools.cache
def _forwarding(kind: Any) -> Any:
    """Return a subclass of an unpacker that reads its stream to the end."""

    def getchunks(unpacker: Any) -> Iterator[bytes]:
        return iter(functools.partial(unpacker.read, _FORWARDED_BYTES), b"")

    return type(kind.__name__, (kind,), {"getchunks": getchunks})
