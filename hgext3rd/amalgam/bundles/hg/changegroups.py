"""The native writer under Mercurial's changegroups.

``generate`` of Mercurial's packers yields what the native core writes, or what
Mercurial does where ``fallthrough`` has a reason. All that is around the stream is
Mercurial's: which changesets leave, parts, phases, obsolescence, compression, hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercurial import bundle2, changegroup, extensions, node as nodemod

from ...config import wants_native_bundles
from ...native.errors import Moved, Unsupported
from . import fallthrough
from .writer import NativeChangegroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set

    from mercurial.interfaces.types import RepoT, UiT

_FORWARDED_BYTES = 1 << 20
_FORWARDED_PIECES = 32


def install() -> None:
    """Wrap what Mercurial makes changegroups with."""
    extensions.wrapfunction(changegroup.cgpacker, "generate", _generate)
    extensions.wrapfunction(changegroup, "makechangegroup", _make)
    extensions.wrapfunction(bundle2.bundlepart, "_payloadchunks", _payload)
    extensions.wrapfunction(bundle2, "outdebug", _debug)


def _generate(
    orig: Callable[..., Iterator[bytes]],
    packer: Any,
    commonrevs: Any,
    clnodes: Sequence[bytes],
    fastpathlinkrev: bool,
    source: bytes,
    changelog: bool = True,
) -> Iterator[bytes]:
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
    """Return the native changegroup, or why there is none."""
    reason = fallthrough.reason(packer, len(clnodes), has_changelog=changelog)
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
    # from missing roots: what the missing ones have for parents, and its ancestors
    changelog = repo.unfiltered().changelog
    if type(commonrevs) is not type(changelog.ancestors([], inclusive=True)):
        return None
    missing = {changelog.rev(node) for node in clnodes}
    parents = {parent for rev in missing for parent in changelog.parentrevs(rev)}
    return parents - missing


class _Forwarded:
    """The unpacker of a changegroup that was just made: its chunks need no parsing.

    Mercurial's own parses to find the end. This stream ends with the changegroup.
    """

    if TYPE_CHECKING:
        _stream: Any

    def getchunks(self) -> Iterator[bytes]:
        """Yield all that is left."""
        return _Chunks(self._stream)


class _Chunks:
    """The bytes of a changegroup, in pieces of any length."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> _Chunks:
        return self

    def __next__(self) -> bytes:
        if chunk := self._stream.read(_FORWARDED_BYTES):
            return chunk
        raise StopIteration

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield all that is left in pieces of ``size``; the last one may be shorter."""
        while block := self._stream.read(_FORWARDED_PIECES * size):
            for start in range(0, len(block), size):
                yield block[start : start + size]


def _payload(orig: Callable[..., Iterator[bytes]], part: Any) -> Iterator[bytes]:
    """Return the payload of a part, cut as Mercurial cuts it."""
    if isinstance(part.data, _Chunks):
        return part.data.pieces(bundle2.preferedchunksize)
    return orig(part)


def _debug(orig: Callable[..., None], ui: UiT, message: bytes) -> None:
    """Look up for each piece whether to show it only if anything would be shown."""
    if ui.debugflag:
        orig(ui, message)


_forwarded: dict[type, Callable[..., Any]] = {}


def _make(orig: Callable[..., Any], repo: RepoT, *args: Any, **kwargs: Any) -> Any:
    unpacker = orig(repo, *args, **kwargs)
    kind = type(unpacker)
    if kind.__module__ != changegroup.__name__ or not wants_native_bundles(repo.ui):
        return unpacker
    if kind not in _forwarded:
        _forwarded[kind] = type(f"forwarded{kind.__name__}", (_Forwarded, kind), {})
    return _forwarded[kind](unpacker._stream, None, extras=unpacker.extras)
