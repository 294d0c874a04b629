"""The bare git repository of a dialect: packs, refs and settings.

Any git tool may read it. The native core adds packs; refs are written by ``reffiles``.
amalgam does not let git write here.

Settings are for git tools that others start. None changes the meaning of objects.
Values of others stay, except for those about pushes, which a store does not take
(git-config(1)).
"""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from typing import TYPE_CHECKING

from mercurial import error

from ...files import TEMPORARY, unpredictable
from ..docket import PACK
from . import layout
from .layout import PACKS
from .process import CONFIG, CONFIG_BYTES, Git, settings
from .reffiles import RefFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...files import Directory, Placement


# all that "git maintenance" of git 2.55 could do
_TASKS = (
    "prefetch",
    "loose-objects",
    "incremental-repack",
    "geometric-repack",
    "gc",
    "commit-graph",
    "pack-refs",
    "reflog-expire",
    "worktree-prune",
    "rerere-gc",
)
# Heads without a ref are unreachable for git but through the metadata commit, hence
# "never"; and manifests have modes that no checkout ever sees.
_OURS = (
    # relative to the working directory of hooks, the repository: never those of a user
    ("core.hooksPath", "hooks"),
    ("core.logAllRefUpdates", "false"),
    ("fsck.badFilemode", "ignore"),
    # git never maintains a store by itself: it would mix the packs of the layers
    ("gc.auto", "0"),
    ("gc.autoDetach", "false"),
    ("gc.autoPackLimit", "0"),
    ("gc.pruneExpire", "never"),
    ("maintenance.auto", "false"),
    ("maintenance.autoDetach", "false"),
    # no strategy: git 2.55 has none without tasks, and ends at the name of another
    *((f"maintenance.{task}.enabled", "false") for task in _TASKS),
    ("pack.writeReverseIndex", "true"),
    ("receive.autogc", "false"),
    ("transfer.hideRefs", "refs/cinnabar"),
)
# hidden, too, unless these heads are chosen
_OTHER_HEADS = ("transfer.hideRefs", "refs/hg")
_ANEW = (
    ("core.repositoryFormatVersion", "0"),
    ("core.fileMode", "true"),
    ("core.bare", "true"),
)
# keys that may have more values than ours
_SEVERAL = frozenset({"transfer.hideRefs"})


def new_config(placement: Placement, *, shows_heads: bool) -> bytes:
    """Return the configuration of a new store.

    ``shows_heads``: clients may see the refs of heads that have no other name.
    """
    return _sections([*_ANEW, *_wanted(placement, shows_heads)])


def edited_config(
    program: bytes, content: bytes, placement: Placement, *, shows_heads: bool
) -> bytes:
    """Return a configuration with our settings; ``program`` is git, which edits it.

    ``content`` itself if it has them. A configuration that git cannot read is replaced.
    """
    fresh = new_config(placement, shows_heads=shows_heads)
    if content == fresh:
        return content
    try:
        found = settings(program, content)
    except error.Abort:
        return fresh
    values: dict[str, list[str]] = {}
    for key_found, value_found in found:
        values.setdefault(os.fsdecode(key_found), []).append(os.fsdecode(value_found))
    ours = {key.lower() for key, _value in _OURS}
    commands: list[tuple[str, ...]] = [
        ("--unset-all", key)
        for key in values
        if key.startswith("receive.") and key not in ours
    ]
    key, value = _OTHER_HEADS
    if shows_heads and value in values.get(key.lower(), []):
        commands.append(("--unset-all", key, f"^{value}$"))
    for key, value in _wanted(placement, shows_heads):
        there = values.get(key.lower(), [])
        if key in _SEVERAL:
            if value not in there:
                commands.append(("--add", key, value))
        elif there != [value]:
            commands.append(("--replace-all", key, value))
    if not content:
        commands[:0] = [("--replace-all", key, value) for key, value in _ANEW]
    return _run(program, content, commands) if commands else content


def _run(program: bytes, content: bytes, commands: Iterable[tuple[str, ...]]) -> bytes:
    """Let git edit a copy of the configuration, in a directory that is ours alone."""
    outside = Git(program)
    with tempfile.TemporaryDirectory(prefix="amalgam-config-") as directory:
        path = os.path.join(directory, "config")
        with open(path, "wb") as file:
            file.write(content)
        for command in commands:
            outside.run("config", "--file", path, *command)
        with open(path, "rb") as file:
            return file.read()


def _wanted(placement: Placement, shows_heads: bool) -> list[tuple[str, str]]:
    hidden = () if shows_heads else (_OTHER_HEADS,)
    return [("core.sharedRepository", f"0{placement.file_mode:o}"), *_OURS, *hidden]


def _sections(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return settings as sections of a config file."""
    lines = []
    for name, group in itertools.groupby(pairs, lambda it: it[0].rpartition(".")[0]):
        section, dot, below = name.partition(".")
        lines.append(f'[{section} "{below}"]\n' if dot else f"[{section}]\n")
        lines += [f"\t{key.rpartition('.')[2]} = {value}\n" for key, value in group]
    return "".join(lines).encode()


# names of the core's unfinished files; git's own begin with "tmp_", too
_UNFINISHED = b"tmp_amalgam_"
_KEEP = b".keep"
_LOOSE = re.compile(rb"[0-9a-f]{2}")


def make_empty(
    directory: Directory, placement: Placement, *, shows_heads: bool = False
) -> None:
    """Make of a directory an empty repository, which may have packs already.

    ``shows_heads``: clients may see the refs of heads that have no other name.
    """
    layout.complete(directory, placement)
    layout.write_push_hook(directory, placement)
    config = new_config(placement, shows_heads=shows_heads)
    directory.replace(CONFIG, config, placement)


class Repository(RefFiles):
    """A bare git repository, which may not exist yet."""

    def __init__(
        self, git: Git, placement: Placement, *, shows_heads: bool = False
    ) -> None:
        """``git`` runs git in this repository; ``placement`` says where files go.

        ``shows_heads``: clients may see refs of heads without another name.
        """
        assert git.directory is not None
        super().__init__(git.directory, placement)
        self.git = git
        self.packs_directory = self.directory.sub(PACKS)
        self._shows_heads = shows_heads

    @property
    def path(self) -> bytes:
        """The full path of the repository, for messages."""
        return self.directory.path

    def exists(self) -> bool:
        """Return whether the repository exists."""
        return layout.is_whole(self.directory)

    def set_up(self) -> None:
        """Make the repository, or its missing parts, and its settings."""
        try:
            self.directory.stat()
        except FileNotFoundError:
            self._create()
            return
        self.remove_intruders()
        layout.complete(self.directory, self._placement)
        layout.write_push_hook(self.directory, self._placement)
        self._configure()

    def remove_intruders(self) -> None:
        """Remove files that would lead git to another repository."""
        layout.remove_forbidden(self.directory)

    def _create(self) -> None:
        """Make an empty repository, or none at all if that fails."""
        *above, name = self.directory.below
        parent = self.directory._replace(below=tuple(above))
        parent.make(self._placement)
        temporary = unpredictable(self._temporary_prefix(name))
        made = parent.sub(temporary)
        try:
            made.make(self._placement)
            make_empty(made, self._placement, shows_heads=self._shows_heads)
            parent.rename(temporary, name)
        except BaseException:
            parent.remove(temporary)
            raise

    @staticmethod
    def _temporary_prefix(name: bytes) -> bytes:
        return name + b".tmp-"

    def _configure(self) -> None:
        """Correct the configuration of the repository.

        Additional settings of others stay.
        """
        there = self._content(CONFIG, CONFIG_BYTES)
        content = edited_config(
            self.git.program, there, self._placement, shows_heads=self._shows_heads
        )
        if content != there:
            layout.replace_locked(self.directory, CONFIG, content, self._placement)

    def has_pack(self, name: str) -> bool:
        """Return whether the pack ``name`` (without suffix) can be read."""
        return self.packs_directory.exists(os.fsencode(name) + b".idx")

    def packs(self, *, usable: bool = True) -> frozenset[str]:
        """Return the names of all packs, without suffix.

        Readable ones with a name of git's form; or else all of which any file exists.
        """
        files = self.packs_directory.names() if self.exists() else ()
        halves = (file.partition(b".") for file in files if file.startswith(b"pack-"))
        found: dict[str, set[bytes]] = {}
        for name, _dot, suffix in halves:
            found.setdefault(os.fsdecode(name), set()).add(suffix)
        return frozenset(
            name
            for name, suffixes in found.items()
            if not usable or (suffixes >= {b"idx", b"pack"} and PACK.fullmatch(name))
        )

    def pack_bytes(self, name: str) -> int:
        """Return the size of the pack ``name``, 0 if it is not there."""
        try:
            return self.packs_directory.stat(os.fsencode(name) + b".pack").st_size
        except FileNotFoundError:
            return 0

    def take_packs(self, area: Directory, names: Iterable[str]) -> None:
        """Take packs (names without suffix) from a ``staging_area``.

        They are durable when this returns. The index comes last: it makes git see them.
        """
        for name in names:
            for suffix in (b".pack", b".rev", b".idx"):
                file = os.fsencode(name) + suffix
                self.take(area, file, PACKS + b"/" + file)

    def take(self, area: Directory, file: bytes, name: bytes) -> None:
        """Take a file that git does not change as ``name``; durable when it returns.

        It is in ``area``, a directory of the repository or below one.
        """
        fd = area.open(file)
        try:
            mode = self._placement.file_mode & 0o444
            self._placement.hand_over(fd, mode, self.directory.join(name))
            os.fsync(fd)
        finally:
            os.close(fd)
        staged = b"/".join((*area.below[len(self.directory.below) :], file))
        self.directory.rename(staged, name)

    def remove_packs(self, names: Iterable[str]) -> None:
        """Remove packs (names without suffix) with all their files.

        The index goes first: its objects can no longer be found when the rest goes.
        """
        removed = frozenset(map(os.fsencode, names))
        files = [
            file
            for file in (self.packs_directory.names() if removed else ())
            if file.partition(b".")[0] in removed
        ]
        for file in sorted(files, key=lambda file: not file.endswith(b".idx")):
            self.packs_directory.remove(file)

    def keep(self, names: Iterable[str]) -> None:
        """Have git leave these packs (names without suffix) alone, and no others.

        git-gc(1) would mix packs of several layers.
        """
        wanted = {os.fsencode(name) + _KEEP for name in names}
        files = self.packs_directory.names()
        there = {file for file in files if file.endswith(_KEEP)}
        for name in wanted - there:
            os.close(self.packs_directory.create(name, self._placement))
        for name in there - wanted:
            self.packs_directory.remove(name)

    def loose_object_directories(self) -> list[bytes]:
        """Return the directories of loose objects: git makes them, and we do not."""
        names = self.directory.sub(b"objects").directories()
        return [b"objects/" + name for name in names if _LOOSE.fullmatch(name)]

    def remove_debris(self) -> None:
        """Remove unfinished files of dead processes. Only with the lock."""
        layout.forget_lock(self.directory, CONFIG)
        self.remove_ref_debris()
        for directory, prefix in (
            (self.directory, TEMPORARY),
            (self.packs_directory, _UNFINISHED),
        ):
            for file in directory.names():
                if file.startswith(prefix):
                    directory.remove(file)
        layout.sweep_staging(self.directory)
        *above, name = self.directory.below
        parent = self.directory._replace(below=tuple(above))
        for sibling in parent.names():
            if sibling.startswith(self._temporary_prefix(name)):
                parent.remove(sibling)

    def has_commits(self, oids: Sequence[bytes]) -> bool:
        """Ask git whether each of ``oids`` is a commit that is there."""
        listing = "".join(f"{oid.hex()}\n" for oid in oids).encode()
        args = ("cat-file", "--batch-check=%(objecttype)")
        found = self.git.run(*args, input=listing).stdout.split()
        return found == [b"commit"] * len(oids)
