"""What git-cinnabar knows of a repository, read from a git repository that has it.

Owns the layout: a commit whose parents are five, each of which says one thing. Read in
full, so that a difference can be told by changeset and not only by the id of it all.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from testlib.environment import ENVIRONMENT, git

REF = "refs/cinnabar/metadata"
#: The parents, in order.
PARENTS = ("changesets", "manifests", "hg2git", "git2hg", "files-meta")
#: Those that are maps, and the mode of their entries.
_MODES = {"hg2git": "160000", "git2hg": "100644", "files-meta": "100644"}
#: Differences that are told of each map.
_TOLD = 3


@dataclass(frozen=True)
class Metadata:
    """The metadata of one repository."""

    commit: str
    parents: Mapping[str, str]
    """Name to commit."""
    texts: Mapping[str, bytes]
    """Name to the content of the parent."""
    maps: Mapping[str, Mapping[str, str]]
    """Name to the oids by their keys."""
    notes: Mapping[str, bytes]
    """Oid to the content of what the two maps of blobs lead to."""

    @property
    def entries(self) -> int:
        """How many entries all maps have."""
        return sum(map(len, self.maps.values()))


def read(git_dir: Path) -> Metadata | None:
    """Read the metadata, ``None`` if there is none."""
    if not git(git_dir, "for-each-ref", REF).strip():
        return None
    names = git(git_dir, "log", "-1", "--format=%H %P", REF).decode().split()
    commit, *parents = names
    named = dict(zip(PARENTS, parents[: len(PARENTS)], strict=True))
    maps = {name: _entries(git_dir, named[name], mode) for name, mode in _MODES.items()}
    blobs = {oid for name in ("git2hg", "files-meta") for oid in maps[name].values()}
    texts = dict(_contents(git_dir, [*named.values(), *sorted(blobs)]))
    return Metadata(
        commit=commit,
        parents=named,
        texts={name: texts[oid] for name, oid in named.items()},
        maps=maps,
        notes={oid: texts[oid] for oid in blobs},
    )


def differences(ours: Metadata | None, theirs: Metadata | None) -> Iterator[str]:
    """Say how ours differs from theirs; nothing if it does not."""
    if ours is None or theirs is None:
        if ours != theirs:
            yield "amalgam has none" if ours is None else "git-cinnabar has none"
        return
    for name in PARENTS:
        if ours.parents[name] == theirs.parents[name]:
            continue
        yield f"{name}: {ours.parents[name]}, git-cinnabar has {theirs.parents[name]}"
        if name in _MODES:
            yield from _map_differences(name, ours, theirs)
        else:
            yield f"  ours   {ours.texts[name]!r}"
            yield f"  theirs {theirs.texts[name]!r}"
    if ours.parents == theirs.parents and ours.commit != theirs.commit:
        yield f"the commit is {ours.commit}, git-cinnabar has {theirs.commit}"


def _map_differences(name: str, ours: Metadata, theirs: Metadata) -> Iterator[str]:
    ours_map, theirs_map = ours.maps[name], theirs.maps[name]
    different = sorted(
        key
        for key in ours_map.keys() | theirs_map.keys()
        if ours_map.get(key) != theirs_map.get(key)
    )
    if not different:
        yield "  all entries are equal, so the trees are not"
    for key in different[:_TOLD]:
        yield f"  {key}"
        for side, oid, notes in (
            ("ours  ", ours_map.get(key), ours.notes),
            ("theirs", theirs_map.get(key), theirs.notes),
        ):
            said = "" if oid is None else repr(notes.get(oid, b""))
            yield f"    {side} {oid} {said}"
    if len(different) > _TOLD:
        yield f"  and {len(different) - _TOLD} more"


def _entries(git_dir: Path, commit: str, mode: str) -> dict[str, str]:
    """Return the entries of a map; a wrong mode becomes a part of the key."""
    entries = {}
    for line in git(git_dir, "ls-tree", "-r", commit).decode().splitlines():
        how, path = line.split("\t")
        found, _kind, oid = how.split(" ")
        key = path.replace("/", "")
        entries[key if found == mode else f"{found} {key}"] = oid
    return entries


def _contents(git_dir: Path, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    done = subprocess.run(
        ["git", "cat-file", "--batch"],
        cwd=git_dir,
        env=ENVIRONMENT,
        input="".join(f"{oid}\n" for oid in oids).encode(),
        capture_output=True,
        check=True,
    )
    at = 0
    while at < len(done.stdout):
        end = done.stdout.index(b"\n", at)
        oid, *rest = done.stdout[at:end].decode().split(" ")
        if rest == ["missing"]:
            raise AssertionError(f"{git_dir} lacks {oid}")
        size = int(rest[1])
        yield oid, done.stdout[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
