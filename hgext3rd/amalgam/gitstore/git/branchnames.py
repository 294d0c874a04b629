"""Single branches for git users, each in a few lookups.

``NamedNodes.branches`` computes all names by the rules of ``refs.distinct``. The name
of one branch depends on few others: on names of its directories, and on those that
``escaped`` makes equal to it. These are looked up.

For some names, that is not enough: those that begin with ``%``, contain ``%2F`` or many
other ``%``, and those that had to make way for another name. Then all are computed.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import re
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from mercurial import encoding

from .refs import NamedNodes, RefNames, escaped, is_too_long

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    Key: TypeAlias = tuple[str, bytes]
    """``("bookmark", name)`` or ``("tip", branch)``, in Mercurial's encoding."""

_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_MOST_ESCAPED = 3
_CLASHING = b"branches/"


class _UnclearError(Exception):
    """The name of a branch depends on more than a few others."""


class BranchNames:
    """The branches of one moment. Names of git have no prefix here."""

    def __init__(
        self,
        bookmarks: Mapping[bytes, bytes],
        tips: Mapping[bytes, bytes],
        is_served: Callable[[bytes], bool],
    ) -> None:
        """``is_served`` tells which nodes of ``bookmarks`` git users may see."""
        self._bookmarks = bookmarks
        self._tips = tips
        self._is_served = is_served

    def node(self, key: Key) -> bytes | None:
        """Return the node of a bookmark or tip; ``None`` if git users see none."""
        kind, name = key
        if kind == "tip":
            return self._tips.get(name)
        node = self._bookmarks.get(name)
        return node if node is not None and self._is_served(node) else None

    def key(self, shown: bytes) -> Key | None:
        """Return the bookmark or tip that a branch of git is."""
        try:
            key = self._owner(shown)
        except _UnclearError:
            return self._all.get(shown)
        return key if shown and not is_too_long(shown) else None

    def shown(self, key: Key) -> bytes:
        """Return the branch of git of a bookmark or tip; empty if it has none."""
        if self.node(key) is None:
            return b""
        try:
            name = self._clear_name(key)
        except _UnclearError:
            return self._shown.get(key, b"")
        return name if not is_too_long(name) else b""

    def clash(self, shown: bytes, without: Collection[bytes] = ()) -> bytes:
        """Return a branch that cannot exist beside ``shown``, or an empty name.

        ``without``: branches that count as deleted.
        """
        is_near = any(
            (it + b"/").startswith(shown + b"/") or shown.startswith(it + b"/")
            for it in without
        )
        if not is_near and _is_clear(shown):
            with contextlib.suppress(_UnclearError):
                above, keys = self._first(shown)
                if keys and not is_too_long(above):
                    return above
                found = map(escaped, self._below(shown))
                below = (it for it in found if it.startswith(shown + b"/"))
                return min((it for it in below if not is_too_long(it)), default=b"")
        return RefNames(it for it in self._all if it not in without).clash(shown)

    def served(self) -> Iterator[Key]:
        """Yield all bookmarks and tips that git users see, under any name."""
        for name, node in self._bookmarks.items():
            if self._is_served(node):
                yield "bookmark", name
        for branch in self._tips:
            yield "tip", branch

    def _owner(self, name: bytes) -> Key | None:
        """Return the bookmark or tip with the branch ``name``, of any length."""
        if not _is_clear(name):
            raise _UnclearError
        above, keys = self._first(name)
        return keys[0] if keys and above == name else None

    def _first(self, name: bytes) -> tuple[bytes, list[Key]]:
        """Return the first directory of a name, or the name, that has candidates."""
        for above in _with_directories(name):
            if keys := self._candidates(above):
                return above, keys
        return b"", []

    def _candidates(self, name: bytes) -> list[Key]:
        """Return the bookmarks and tips for which ``escaped`` returns ``name``.

        The first one gets it, unless a directory of it is a branch.
        """
        found: list[Key] = []
        # as in ``distinct``, an unchanged name comes before others
        for stored in sorted(_spellings(name), key=lambda it: (it != name, it)):
            keys = self._stored_as(stored)
            if keys and escaped(stored) == name:
                if len(keys) > 1 and not found and keys[0][0] == "tip":
                    raise _UnclearError
                found += keys
        return found

    def _stored_as(self, stored: bytes) -> list[Key]:
        """Return the bookmark and tips that have a name before git's rules apply."""
        name = _local(stored)
        if name is None:
            return []
        found: list[Key] = []
        if self.node(("bookmark", name)) is not None:
            found.append(("bookmark", name))
        elif name in self._tips:
            found.append(("tip", name))
        branch = _local(stored.removeprefix(_CLASHING))
        if stored.startswith(_CLASHING) and branch in self._tips:
            assert branch is not None
            if self.node(("bookmark", branch)) is not None:
                found.append(("tip", branch))
        return found

    def _stored(self, key: Key) -> bytes:
        kind, name = key
        stored: bytes = encoding.fromlocal(name)
        clashes = kind == "tip" and self.node(("bookmark", name)) is not None
        return _CLASHING + stored if clashes else stored

    def _clear_name(self, key: Key) -> bytes:
        name = escaped(self._stored(key))
        if self._owner(name) != key:
            raise _UnclearError
        return name

    def _below(self, name: bytes) -> Iterator[bytes]:
        """Yield names, as stored, that would be branches in the directory ``name``."""
        for spelling in _spellings(name):
            start = encoding.tolocal(spelling) + b"/"
            for at in range(bisect.bisect_left(self._sorted, start), len(self._sorted)):
                found = self._sorted[at]
                if not found.startswith(start):
                    break
                stored = encoding.fromlocal(found)
                if self._stored_as(stored):
                    yield stored

    def is_alone(self, key: Key, name: bytes) -> bool:
        """Return whether no other name depends on whether ``key`` has ``name``."""
        above = (self._candidates(it) for it in _with_directories(name))
        others = {it for keys in above for it in keys} - {key}
        return not others and next(self._below(name), None) is None

    @cached_property
    def _sorted(self) -> list[bytes]:
        """All names, as stored, in Mercurial's encoding; some have no branch."""
        tips = [_CLASHING + name for name in self._tips if name in self._bookmarks]
        return sorted([*self._bookmarks, *self._tips, *tips])  # nearly sorted

    @cached_property
    def _shown(self) -> Mapping[Key, bytes]:
        """All branches."""
        served = self._is_served
        marks = {name: it for name, it in self._bookmarks.items() if served(it)}
        named = NamedNodes(marks, {**self._tips}, {}, {}, b"", shows_tips=True)
        return named.branches()

    @cached_property
    def _all(self) -> dict[bytes, Key]:
        return {name: key for key, name in self._shown.items()}


def changes(
    before: BranchNames, after: BranchNames, keys: Iterable[Key]
) -> dict[bytes, tuple[bytes | None, bytes | None]]:
    """Return the branches that differ, each with its nodes before and after.

    ``keys``: all bookmarks and tips that have come, gone or moved. Takes a few lookups
    for each, unless other branches got another name by that.
    """
    found: dict[bytes, tuple[bytes | None, bytes | None]] = {}
    try:
        for key in keys:
            nodes = before.node(key), after.node(key)
            names = [
                state._clear_name(key) if node is not None else b""
                for state, node in zip((before, after), nodes, strict=True)
            ]
            if names[0] != names[1] and not all(
                state.is_alone(key, name)
                for state in (before, after)
                for name in filter(None, names)
            ):
                raise _UnclearError
            for name in filter(None, {*names}):
                old, new = (
                    node if name == its else None
                    for node, its in zip(nodes, names, strict=True)
                )
                if old != new and not is_too_long(name):
                    found[name] = old, new
    except _UnclearError:
        old_keys, new_keys = before._all, after._all
        found = {}
        for name in old_keys.keys() | new_keys.keys():
            was, now = old_keys.get(name), new_keys.get(name)
            pair = was and before.node(was), now and after.node(now)
            if pair[0] != pair[1]:
                found[name] = pair
    return found


def _is_clear(name: bytes) -> bool:
    """Return whether no name but those that ``escaped`` makes ``name`` can become it.

    Names that make way for others begin with ``%`` or have no slash.
    """
    return not (
        name.startswith(b"%") or b"%2F" in name or name.count(b"%") > _MOST_ESCAPED
    )


def _spellings(name: bytes) -> Iterator[bytes]:
    """Yield all that ``escaped`` may have made ``name`` from, and more."""
    pieces = _ESCAPED.split(name)
    choices = [
        (b"%" + piece, bytes([int(piece, 16)])) if at % 2 else (piece,)
        for at, piece in enumerate(pieces)
    ]
    return map(b"".join, itertools.product(*choices))


def _with_directories(name: bytes) -> Iterator[bytes]:
    """Yield the directories of a name, the shortest first, and then the name."""
    return itertools.accumulate(name.split(b"/"), lambda it, part: it + b"/" + part)


def _local(stored: bytes) -> bytes | None:
    """Return a name as Mercurial has it in memory; ``None`` if it can be none."""
    name: bytes = encoding.tolocal(stored)
    return name if encoding.fromlocal(name) == stored else None
