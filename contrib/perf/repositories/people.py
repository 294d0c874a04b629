"""Who commits, and when.

The forms of the names are those found in old repositories: with and without an address,
without the space before it, in Latin-1. Offsets are whole minutes, as `hg fastexport`
demands.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .texts import Writer

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
