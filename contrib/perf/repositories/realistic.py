"""The history of a program that people of all kinds have worked on for years.

Owns the flow of work: a main branch, a stable branch with releases and tags, topics
that are opened, synchronised, merged, closed or left. What a changeset changes is
``chores``' business. Branch names are such that git takes them as they are. Names of
people have the forms that are found in old repositories: with and without an address,
without the space before it, in Latin-1. Offsets are whole minutes, as `hg fastexport`
demands.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from .chores import CHANGELOG, TAGS, Changes, Chores
from .histories import NULL, Changeset, FileChange, Header, History
from .profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .texts import Writer

_STABLE = b"stable"
_START = 1_104_570_000  # 1 January 2005, 09:00 UTC
_DAY_SECONDS = 86_400


class Person(NamedTuple):
    """A user name as hg stores it, and the person's winter offset, seconds west."""

    user: bytes
    utc_offset: int
    summer_time: bool = False


_PEOPLE = (
    Person(b"Alice Example <alice@example.org>", -3600, True),
    Person("Zoë Müller <zoe@example.de>".encode(), -3600, True),
    Person(b"Ren\xe9 Dupont <rene@example.fr>", -3600, True),
    Person(b"bob", 18_000, True),
    Person(b"carol@example.net", 28_800, True),
    Person(b"Dave Doe<dave@example.com>", 0),
    Person(b"Priya N. <priya@example.in>", -19_800),
    Person("李雷 <li.lei@example.cn>".encode(), -28_800),
    Person(b"Ivan Petrov <ivan@example.ru>", -10_800),
    Person(b"Frank (frank@example.org)", 12_600),
    Person(b"Tui Ngata <tui@example.nz>", -45_900),
    Person(b"build robot <robot@example.org>", 0),
)


def any_person(writer: Writer) -> Person:
    """One of the people; the first ones commit most."""
    return _PEOPLE[int(writer.random.random() ** 2 * len(_PEOPLE))]


class Clock:
    """The time of the project: half a day passes from a changeset to the next."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._now = _START

    def tick(self, person: Person) -> tuple[int, int]:
        """Seconds since the epoch and the offset at which ``person`` commits next.

        Two in a hundred have a clock, or a rebase, that puts them days back.
        """
        self._now += 60 + self._writer.below(_DAY_SECONDS)
        late = self._writer.below(5 * _DAY_SECONDS) if self._writer.chance(2) else 0
        moment = self._now - late
        is_summer = 85 < moment // _DAY_SECONDS % 365 < 300
        offset = person.utc_offset - 3600 * (person.summer_time and is_summer)
        return moment, offset

    def date(self) -> bytes:
        """Today in the form of a ChangeLog."""
        return time.strftime("%Y-%m-%d", time.gmtime(self._now)).encode()


@dataclass(frozen=True)
class Realistic(Profile):
    """A believable project: people, merges, branches, renames, tags, binaries."""

    repeats: ClassVar[bool] = True

    changesets: int = 5_000
    files: int = 60

    def build(self, history: History) -> None:
        """Write the first years of the project."""
        project = _Project(history, self.writer())
        for _changeset in islice(project.work(self.files), self.changesets):
            pass
        project.set_bookmarks()


@dataclass
class _Line:
    """A line of development, and its nearest common ancestor with the main one."""

    tip: Changeset
    base: Changeset
    left: int = 0  # changesets until it is finished


class _Project:
    """The state of the project. Its generators yield once a changeset is written."""

    def __init__(self, history: History, writer: Writer) -> None:
        self._history = history
        self._writer = writer
        self._chores = Chores(writer)
        self._clock = Clock(writer)
        self._main = NULL
        self._stable: _Line | None = None
        self._topics: list[_Line] = []
        self._fix: tuple[Changeset, Changeset] | None = None  # before and after it
        self._releases: list[Changeset] = []

    def work(self, files: int) -> Iterator[None]:
        """Write changesets without end."""
        changes = self._chores.start(files)
        self._main = self._commit(NULL, changes, b"first version")
        yield
        events: list[tuple[int, Callable[[], Iterator[None]]]] = [
            (4, self._open_topic),
            (5, self._finish_topic),
            (7, self._synchronise_topic),
            (9, self._graft_fix),
            (11, self._fix_stable),
            (12, self._release),
            (45, self._work_on_topic),
            (100, self._work_on_main),
        ]
        while True:
            kind = self._writer.below(100)
            yield from next(event for limit, event in events if kind < limit)()

    def set_bookmarks(self) -> None:
        """Bookmark what people would: the main line, open topics, an old release."""
        marks = self._history.bookmarks
        marks[b"@"] = self._main.rev
        for number, topic in enumerate(self._topics):
            marks[b"feature/%s-%d" % (self._writer.noun(), number)] = topic.tip.rev
        if self._releases:
            marks[b"archive/first-release"] = self._releases[0].rev

    def _work_on_main(self) -> Iterator[None]:
        before = self._main
        self._main = self._commit_chore(before)
        yield
        self._fix = before, self._main

    def _open_topic(self) -> Iterator[None]:
        """Start a named branch, or just a second head; at most six are open."""
        if len(self._topics) >= 6:
            return
        branch = None
        if self._writer.chance(50):
            branch = b"%s-%d" % (self._writer.noun(), len(self._history))
        tip = self._commit_chore(self._main, branch)
        self._topics.append(_Line(tip, self._main, 2 + self._writer.below(15)))
        yield

    def _work_on_topic(self) -> Iterator[None]:
        if not self._topics:
            yield from self._open_topic()
            return
        topic = self._writer.pick(self._topics)
        topic.tip = self._commit_chore(topic.tip)
        yield
        topic.left -= 1
        if topic.left < 0:
            yield from self._end(topic)

    def _finish_topic(self) -> Iterator[None]:
        if self._topics:
            yield from self._end(self._writer.pick(self._topics))

    def _end(self, topic: _Line) -> Iterator[None]:
        """Merge a topic and close its branch, in any order; abandon one in ten."""
        self._topics.remove(topic)
        named = topic.tip.branch != b"default"
        is_merged = not self._writer.chance(10)
        closes_first = named and (not is_merged or self._writer.chance(50))
        if closes_first:
            yield from self._close(topic)
        if is_merged:
            yield from self._merge_into_main(topic)
            if named and not closes_first:
                yield from self._close(topic)

    def _close(self, topic: _Line) -> Iterator[None]:
        summary = b"close branch " + topic.tip.branch
        topic.tip = self._commit(topic.tip, {}, summary, extra={b"close": b"1"})
        yield

    def _synchronise_topic(self) -> Iterator[None]:
        """Merge the main line into a topic."""
        topic = self._writer.pick(self._topics) if self._topics else None
        if topic and topic.base is not self._main:
            topic.tip = self._merge(topic.tip, self._main, topic.base)
            topic.base = self._main
            yield

    def _merge_into_main(self, line: _Line) -> Iterator[None]:
        if line.base is self._main:  # as after `hg merge`: never an ancestor
            yield from self._work_on_main()
        self._main = self._merge(self._main, line.tip, line.base)
        line.base = line.tip
        yield

    def _fix_stable(self) -> Iterator[None]:
        if self._stable:
            changes = self._chores.edit(self._stable.tip)
            self._stable.tip = self._commit(self._stable.tip, changes)
            yield

    def _graft_fix(self) -> Iterator[None]:
        """Repeat the last change of the main line on stable, where its files allow.

        A file that is still the same there gets the very file revision of the fix.
        """
        if not self._stable or not self._fix:
            return
        before, fix = self._fix
        tip = self._stable.tip
        changes: Changes = {}
        for name in fix.touched:
            old, new = before.files.get(name), fix.files.get(name)
            is_plain = old and new and new.raw == new.content
            if is_plain and new and tip.files.get(name) == old:
                changes[name] = FileChange(new.content, new.flag)
        if changes:
            source = self._history.node(fix).hex().encode()
            extra = {b"source": source}
            summary = b"graft: %s" % self._writer.clause()
            self._stable.tip = self._commit(tip, changes, summary, extra=extra)
            self._fix = None
            yield

    def _release(self) -> Iterator[None]:
        """Bring stable up to date, tag it, merge the tag back."""
        if self._stable is None:
            tip = self._commit(self._main, {}, b"open the stable branch", _STABLE)
            self._stable = _Line(tip, self._main)
            yield
        line = self._stable
        if line.base is not self._main:
            line.tip = self._merge(line.tip, self._main, line.base)
            line.base = self._main
            yield
        tag = b"%d.%d" % (1 + len(self._releases) // 10, len(self._releases) % 10)
        target = line.tip
        yield from self._tag(line, tag, target)
        if self._writer.chance(30):  # one more fix, and the tag has to move
            moved_from = target
            yield from self._fix_stable()
            target = line.tip
            yield from self._tag(line, tag, target, moved_from)
        self._releases.append(target)
        yield from self._merge_into_main(line)

    def _tag(
        self,
        line: _Line,
        tag: bytes,
        target: Changeset,
        moved_from: Changeset | None = None,
    ) -> Iterator[None]:
        """Write what `hg tag` writes."""
        old = line.tip.files.get(TAGS)
        text = old.content if old else b""
        for changeset in (moved_from, target):
            if changeset:
                node_hex = self._history.node(changeset).hex().encode()
                text += b"%s %s\n" % (node_hex, tag)
        short_hex = self._history.node(target).hex()[:12].encode()
        summary = b"Added tag %s for changeset %s" % (tag, short_hex)
        line.tip = self._commit(line.tip, {TAGS: FileChange(text)}, summary)
        yield

    def _commit_chore(
        self, parent: Changeset, branch: bytes | None = None
    ) -> Changeset:
        return self._commit(
            parent, self._chores.any_change(parent), branch=branch, logs=True
        )

    def _commit(
        self,
        parent: Changeset,
        changes: Changes,
        summary: bytes | None = None,
        branch: bytes | None = None,
        *,
        extra: Mapping[bytes, bytes] | None = None,
        logs: bool = False,
    ) -> Changeset:
        if summary is None:
            area = next(iter(changes)).rpartition(b"/")[2].partition(b".")[0]
            summary = self._writer.description(area or b"build")
        header = self._header(summary, branch, extra)
        if logs and self._writer.chance(15):
            title = b"%s  %s" % (self._clock.date(), header.user)
            changes[CHANGELOG] = self._chores.log(parent, title, changes)
        return self._history.commit(parent, changes, header)

    def _merge(self, ours: Changeset, theirs: Changeset, base: Changeset) -> Changeset:
        name = theirs.branch if theirs.branch != ours.branch else b"heads"
        return self._history.merge(ours, theirs, base, self._header(b"merge " + name))

    def _header(
        self,
        summary: bytes,
        branch: bytes | None = None,
        extra: Mapping[bytes, bytes] | None = None,
    ) -> Header:
        person = any_person(self._writer)
        moment, offset = self._clock.tick(person)
        return Header(person.user, moment, offset, summary, branch, extra or {})
