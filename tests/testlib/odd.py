"""Histories of everything a real store may contain, drawn from a seed.

Owns how the oddities of ``oddities`` meet, and the shapes of history that converters
get wrong. How a step becomes a changeset is ``oddstore``'s. The same seed gives the
same steps with each Python and Mercurial.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from . import oddities
from .oddstore import NULL, Edit, Step

_Item = TypeVar("_Item")

#: How many steps a history has by default.
STEPS = 40


class _Drawer:
    """Random choices that are the same in every version of Python."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def below(self, count: int) -> int:
        """A number from 0 to ``count`` - 1."""
        return int(self._random() * count)

    def pick(self, items: Sequence[_Item]) -> _Item:
        """One of ``items``."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[_Item], most: int) -> list[_Item]:
        """Up to ``most`` of ``items``, each at most once."""
        rest = list(items)
        count = self.below(min(most, len(rest)) + 1)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]

    def chance(self, percent: int) -> bool:
        """True so many times in a hundred."""
        return self._random() * 100 < percent


def steps(seed: int, count: int = STEPS) -> list[Step]:
    """The history of ``seed``, with at least ``count`` steps."""
    return _History(seed).draw(count)


class _History:
    """A sequence of steps in the making."""

    def __init__(self, seed: int) -> None:
        self._draw = _Drawer(seed)
        self._steps: list[Step] = []
        # few names of many meet each other more often
        draw = self._draw
        names = oddities.NAMES
        self._branches = oddities.BRANCHES
        if draw.chance(15):
            names += oddities.REFUSED_NAMES
        if draw.chance(10):
            names += oddities.DOUBLED_NAMES * 3
        if draw.chance(15):
            self._branches += oddities.REFUSED_BRANCHES
        self._names = [draw.pick(names) for _ in range(4 + draw.below(16))]
        self._plain = draw.chance(30)  # headers that are all the same collide more

    def draw(self, count: int) -> list[Step]:
        shapes: list[tuple[int, Callable[[], None]]] = [
            (40, self._change),
            (14, self._merge),
            (10, self._twins),
            (6, self._same_tree),
            (6, self._criss_cross),
            (5, self._header_only),
            (4, self._root),
            (4, self._only_second_parent),
            (4, self._empty_tree),
            (3, self._close),
            (1, self._many_files),
        ]
        bag = [shape for weight, shape in shapes for _ in range(weight)]
        self._draw.pick((self._root, self._null_root, self._change))()
        while len(self._steps) < count:
            self._draw.pick(bag)()
        if self._draw.chance(40):
            self._hide()
        return self._steps

    # shapes

    def _change(self) -> None:
        self._add(p1=self._parent(), edits=self._edits())

    def _merge(self) -> None:
        p1, p2 = self._parent(), self._parent()
        taken = tuple(
            Edit("theirs", name) for name in self._names if self._draw.chance(40)
        )
        edits = self._edits() if self._draw.chance(40) else ()
        self._add(p1=p1, p2=p2, edits=taken + edits)

    def _twins(self) -> None:
        """Two to four changesets that want the same commit, and perhaps a merge."""
        draw = self._draw
        self._add(p1=self._parent(), edits=self._edits())
        first = self._steps[-1]
        for _ in range(1 + draw.below(3)):
            twin = dataclasses.replace(
                first,
                key=len(self._steps),
                extra=self._extra(committer=False),
                listing=draw.pick(("sorted", "reversed", "twice", "more")),
            )
            self._steps.append(twin)
        if draw.chance(70):
            last = len(self._steps) - 1
            p1, p2 = draw.pick(((last, last - 1), (last - 1, last), (last, first.key)))
            self._add(p1=p1, p2=p2)
            if draw.chance(50):
                self._steps.append(
                    dataclasses.replace(
                        self._steps[-1],
                        key=len(self._steps),
                        extra=self._extra(committer=False),
                    )
                )

    def _same_tree(self) -> None:
        """A merge of two changesets with one manifest, then perhaps a change."""
        parent = self._parent()
        self._add(p1=parent)
        self._add(p1=parent)
        last = len(self._steps) - 1
        edits = self._edits() if self._draw.chance(50) else ()
        self._add(p1=last, p2=last - 1, edits=edits, new_manifest=self._draw.chance(50))

    def _criss_cross(self) -> None:
        """Two merges of the same two, either way round."""
        ours, theirs = self._parent(), self._parent()
        edits = self._edits()
        self._add(p1=ours, p2=theirs, edits=edits, new_manifest=True)
        self._add(p1=theirs, p2=ours, edits=edits, new_manifest=True)
        last = len(self._steps) - 1
        self._add(p1=last, p2=last - 1, edits=(Edit("theirs", edits[0].path),))

    def _header_only(self) -> None:
        self._add(p1=self._parent())

    def _root(self) -> None:
        self._add(edits=self._edits())

    def _null_root(self) -> None:
        self._add(null_manifest=True)

    def _only_second_parent(self) -> None:
        self._add(p2=self._parent(), edits=self._edits())

    def _empty_tree(self) -> None:
        null_manifest = self._draw.chance(50)
        self._add(
            p1=self._parent(), edits=(Edit("clear"),), null_manifest=null_manifest
        )

    def _close(self) -> None:
        self._add(p1=self._parent(), more=(b"close:1",))

    def _many_files(self) -> None:
        """Three hundred files and more, then some of them changed."""
        names = [b"many/%s/%03d" % (b"abc"[n % 3 : n % 3 + 1], n) for n in range(320)]
        writes = [Edit("write", name, b"%d\n" % at) for at, name in enumerate(names)]
        self._add(p1=self._parent(), edits=tuple(writes))
        for _ in range(2):
            self._add(
                p1=len(self._steps) - 1,
                edits=tuple(
                    Edit("write", self._draw.pick(names), b"new\n") for _ in range(5)
                ),
            )

    def _hide(self) -> None:
        """Make some of the last steps draft, secret or obsolete."""
        first = len(self._steps) * 2 // 3
        for at in range(first, len(self._steps)):
            phase = 2 if self._draw.chance(15) else 1
            self._steps[at] = dataclasses.replace(
                self._steps[at], phase=phase, obsolete=self._draw.chance(20)
            )

    # parts

    def _add(
        self,
        *,
        p1: int = NULL,
        p2: int = NULL,
        edits: tuple[Edit, ...] = (),
        more: tuple[bytes, ...] = (),
        new_manifest: bool = False,
        null_manifest: bool = False,
    ) -> None:
        draw = self._draw
        step = Step(
            len(self._steps),
            p1,
            p2,
            edits=edits,
            extra=self._extra(more=more),
            new_manifest=new_manifest,
            null_manifest=null_manifest,
        )
        if not self._plain or draw.chance(20):
            step = dataclasses.replace(
                step,
                user=draw.pick(oddities.USERS),
                date=draw.pick(oddities.SECONDS) + b" " + draw.pick(oddities.OFFSETS),
                description=draw.pick(oddities.DESCRIPTIONS),
                listing=draw.pick(("sorted", "sorted", "reversed", "twice", "more")),
            )
        self._steps.append(step)

    def _parent(self) -> int:
        """A step to commit on: mostly one of the last."""
        if not self._steps:
            return NULL
        count = len(self._steps)
        near = self._draw.chance(80)
        return count - 1 - self._draw.below(min(count, 5) if near else count)

    def _extra(
        self, *, more: tuple[bytes, ...] = (), committer: bool = True
    ) -> bytes | None:
        draw = self._draw
        items = list(more)
        if draw.chance(60):
            items.append(b"branch:" + draw.pick(self._branches))
        if not self._plain or draw.chance(20):
            items += draw.some(oddities.EXTRAS, 3)
        if committer and draw.chance(20):
            items.append(b"committer:" + draw.pick(oddities.COMMITTERS))
            if draw.chance(10):  # the last one counts
                items.append(b"committer:" + draw.pick(oddities.COMMITTERS))
        if not items:
            return b"" if draw.chance(5) else None
        if draw.chance(70):
            items.sort()
        return b"\0".join(items)

    def _edits(self) -> tuple[Edit, ...]:
        return tuple(self._edit() for _ in range(1 + self._draw.below(4)))

    def _edit(self) -> Edit:
        draw = self._draw
        name, source = draw.pick(self._names), draw.pick(self._names)
        flag = draw.pick((b"", b"", b"", b"x", b"l"))
        kind = draw.below(100)
        if kind < 55:
            return Edit("write", name, self._content(), flag)
        if kind < 65:
            return Edit("mode", name, flag=flag)
        if kind < 75:
            return Edit("remove", name)
        content = self._content() if draw.chance(30) else b""
        return Edit("copy" if kind < 88 else "rename", name, content, source=source)

    def _content(self) -> bytes:
        draw = self._draw
        if draw.chance(60):
            return draw.pick(oddities.CONTENTS)
        # long texts that differ little are stored as deltas
        lines = [b"line %d\n" % number for number in range(200)]
        lines[draw.below(200)] = b"changed %d\n" % draw.below(1000)
        return b"".join(lines)
