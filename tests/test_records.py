"""Records are what ``typing.NamedTuple`` and ``enum.Enum`` make of the same bodies."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import pytest

from hgext3rd.amalgam.records import Choice, Record


class Ours(Record):
    first: int
    second: bytes = b"two"
    third: tuple[int, ...] = ()

    @property
    def both(self) -> tuple[int, bytes]:
        return self.first, self.second


class Theirs(NamedTuple):
    first: int
    second: bytes = b"two"
    third: tuple[int, ...] = ()


MAKE: list[Any] = [
    lambda kind: kind(1),
    lambda kind: kind(1, b"2", (3,)),
    lambda kind: kind(first=1, third=(3,)),
    lambda kind: kind(1, third=(3,)),
    lambda kind: kind(third=(), first=1, second=b"x")._replace(second=b"y"),
]
REFUSE: list[Any] = [
    lambda kind: kind(),
    lambda kind: kind(second=b""),
    lambda kind: kind(1, b"2", (), 4),
    lambda kind: kind(1, first=1),
    lambda kind: kind(1, fourth=4),
]


@pytest.mark.parametrize("make", MAKE)
def test_made_as_a_named_tuple(make: Any) -> None:
    ours, theirs = make(Ours), make(Theirs)
    assert tuple(ours) == tuple(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours == make(Ours)
    assert hash(ours) == hash(theirs)
    for name in Theirs._fields:
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.both == (theirs.first, theirs.second)


@pytest.mark.parametrize("make", REFUSE)
def test_refused_as_by_a_named_tuple(make: Any) -> None:
    for kind in (Ours, Theirs):
        with pytest.raises(TypeError):
            make(kind)


def test_nothing_in_it_changes() -> None:
    made: Any = Ours(1)
    with pytest.raises(AttributeError):
        made.first = 2
    with pytest.raises(AttributeError):
        made.fourth = 2


class OurChoice(Choice):
    """Not a member."""

    FIRST = 0
    SECOND = "two"

    @property
    def shown(self) -> str:
        return f"{self.name} {self.value}"


class TheirChoice(enum.Enum):
    FIRST = 0
    SECOND = "two"


def test_members_as_those_of_an_enumeration() -> None:
    ours, theirs = list(OurChoice), list(TheirChoice)
    assert [(m.name, m.value) for m in ours] == [(m.name, m.value) for m in theirs]
    assert OurChoice.SECOND is ours[1]
    assert ours[0] != ours[1]
    assert OurChoice.SECOND.shown == "SECOND two"
    assert repr(ours) == "[OurChoice.FIRST, OurChoice.SECOND]"
    assert len({*OurChoice, *OurChoice}) == 2
