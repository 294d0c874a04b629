"""Large manifests, of which not each is compared with its node by itself.

One of 300 KB is hashed for every five, so a wrong one in between is found by what is
made from it, or by what its lines say.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testlib import revlogs
from testlib.environment import git
from testlib.exported import Exported
from testlib.hgserver import HgServer

pytestmark = pytest.mark.slow

COUNT = 100  # more than are hashed all
CONSTANT = 2000
BAD = 32  # this one, and those next to it, are not hashed
WORDS = b"with/a/long/path/so/that/the/manifest/is/long/enough/to/be/one/of/the/large"

Files = dict[bytes, tuple[bytes, bytes]]
"""Node and flag of each path."""
Chunk = tuple[int, bytes]
"""A revision and the delta against it, or the revision itself and a full text."""


def text_of(files: Files) -> bytes:
    return b"".join(line(path, *files[path]) for path in sorted(files))


def line(path: bytes, node: bytes, flag: bytes = b"") -> bytes:
    return b"%s\0%s%s\n" % (path, node.hex().encode(), flag)


def delta_between(before: bytes, after: bytes) -> bytes:
    """Return the delta of what is between the lines that both begin and end with."""
    old, new = before.splitlines(True), after.splitlines(True)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    head = len(b"".join(old[:start]))
    tail = len(before) - len(b"".join(old[len(old) - end :]))
    return revlogs.delta((head, tail, b"".join(new[start : len(new) - end])))


@dataclasses.dataclass
class Large:
    """A repository whose files ``f`` and ``g`` have a revision for each changeset."""

    store: Exported
    files: list[Files]
    """Of each manifest."""
    f: list[bytes]
    g: list[bytes]

    @classmethod
    def make(cls, root: Path, server: HgServer) -> Large:
        server.hg(root.parent, "init", str(root))
        data = root / ".hg" / "store" / "data"
        revisions = {
            name: revlogs.write(
                data / f"{name.decode()}.i",
                [b"%s%d" % (name, rev) for rev in range(COUNT)],
            )
            for name in (b"f", b"g")
        }
        (same,) = revlogs.write(data / "a.i", [b"the same"])
        constant = {
            b"c/%04d/%s" % (number, WORDS): (same, b"") for number in range(CONSTANT)
        }
        manifests: list[Files] = []
        for rev in range(COUNT):
            changing = {name: (nodes[rev], b"") for name, nodes in revisions.items()}
            if rev < BAD:  # from then on it does not change
                x = changing[b"g"]
            changing[b"g"] = x
            manifests.append(
                {b"a": (same, b""), b"x": (same, b"x"), **constant, **changing}
            )
        return cls(Exported(root, server), manifests, revisions[b"f"], revisions[b"g"])

    @property
    def texts(self) -> list[bytes]:
        return [text_of(files) for files in self.files]

    def chunks(self) -> list[Chunk]:
        """Return each manifest as a delta against the one before."""
        texts = self.texts
        deltas = [
            (rev, delta_between(texts[rev], texts[rev + 1])) for rev in range(COUNT - 1)
        ]
        return [(0, b"u" + texts[0]), *deltas]

    def write(self, chunks: list[Chunk], lengths: dict[int, int] | None = None) -> None:
        """Store the manifests like this; their nodes are those of the right texts."""
        texts = self.texts
        nodes = revlogs.nodes_of(texts)
        all_lengths = {**dict(enumerate(map(len, texts))), **(lengths or {})}
        directory = self.store.root / ".hg" / "store"
        revlogs.write_chunks(
            directory / "00manifest.i", chunks, list(all_lengths.values()), nodes
        )
        changesets = [
            b"%s\nuser\n0 0\nf\n\nchange" % node.hex().encode() for node in nodes
        ]
        revlogs.write(directory / "00changelog.i", changesets)

    def exported(self) -> str:
        """Export anew, and return the commit of the last changeset."""
        self.store.hg("git::export", "--rebuild")
        return self.store.hg("log", "-r", "tip", "-T", "{gitnode}")

    def refused(self, *options: str) -> str:
        """Export anew, which has to fail, and return why."""
        done = self.store.run("git::export", "--rebuild", *options)
        assert done.code == 50, done
        said = re.match(rb"abort: (manifest: .*)\n", done.err)
        assert said, done.err
        return said[1].decode()


@pytest.fixture
def large(tmp_path: Path, server: HgServer) -> Large:
    return Large.make(tmp_path / "repo", server)


def test_storage_makes_no_difference(large: Large) -> None:
    texts = large.texts
    large.write([(rev, b"u" + text) for rev, text in enumerate(texts)])
    expected = large.exported()
    for rev in (0, BAD, COUNT - 1):
        named = git(
            large.store.git_dir, "ls-tree", "-r", "-z", f"{expected}~{COUNT - 1 - rev}"
        )
        paths = [entry.partition(b"\t")[2] for entry in named.split(b"\0")[:-1]]
        assert paths == sorted(large.files[rev])
    for changed in _storages(large):
        large.write(changed)
        assert large.exported() == expected


def _storages(large: Large) -> Iterator[list[Chunk]]:
    texts, chunks = large.texts, large.chunks()
    yield chunks
    # in the middle of lines
    shifted = list(chunks)
    for rev in range(20, 60, 3):
        at = next(
            at
            for at, (a, b) in enumerate(zip(texts[rev - 1], texts[rev], strict=True))
            if a != b
        )
        shifted[rev] = (
            rev - 1,
            revlogs.delta((at, len(texts[rev - 1]), texts[rev][at:])),
        )
    yield shifted
    # against what is out of reach, full texts, and all at once
    far = list(chunks)
    for rev in range(70, COUNT):
        far[rev] = (rev % 5, delta_between(texts[rev % 5], texts[rev]))
    far[40] = (40, b"u" + texts[40])
    far[50] = (49, revlogs.delta((0, len(texts[49]), texts[50])))
    yield far


def _replaced(large: Large, rev: int, old: bytes, new: bytes) -> list[Chunk]:
    """Return all chunks; that of ``rev`` has something else in its data."""
    chunks = large.chunks()
    base, delta = chunks[rev]
    assert delta.count(old) == 1
    chunks[rev] = (base, delta.replace(old, new))
    return chunks


def _digit(large: Large) -> list[Chunk]:
    node = large.f[BAD].hex().encode()
    return _replaced(
        large, BAD, node, node[:-1] + (b"1" if node[-1:] == b"0" else b"0")
    )


def _letter(large: Large) -> list[Chunk]:
    return _replaced(large, BAD, b"f\0", b"e\0")


def _letter_out_of_order(large: Large) -> list[Chunk]:
    return _replaced(large, BAD, b"f\0", b"z\0")


def _fewer_lines_replaced(large: Large) -> list[Chunk]:
    chunks = large.chunks()
    base, delta = chunks[BAD]
    start = int.from_bytes(delta[:4], "big")
    chunks[BAD] = (base, revlogs.delta((start, start, delta[12:])))
    return chunks


def _cut(large: Large) -> list[Chunk]:
    chunks = large.chunks()
    base, delta = chunks[BAD]
    chunks[BAD] = (base, delta[:-3])
    return chunks


NODE = "text does not match its node"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_digit, NODE),
        (_letter, NODE),
        (_letter_out_of_order, NODE),
        (_fewer_lines_replaced, NODE),
        (_cut, "its delta is cut"),
    ],
)
def test_wrong_manifest_in_a_chain_is_named(
    large: Large, damage: Callable[[Large], list[Chunk]], reason: str
) -> None:
    large.write(damage(large))
    said = large.refused()
    assert said.startswith(f"manifest: revision {BAD}: {reason}")


def test_length_that_alone_is_wrong_means_nothing(large: Large) -> None:
    large.write(large.chunks())
    expected = large.exported()
    large.write(large.chunks(), {BAD: 17, BAD + 1: -1})
    assert large.exported() == expected


def _for_a_while(large: Large, node: bytes, flag: bytes = b"") -> list[Chunk]:
    """Return all chunks; one manifest is wrong, and the next one makes up for it."""
    chunks = large.chunks()
    wrong = text_of({**large.files[BAD], b"f": (node, flag)})
    chunks[BAD] = (BAD - 1, delta_between(large.texts[BAD - 1], wrong))
    chunks[BAD + 1] = (BAD, delta_between(wrong, large.texts[BAD + 1]))
    return chunks


@pytest.mark.parametrize("flag", [b"x", b"l"])
def test_wrong_flag_is_noticed_though_it_is_soon_replaced(
    large: Large, flag: bytes
) -> None:
    large.write(_for_a_while(large, large.f[BAD], flag))
    assert large.refused().startswith(f"manifest: revision {BAD}: {NODE}")


@pytest.mark.parametrize("of_another_file", [False, True])
def test_missing_revision_is_noticed_though_it_is_soon_replaced(
    large: Large, of_another_file: bool
) -> None:
    large.write(_for_a_while(large, large.g[3] if of_another_file else bytes(20)))
    assert large.refused().startswith(f"manifest: revision {BAD}: {NODE}")


def test_filelog_that_lacks_a_revision_is_named(large: Large) -> None:
    large.write(large.chunks())
    texts = [b"f%d" % rev for rev in range(COUNT - 1)]
    revlogs.write(large.store.root / ".hg/store/data/f.i", texts)
    done = large.store.run("git::export", "--rebuild")
    assert done.code == 50
    missing = large.f[-1].hex().encode()
    assert done.err.startswith(b"abort: filelog f: there is no revision %s\n" % missing)


def test_older_revision_is_noticed_if_it_stays(large: Large) -> None:
    """Nothing is made from this one, so it is hashed; it is not the last."""
    chunks = large.chunks()
    wrong = text_of({**large.files[BAD], b"f": (large.f[3], b"")})
    chunks[BAD] = (BAD - 1, delta_between(large.texts[BAD - 1], wrong))
    after = delta_between(large.texts[BAD - 1], large.texts[BAD + 1])
    chunks[BAD + 1] = (BAD - 1, after)
    large.write(chunks)
    assert large.refused().startswith(f"manifest: revision {BAD}: {NODE}")


def test_each_manifest_is_compared_by_a_full_verification(large: Large) -> None:
    """An older revision of the same file, soon replaced: an export does not see it."""
    large.write(_for_a_while(large, large.f[3]))
    commit = large.exported()
    wrong = f"{commit}~{COUNT - 1 - BAD}:f"
    assert git(large.store.git_dir, "cat-file", "blob", wrong) == b"f3"
    done = large.store.run("git::verify", "--full")
    assert done.code == 50
    assert done.err.startswith(b"abort: manifest: revision %d: " % BAD)


def test_few_manifests_are_compared_each(large: Large) -> None:
    large.write(large.chunks())
    large.store.hg("git::export", "-r", str(COUNT - 65))
    chunks = large.chunks()
    late = COUNT - 30
    wrong = text_of({**large.files[late], b"f": (large.f[3], b"")})
    chunks[late] = (late - 1, delta_between(large.texts[late - 1], wrong))
    chunks[late + 1] = (late, delta_between(wrong, large.texts[late + 1]))
    large.write(chunks)
    done = large.store.run("git::export")
    assert done.code == 50
    assert done.err.startswith(
        b"abort: manifest: revision %d: %s" % (late, NODE.encode())
    )
