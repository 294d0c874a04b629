"""Pulls that look at few refs, against those that look at all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib.environment import git
from testlib.gitclone import Clone

from hgext3rd.amalgam.gitpeer import scope
from hgext3rd.amalgam.gitstore.fetchedrefs import FetchedRef, RefLines, formatted
from hgext3rd.amalgam.remote import storerefs

_NAMES = [f"{folder}{number}" for folder in ("", "a/", "a/b/") for number in range(20)]
_ROUNDS = 6
_FIRST_TO_FOLLOW = 4
#: Every listing is kept, and each comparison of all refs is told.
_FEW = """
from hgext3rd.amalgam.gitpeer import bookmarks, fetched, scope
bookmarks.MOST = {most}
fetched._SHORT_BYTES = {short}
whole = scope.Scope.whole.__func__
def told(cls, source, *args):
    source.ui.warn(b'compared all\\n')
    return whole(cls, source, *args)
scope.Scope.whole = classmethod(told)
"""


@pytest.mark.parametrize("piece_bytes", [1, 50, 1 << 13])
def test_difference_of_listings_is_that_of_their_lines(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(storerefs, "_PIECE_BYTES", piece_bytes)
    draw = random.Random(piece_bytes)

    def listing(refs: dict[str, int]) -> bytes:
        lines = [f"{oid:040x}\trefs/heads/{name}\n" for name, oid in refs.items()]
        head = [f"{draw.randrange(2):040x}\tHEAD\n"] * draw.randrange(2)
        return "".join([*head, *sorted(lines)]).encode()

    for _case in range(300):
        refs = {name: draw.randrange(9) for name in draw.sample(_NAMES, 9)}
        now = dict(refs)
        for name in draw.sample(_NAMES, draw.randrange(3)):
            now[name] = draw.randrange(9)
        for name in draw.sample([*now], draw.randrange(3)):
            del now[name]
        old, new = listing(refs), listing(now)
        parts = scope._differing(old, new)
        lines = [{*it.replace(b"\t", b" ").splitlines()} for it in (old, new)]
        assert parts[0] - parts[1] == lines[0] - lines[1]
        assert parts[1] - parts[0] == lines[1] - lines[0]


def test_lines_are_found_and_replaced_without_the_others() -> None:
    draw = random.Random(1)

    def ref() -> FetchedRef:
        oid = b"%040x" % draw.randrange(1 << 160)
        return FetchedRef(oid, oid, draw.choice([b"", oid]))

    for _case in range(300):
        count = draw.choice([0, 1, 30])
        refs = {f"refs/x/{it}".encode(): ref() for it in draw.sample(_NAMES, count)}
        content = formatted(refs)
        lines = RefLines(content[content.index(b"\n") + 1 :])
        asked = [f"refs/x/{it}".encode() for it in draw.sample(_NAMES, 5)]
        assert lines.find(asked) == {it: refs[it] for it in asked if it in refs}
        below = [it for it in sorted(refs) if it.startswith(b"refs/x/a/")]
        assert lines.below(b"refs/x/a/") == below
        nodes = {refs[it].node for it in below} - {b""}
        assert lines.nodes(b"refs/x/a/") == nodes
        named = [it for it in sorted(refs) if refs[it].node in nodes]
        assert lines.with_nodes(nodes) == named
        new = {it: ref() for it in asked[:3]}
        left = {it: found for it, found in refs.items() if it not in asked}
        assert lines.replaced(asked, new) == formatted(left | new)


class _Remote:
    """A bare repository that changes; public methods are one change."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.root, self._draw, self._count = root, draw, 0
        git(root.parent, "init", "-q", "--bare", "-b", "main", root.name)
        self._tree = self._git("hash-object", "-t", "tree", "-w", "/dev/null")
        first = self._git("commit-tree", self._tree, "-m", "first")
        self._git("update-ref", "refs/heads/main", first)
        for _number in range(5):
            self.new_branch()
            self.tag()

    def _git(self, *args: str) -> str:
        return git(self.root, *args).decode().strip()

    def _refs(self, space: str) -> list[str]:
        return self._git("for-each-ref", "--format=%(refname)", space).split()

    def _any(self, space: str = "refs/heads") -> str:
        return self._draw.choice(self._refs(space) or ["refs/heads/main"])

    def _name(self) -> str:
        self._count += 1
        return f"{self._draw.choice(['', 'x/', 'y/'])}{self._count}"

    def commit(self) -> None:
        branch = self._any()
        oid = self._git("commit-tree", self._tree, "-p", branch, "-m", self._name())
        self._git("update-ref", branch, oid)

    def new_branch(self) -> None:
        oid = self._git("rev-parse", self._any())
        self._git("update-ref", f"refs/heads/{self._name()}", oid)

    def rewrite(self) -> None:
        self._git("update-ref", self._any(), self._git("rev-parse", self._any()))

    def delete(self) -> None:
        others = [it for it in self._refs("refs/heads") if it != "refs/heads/main"]
        if others:
            self._git("update-ref", "-d", self._draw.choice(others))

    def tag(self) -> None:
        message = self._draw.choice(([], ["-m", "annotated"]))
        self._git("tag", *message, f"v{self._name()}", self._any())

    def tag_again(self) -> None:
        """Make another tag object for the same commit."""
        tag = self._any("refs/tags")
        if tag.startswith("refs/tags/"):
            name, oid = tag.removeprefix("refs/tags/"), f"{tag}^{{commit}}"
            self._git("tag", "-f", "-m", self._name(), name, oid)

    def delete_tag(self) -> None:
        if (tag := self._any("refs/tags")).startswith("refs/tags/"):
            self._git("update-ref", "-d", tag)

    def note(self) -> None:
        self._git("notes", "add", "-f", "-m", self._name(), self._any())

    def head(self) -> None:
        self._git("symbolic-ref", "HEAD", self._any())


_REMOTE = [it for it in vars(_Remote) if not it.startswith("_")]


def _state(clone: Clone) -> tuple[bytes, str]:
    fetched = clone.root / ".hg" / "amalgam" / "fetched"
    (refs,) = fetched.glob("*-default.refs")
    form = "{node} {phase} {bookmarks}\n"
    return refs.read_bytes(), clone.hg("log", "--hidden", "-r", "all()", "-T", form)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_few_refs_lead_where_all_lead(tmp_path: Path, seed: int) -> None:
    """Whatever has changed there or here; bookmarks are all, few or chosen."""
    draw = random.Random(seed)
    remote = _Remote(tmp_path / "remote.git", draw)
    most, clones = draw.choice([2, 100]), dict[str, Clone]()
    options: dict[str, tuple[str, ...]] = {}
    for name, short in (("few", 0), ("all", 1 << 30)):
        file = tmp_path / f"{name}.py"
        file.write_text(_FEW.format(most=most, short=short))
        given = [f"extensions.few={file}", "extensions.strip="]
        if seed % 2:
            given += ["paths.default:amalgam.bookmarks=x/* [1-5]"]
        if seed >= _FIRST_TO_FOLLOW:
            given += [f"amalgam.follow.default={remote.root}"]
        options[name] = tuple(it for item in given for it in ("--config", item))
        clones[name] = clone = Clone(tmp_path / name)
        clone.hg("clone", "-q", str(remote.root), str(clone.root), *options[name])

    def in_both(*args: str) -> None:
        codes = {it.run(*args, *options[name])[0] for name, it in clones.items()}
        assert len(codes) == 1

    def tip() -> str:
        nodes = clones["all"].hg("log", "-r", "all()", "-T", "{node}\n").split()
        return draw.choice(nodes or ["null"])

    def strip() -> None:
        in_both("strip", "-q", "--no-backup", tip())
        for clone in clones.values():
            # Mercurial may believe them when other changesets get the same numbers
            for file in (clone.root / ".hg/cache").glob("branch2*"):
                file.unlink()

    def branch() -> str:
        names = git(remote.root, "for-each-ref", "--format=%(refname:short)")
        return draw.choice(names.decode().split())

    local: list[Callable[[], None]] = [
        strip,
        lambda: in_both("phase", "-f", "--secret", tip()),
        lambda: in_both("phase", "-f", "--draft", tip()),
        lambda: in_both("bookmark", "-d", draw.choice("12345")),
        lambda: in_both("bookmark", "-f", "-r", tip(), draw.choice("12345")),
        lambda: in_both("pull", "-r", branch()),
    ]
    for _number in range(_ROUNDS):
        for name in draw.choices(_REMOTE, k=draw.randrange(4)):
            getattr(remote, name)()
        for step in draw.choices(local, k=draw.randrange(3)):
            step()
        command = ("git::follow",) if seed >= _FIRST_TO_FOLLOW else ("pull",)
        said = {name: it.hg(*command, *options[name]) for name, it in clones.items()}
        assert "compared all" in said["all"] or _is_of_nothing(said["all"])
        assert "compared all" not in said["few"]
        few, whole = (_state(clones[name]) for name in ("few", "all"))
        assert few == whole, said
        # a pull after a pull has nothing to do, so one that is told so does nothing
        said = {name: it.hg(*command, *options[name]) for name, it in clones.items()}
        assert all(map(_is_of_nothing, said.values())), said
        assert [_state(clones[name]) for name in ("few", "all")] == [few, whole]


def _is_of_nothing(said: str) -> bool:
    return "no changes found" in said or "no new changesets" in said
