"""The bare git repository of a dialect: made by git, filled by the core, named by us.

Any git tool may read it. Objects arrive as packs; refs are one ``packed-refs`` file
that is replaced as a whole, so that readers see all refs of one export or all of
another (gitrepository-layout(5), git-pack-refs(1)).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
from typing import TYPE_CHECKING

from mercurial import vfs as vfsmod

from ..placement import forget
from .gitprocess import Git
from .refs import METADATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..placement import Placement

_PACKED_REFS = b"packed-refs"
_PACKED_REFS_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_REF = re.compile(rb"([0-9a-f]{40}) (.+)")
_PACKS = b"objects/pack"
# what the core's unfinished files are called there; git's own begin with "tmp_", too
_UNFINISHED = b"tmp_amalgam_"

# What every store is set up with, for git tools that amalgam does not start; none of it
# changes what objects mean. Heads without a ref are unreachable for git but through the
# metadata commit, hence "never"; and manifests have modes that no checkout ever sees.
_SETTINGS = (
    ("core.logAllRefUpdates", "false"),
    ("fsck.badFilemode", "ignore"),
    ("gc.auto", "0"),
    ("gc.pruneExpire", "never"),
    ("maintenance.auto", "false"),
    ("pack.writeReverseIndex", "true"),
    ("transfer.hideRefs", "refs/cinnabar"),
    ("transfer.hideRefs", "refs/hg"),
)
_KEEP = b".keep"
# what git writes of commits beside their packs: all of it can be missing
_SUMMARIES = (
    b"objects/info/commit-graph",
    b"objects/info/commit-graphs",
    b"objects/info/packs",
    b"info/refs",
    b"logs",
    b"FETCH_HEAD",
    b"ORIG_HEAD",
)
_LOOSE = re.compile(rb"[0-9a-f]{2}")
_LOOSE_FILE = re.compile(rb"[0-9a-f]{38}")
_SHARED = "core.sharedRepository"
_EDITED = b".amalgam-edited"


class Repository:
    """A bare git repository, which may not exist yet."""

    def __init__(self, git: Git, placement: Placement) -> None:
        """``git`` is the program, for this repository; ``placement`` that of files."""
        assert git.directory is not None
        self.git = git
        self.path = git.directory
        self.vfs = vfsmod.vfs(self.path)
        self._placement = placement

    def exists(self) -> bool:
        """Tell whether there is a repository."""
        return all(map(self.vfs.exists, (_PACKS, b"refs", b"HEAD")))

    def set_up(self) -> None:
        """Make the repository, or what it lacks, and set what it has to be set to."""
        if not self.exists():
            self._create()
        self._configure(self.path)

    def _create(self) -> None:
        """Make an empty repository, or none at all if that fails."""
        self._placement.make_directory(os.path.dirname(self.path))
        if self.vfs.lexists():
            self._init(self.path)
            return
        temporary = b"%s.tmp-%d" % (self.path, os.getpid())
        try:
            os.mkdir(temporary)
            self._init(temporary)
            with open(os.path.join(temporary, b"config"), "ab") as file:
                # by git, that is a process for each
                file.write(_sections(self._settings))
            self._configure(temporary)
            os.rename(temporary, self.path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _init(self, path: bytes) -> None:
        """Let git make a repository of a directory; what is there already stays."""
        git = self.git._replace(directory=path)
        git.run("init", "--quiet", "--bare", "--template=")
        os.makedirs(os.path.join(path, _PACKS), exist_ok=True)
        self._placement.settle(path)

    def _configure(self, path: bytes) -> None:
        """Change the configuration of the repository where it is not as it should be.

        What others have set besides stays.
        """
        config = os.path.join(path, b"config")
        content = _read(config)
        if _said(content) >= _said(_sections(self._settings)):
            return
        edited = config + _EDITED
        outside = self.git._replace(directory=None)
        try:
            with open(edited, "wb") as file:
                file.write(content)
            for key, value in self._settings:
                several = [f"^{value}$"] if key == "transfer.hideRefs" else []
                args = ("config", "--file", edited, "--replace-all", key, value)
                outside.run(*args, *several)
            self._placement.replace_of_git(config, _read(edited))
        finally:
            self.vfs.tryunlink(edited)

    @property
    def _settings(self) -> list[tuple[str, str]]:
        return [(_SHARED, f"0{self._placement.file_mode:o}"), *_SETTINGS]

    @property
    def packs_path(self) -> bytes:
        """The directory that packs are written to."""
        return self.vfs.join(_PACKS)

    def has_pack(self, name: str) -> bool:
        """Tell whether the pack ``name`` (without suffix) can be read."""
        return bool(self.vfs.exists(b"%s/%s.idx" % (_PACKS, os.fsencode(name))))

    def packs(self, *, usable: bool = True) -> frozenset[str]:
        """Return the names of all packs, without suffix.

        Those that can be read; or else those of which any file is there.
        """
        files = self.vfs.listdir(_PACKS) if self.exists() else ()
        names = (file.partition(b".") for file in files if file.startswith(b"pack-"))
        return frozenset(
            os.fsdecode(name)
            for name, _dot, suffix in names
            if suffix == b"idx" or not usable
        )

    def pack_bytes(self, name: str) -> int:
        """Return the size of the pack ``name``, 0 if it is not there."""
        try:
            return int(
                self.vfs.stat(b"%s/%s.pack" % (_PACKS, os.fsencode(name))).st_size
            )
        except FileNotFoundError:
            return 0

    def remove_packs(self, names: Iterable[str]) -> None:
        """Remove packs (names without suffix) with all that belongs to them.

        The index goes first: what it names can no longer be found when the rest goes.
        """
        removed = frozenset(map(os.fsencode, names))
        files = [
            file
            for file in (self.vfs.listdir(_PACKS) if removed else ())
            if file.partition(b".")[0] in removed
        ]
        for file in sorted(files, key=lambda file: not file.endswith(b".idx")):
            self.vfs.tryunlink(b"%s/%s" % (_PACKS, file))

    def keep(self, names: Iterable[str]) -> None:
        """Have git leave packs (names without suffix) alone, and no others.

        What git-gc(1) made of packs of several layers could not be told apart.
        """
        wanted = {os.fsencode(name) + _KEEP for name in names}
        there = {name for name in self.vfs.listdir(_PACKS) if name.endswith(_KEEP)}
        for name in wanted - there:
            path = self.vfs.join(b"%s/%s" % (_PACKS, name))
            with open(path, "wb"):
                os.chmod(path, self._placement.file_mode)
        for name in there - wanted:
            self.vfs.tryunlink(b"%s/%s" % (_PACKS, name))

    def remove_traces(self) -> None:
        """Remove what git may have made of objects that are gone."""
        self.remove_loose_objects()
        for name in _SUMMARIES:
            path = self.vfs.join(name)
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                self.vfs.tryunlink(name)
        for file in self.vfs.listdir(_PACKS):
            if file.startswith((b"multi-pack-index", b"tmp_")):
                self.vfs.tryunlink(b"%s/%s" % (_PACKS, file))

    def loose_object_directories(self) -> list[bytes]:
        """Return the directories of loose objects: git makes them, and we do not."""
        names = self.vfs.listdir(b"objects")
        return [b"objects/" + name for name in names if _LOOSE.fullmatch(name)]

    def loose_objects(self) -> list[bytes]:
        """Return the oids of all loose objects."""
        return [
            bytes.fromhex((directory[-2:] + name).decode())
            for directory in self.loose_object_directories()
            for name in self.vfs.listdir(directory)
            if _LOOSE_FILE.fullmatch(name)
        ]

    def remove_loose_objects(self) -> None:
        """Remove all loose objects."""
        for directory in self.loose_object_directories():
            shutil.rmtree(self.vfs.join(directory), ignore_errors=True)

    def remove_debris(self) -> None:
        """Remove unfinished files of processes that died. Only for who has the lock."""
        for name in (_PACKED_REFS, b"HEAD", b"config"):
            forget(self.vfs.join(name))
        for suffix in (b"", b".lock"):
            self.vfs.tryunlink(b"config" + _EDITED + suffix)
        for file in self.vfs.listdir(_PACKS):
            if file.startswith(_UNFINISHED):
                self.vfs.tryunlink(b"%s/%s" % (_PACKS, file))
        parent, name = os.path.split(self.path)
        for sibling in os.listdir(parent):
            if sibling.startswith(name + b".tmp-"):
                shutil.rmtree(os.path.join(parent, sibling), ignore_errors=True)

    def set_refs(self, refs: Mapping[bytes, bytes], head: bytes) -> None:
        """Make ``refs`` (name to oid, 20 bytes) all refs, and HEAD lead to ``head``.

        Writes nothing if nothing changes.
        """
        content = _packed(refs)
        if self.vfs.tryread(_PACKED_REFS) != content:
            self._placement.replace_of_git(self.vfs.join(_PACKED_REFS), content)
        for name in self.loose_refs():
            self.vfs.tryunlink(name)
        if self.vfs.tryread(b"HEAD") != _symbolic(head):
            self._placement.replace_of_git(self.vfs.join(b"HEAD"), _symbolic(head))

    def is_named(self, refs: Mapping[bytes, bytes], head: bytes) -> bool:
        """Tell whether ``set_refs`` would write nothing."""
        return (
            self.exists()
            and self.vfs.tryread(_PACKED_REFS) == _packed(refs)
            and not self.loose_refs()
            and self.vfs.tryread(b"HEAD") == _symbolic(head)
        )

    def names_digest(self) -> str:
        """Return what tells whether refs and HEAD are as ``set_refs`` left them."""
        files = (_PACKED_REFS, b"HEAD")
        return hashlib.sha1(b"\0".join(map(self.vfs.tryread, files))).hexdigest()

    def head(self) -> bytes:
        """Return the ref that HEAD leads to."""
        content: bytes = self.vfs.tryread(b"HEAD")
        return content.removeprefix(b"ref: ").rstrip(b"\n") or b"refs/heads/default"

    def has_commits(self, oids: Sequence[bytes]) -> bool:
        """Ask git whether each of ``oids`` is a commit that is there."""
        listing = "".join(f"{oid.hex()}\n" for oid in oids).encode()
        args = ("cat-file", "--batch-check=%(objecttype)")
        found = self.git.run(*args, input=listing).stdout.split()
        return found == [b"commit"] * len(oids)

    def has_refs(self) -> bool:
        """Tell whether there is any ref."""
        return bool(self.refs() or self.loose_refs())

    def refs(self) -> dict[bytes, bytes]:
        """Return the refs in ``packed-refs``: name to oid, 20 bytes."""
        refs = {}
        for line in self.vfs.tryread(_PACKED_REFS).splitlines():
            if match := _REF.fullmatch(line):  # what is damaged is written anew
                refs[match[2]] = bytes.fromhex(match[1].decode())
        return refs

    def loose_refs(self) -> list[bytes]:
        """Return refs that somebody else made: they hide ours of the same name."""
        return [
            self.vfs.reljoin(directory, file)
            for directory, _directories, files in self.vfs.walk(b"refs")
            for file in files
        ]


def differences(before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> int:
    """Return how many refs that users see are new, gone or moved."""
    names = (before.keys() | after.keys()) - {METADATA}
    return sum(before.get(name) != after.get(name) for name in names)


def _packed(refs: Mapping[bytes, bytes]) -> bytes:
    lines = [b"%s %s\n" % (oid.hex().encode(), name) for name, oid in refs.items()]
    lines.sort(key=lambda line: line[41:])
    return _PACKED_REFS_HEADER + b"".join(lines)


def _symbolic(head: bytes) -> bytes:
    return b"ref: %s\n" % head


def _read(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _sections(settings: Iterable[tuple[str, str]]) -> bytes:
    """Return settings as sections of a config file."""
    lines = []
    for section, group in itertools.groupby(settings, lambda it: it[0].split(".")[0]):
        lines.append(f"[{section}]\n")
        lines += [f"\t{key.split('.')[1]} = {value}\n" for key, value in group]
    return "".join(lines).encode()


def _said(content: bytes) -> set[tuple[bytes, bytes]]:
    """Return what a config file seems to set, without asking git: key and value."""
    halves = (line.partition(b"=") for line in content.splitlines() if b"=" in line)
    return {(key.strip().lower(), value.strip()) for key, _equals, value in halves}
