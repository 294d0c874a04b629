"""The composed index answers as Mercurial's own does, whatever its map has and is."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from mercurial import error, policy, revlog
from mercurial.node import nullid

from hgext3rd.amalgam.files import Directory, Placement
from hgext3rd.amalgam.index import buffer, nodemapfile
from hgext3rd.amalgam.index.nodemap import MappedIndex, NodeSource
from hgext3rd.amalgam.index.snapshot import FileStat, Snapshot
from hgext3rd.amalgam.trust import Trust

parsers = policy.importmod("parsers")

ENTRY = struct.Struct(">Qiiiiii20s12x")
ENTRY_BYTES = 64
HEADER = (1 | 1 << 17) << 32
PLACEMENT = Placement(0o755, os.getuid(), os.getgid())

#: What the index is told: what is about to be touched, from byte to byte.
Told = tuple[int, int, int]
STRETCHES: Told = (buffer.STRETCHES, 0, 3000 * ENTRY_BYTES)


def all_of(first: int, end: int) -> Told:
    return buffer.EVERYTHING, first * ENTRY_BYTES, end * ENTRY_BYTES


#: Nodes that begin alike; never null.
NODES = st.lists(
    st.builds(
        lambda head, tail: bytes(head) + tail,
        st.lists(st.sampled_from([0, 0xFF, 0x10, 0xAB]), min_size=4, max_size=4),
        st.binary(min_size=16, max_size=16).filter(any),
    ),
    min_size=1,
    max_size=60,
    unique=True,
)
#: How many of them when the map is renewed.
STEPS = st.lists(st.integers(1, 60), min_size=1, max_size=4)


def empty(directory: Path) -> Snapshot:
    return Snapshot(
        Directory(os.fsencode(directory)),
        Trust(True, os.geteuid(), None),
        b"00changelog",
        b"0123456789abcdef",
        0,
        FileStat(0, 0, 0, 0, 0),
    )


def of(snapshot: Snapshot, revs: int) -> Snapshot:
    return snapshot._replace(length_bytes=revs * ENTRY_BYTES)


class FromSnapshot(NodeSource):
    """A source of maps that says what was asked of it."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(lambda: snapshot, None, None, b"", None, lambda _opener: None)
        self.opened = self.discarded = 0

    def open(self, data: Any) -> Any | None:
        self.opened += 1
        return super().open(data)

    def discard(self) -> None:
        self.discarded += 1
        super().discard()


def entry_of(rev: int, node: bytes) -> tuple[Any, ...]:
    return (0, 1, 1, rev, rev, rev - 1, -1, node, 0, 0, 2, 2, -1)


def data_of(nodes: Iterable[bytes]) -> bytes:
    return b"".join(
        ENTRY.pack(HEADER if rev == 0 else 0, 1, 1, rev, rev, rev - 1, -1, node)
        for rev, node in enumerate(nodes)
    )


def c_index(nodes: list[bytes]) -> Any:
    """Mercurial's index of ``nodes``, as its revlogs parse it."""
    count = revlog.parse_index_v1.__code__.co_argcount
    index, _cache = revlog.parse_index_v1(data_of(nodes), *[False] * (count - 1))
    assert type(index) is parsers.index
    return index


def renew(snapshot: Snapshot, nodes: list[bytes], **options: bool) -> bool:
    fitting = of(snapshot, len(nodes))
    return nodemapfile.renew(PLACEMENT, fitting, data_of(nodes), **options)


def answer(ask: Callable[..., Any], *args: Any) -> Any:
    """What it returns, or the class of what it raises."""
    try:
        return ask(*args)
    except (error.RevlogError, ValueError, TypeError) as exc:
        return type(exc)


def ask_all(index: Any, nodes: list[bytes]) -> list[Any]:
    """Every question about ``nodes`` and what is near them."""
    asked = [*nodes, nullid, b"\xff" * 20, b"\0" * 19 + b"\1", b"\x10" * 20, b"short"]
    asked += [node[:-1] + bytes([node[-1] ^ 1]) for node in nodes[:10]]
    answers: list[tuple[Any, ...]] = []
    for node in asked:
        for name in ("rev", "get_rev", "has_node", "shortest", "__contains__"):
            answers.append((name, node, answer(getattr(index, name), node)))
        digits = node.hex().encode()
        for length in (0, 1, 2, 3, 5, 8, 9, 16, 39, 40):
            prefix = digits[:length]
            answers.append((prefix, answer(index.partialmatch, prefix)))
    for odd in (b"xyz", b"12g4", b"F" * 3, b"f" * 41, b"0" * 39):
        answers.append((odd, answer(index.partialmatch, odd)))
    return answers


def same(mapped: Any, nodes: list[bytes], also: Iterable[bytes] = ()) -> None:
    asked = [*nodes, *also]
    assert len(mapped) == len(nodes)
    assert ask_all(mapped, asked) == ask_all(c_index(nodes), asked)
    assert list(mapped) == list(c_index(nodes))


@settings(max_examples=40, deadline=None)
@given(
    nodes=NODES,
    steps=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    data=st.data(),
)
def test_answers_are_those_of_the_c_index(
    tmp_path_factory: pytest.TempPathFactory,
    nodes: list[bytes],
    steps: list[int],
    data: st.DataObject,
) -> None:
    """Of one that never had other revisions: after a strip, C's prefixes stay long."""
    snapshot = empty(tmp_path_factory.mktemp("index"))
    for revs in sorted(min(step, len(nodes)) for step in steps):
        renew(snapshot, nodes[:revs])
    on_disk = data.draw(st.integers(0, len(nodes)), label="on disk")
    length = data.draw(st.integers(0, on_disk), label="in the snapshot")
    source = FromSnapshot(of(snapshot, length))
    index = compose(nodes[:on_disk], source)
    if data.draw(st.booleans(), label="opened early"):
        index.has_node(b"\xff" * 20)
    for rev in range(on_disk, len(nodes)):
        index.append(entry_of(rev, nodes[rev]))
    kept = data.draw(st.integers(0, len(nodes)), label="kept")
    if data.draw(st.booleans(), label="opened late"):
        same(index, nodes)
    del index[kept:-1]
    same(index, nodes[:kept], nodes[kept:])
    again = nodes[:kept] + nodes[kept:][::-1]
    for rev in range(kept, len(again)):
        index.append(entry_of(rev, again[rev]))
    same(index, again)
    assert source.opened == 1
    assert not source.discarded


def compose(
    nodes: list[bytes], source: NodeSource, told: list[Told] | None = None
) -> MappedIndex:
    told = [] if told is None else told

    def tell(*what: Any) -> None:
        told.append(what)

    return MappedIndex(c_index(nodes), data_of(nodes), source, tell)


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return empty(tmp_path)


def nodes_of(count: int) -> list[bytes]:
    return [
        struct.pack(">Q", rev * 0x9E3779B97F4A7C15 % 2**64) + b"n" * 12
        for rev in range(1, count + 1)
    ]


def composed(
    snapshot: Snapshot, nodes: list[bytes]
) -> tuple[MappedIndex, FromSnapshot]:
    source = FromSnapshot(of(snapshot, len(nodes)))
    return compose(nodes, source), source


def test_runs_are_merged_and_the_file_stays_small(snapshot: Snapshot) -> None:
    nodes = nodes_of(6000)
    for revs in range(50, len(nodes) + 1, 50):
        assert renew(snapshot, nodes[:revs])
        docket = nodemapfile.read(snapshot)
        assert docket is not None
        assert docket.revs == revs
        assert len(docket.runs) <= 5
        assert docket.end_bytes <= 3 * docket.used_bytes
    assert not renew(snapshot, nodes)
    names = snapshot.directory.names()
    assert len(names) == 2, names
    same(composed(snapshot, nodes)[0], nodes)


@pytest.mark.parametrize("what", ["docket", "data", "both"])
@pytest.mark.parametrize("how", ["cut", "flipped", "emptied", "removed"])
def test_damage_is_never_answered_from(snapshot: Snapshot, what: str, how: str) -> None:
    nodes = nodes_of(900)
    renew(snapshot, nodes)
    directory = Path(os.fsdecode(snapshot.directory.path))
    for path in directory.iterdir():
        if what != "both" and ("-" in path.name) != (what == "data"):
            continue
        content = path.read_bytes()
        if how == "removed":
            path.unlink()
        elif how == "flipped":
            flipped = bytearray(content)
            for at in range(0, len(flipped), 100):
                flipped[at] ^= 4
            path.write_bytes(flipped)
        else:
            path.write_bytes(content[: -1 if how == "cut" else 0])
    index, source = composed(snapshot, nodes)
    same(index, nodes)
    assert not source.discarded
    assert renew(snapshot, nodes)
    index, source = composed(snapshot, nodes)
    same(index, nodes)
    assert not source.discarded


def test_what_rotted_without_a_write_is_not_answered_from(snapshot: Snapshot) -> None:
    nodes = nodes_of(900)
    renew(snapshot, nodes)
    docket = nodemapfile.read(snapshot)
    assert docket is not None
    directory = Path(os.fsdecode(snapshot.directory.path))
    (data,) = directory.glob("*-*.nodemap")
    content = bytearray(data.read_bytes())
    for at in range(0, len(content), 100):
        content[at] ^= 4
    data.write_bytes(content)
    rotten = docket._replace(data=FileStat.of(data.stat()))
    (directory / "00changelog.nodemap").write_bytes(rotten.to_bytes())
    index, source = composed(snapshot, nodes)
    same(index, nodes)
    # whoever notices has it made anew
    assert source.discarded
    assert renew(snapshot, nodes)
    same(composed(snapshot, nodes)[0], nodes)


def test_a_map_of_another_snapshot_is_not_used(snapshot: Snapshot) -> None:
    nodes = nodes_of(100)
    renew(snapshot, nodes)
    other = snapshot._replace(uid=b"fedcba9876543210")
    assert nodemapfile.read(other) is None
    others = nodes[::-1]
    same(composed(other, others)[0], others)
    assert renew(other, others)
    same(composed(other, others)[0], others)


def test_a_shorter_snapshot_hides_what_was_behind_it(snapshot: Snapshot) -> None:
    nodes = nodes_of(700)
    renew(snapshot, nodes)
    kept, other = nodes[:300], nodes_of(900)[700:]
    source = FromSnapshot(of(snapshot, len(kept)))
    data = kept + other
    same(compose(data, source), data, nodes[300:])


def test_everything_else_is_the_c_index(snapshot: Snapshot) -> None:
    nodes = nodes_of(50)
    renew(snapshot, nodes)
    index, source = composed(snapshot, nodes)
    plain = c_index(nodes)
    assert index[3] == plain[3]
    assert index[-1] == plain[-1]
    with pytest.raises(IndexError):
        index[50]
    assert index.headrevs() == plain.headrevs()
    assert index.ancestors(3, 7) == plain.ancestors(3, 7)
    assert index.entry_size == plain.entry_size
    assert index.entry_binary(1) == plain.entry_binary(1)
    assert 3 in index
    assert 50 not in index
    for name in dir(plain):
        assert hasattr(index, name), name
    for name in ("update_nodemap_data", "head_node_ids", "is_rust"):
        assert hasattr(index, name) == hasattr(plain, name)
    assert not source.opened
    index.clearcaches()
    same(index, nodes)


def test_it_is_said_once_how_much_is_touched(snapshot: Snapshot) -> None:
    nodes = nodes_of(3000)
    renew(snapshot, nodes)
    source, told = FromSnapshot(of(snapshot, len(nodes))), list[Told]()
    index = compose(nodes, source, told)
    for rev in range(0, 3000, 3):
        assert index[rev][7] == nodes[rev]
        assert index.rev(nodes[rev]) == rev
    index.computephasesmapsets({1: set(), 2: {2500}})
    assert told == []
    for rev in range(100):
        assert index[rev][7] == nodes[rev]
    assert told == [STRETCHES]
    index.ancestors(3, 7)
    index.headrevs()
    index.headrevs()
    index.computephasesmapsets({1: {5}})
    assert told == [STRETCHES, all_of(0, 3000)]


@pytest.mark.parametrize(
    ("walk", "expected"),
    [
        (list, [STRETCHES]),
        (lambda index: index.ancestors(3, 7), [STRETCHES]),
        (lambda index: index.commonancestorsheads(3, 7), [STRETCHES]),
        (lambda index: index.ancestors(2000, 8), [STRETCHES, all_of(8, 2001)]),
        (lambda index: index.ancestors(), [STRETCHES]),
        (
            lambda index: index.findsnapshots({}, 1000, 2999),
            [STRETCHES, all_of(1000, 3000)],
        ),
        (lambda index: index.headrevs(), [all_of(0, 3000)]),
        (lambda index: index.headrevs(None, 2000), [all_of(0, 2000)]),
        (lambda index: index.headrevs(None, 1000), []),
        (lambda index: index.headrevsdiff(2998, 3000), [STRETCHES]),
        (lambda index: index.headrevsdiff(9, 3000), [STRETCHES, all_of(9, 3000)]),
        (lambda index: index.computephasesmapsets({1: {5}}), [all_of(5, 3000)]),
        (
            lambda index: index.reachableroots2(7, [2000, 2], [9], False),
            [all_of(7, 2001)],
        ),
        (lambda index: index.reachableroots2(0, [], [9], False), []),
        # there is no map
        (lambda index: index.get_rev(b"unknown".ljust(20)), [STRETCHES]),
    ],
)
def test_who_walks_is_expected_to(
    snapshot: Snapshot, walk: Callable[[Any], object], expected: list[Told]
) -> None:
    nodes = nodes_of(3000)
    told: list[Told] = []
    index = compose(nodes, FromSnapshot(snapshot), told)
    assert walk(index) == walk(c_index(nodes))
    assert told == expected
