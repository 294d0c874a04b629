"""Damage done to revlogs, and what an export may make of it.

Either the flipped bit meant nothing: then the ids are those of the whole repository. Or
the export says in one line what is wrong where, and leaves a git store in which nothing
has changed. In both cases the next export, of the repaired repository, gives all ids.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import revlogs
from .environment import HG, captured, git
from .generated import generate
from .hgserver import HgServer, Outcome

CUT = 8
"""The "bit" that stands for: the file ends here."""

LAYOUTS = {
    "zlib-inline": ("zlib", False, False, "null"),
    "zlib-split": ("zlib", False, True, "null"),
    "zstd-inline": ("zstd", False, False, "20"),
    "zstd-split": ("zstd", False, True, "20"),
    "plain-inline": ("zlib", True, False, "null"),
    "plain-split": ("zlib", True, True, "20"),
}
"""Compression; whether chunks are plain all the same; whether data is in files of its
own; which revisions are exported before the damage is done."""

_BLAMED = re.compile(
    rb"abort: (?:changelog|manifest|filelog [^\n]+): "
    rb"(?:revision \d+: .|there is no revision [0-9a-f]{40}"
    # of the head of the file, not of a revision
    rb"|unknown revlog (?:version|flags) )"
    # Mercurial itself, which knows no more
    rb"|abort: index 00changelog is corrupted"
    rb"|abort: unknown (?:version|flags) \(\S+\) in (?:version 1 )?revlog 00changelog"
)


@dataclasses.dataclass(frozen=True)
class Damage:
    """One bit of one file of the store, or its end."""

    file: str
    at: int
    bit: int

    def to(self, content: bytes) -> bytes:
        """Return ``content``, damaged."""
        if self.bit == CUT:
            return content[: self.at]
        byte = content[self.at] ^ 1 << self.bit
        return content[: self.at] + bytes([byte]) + content[self.at + 1 :]


@contextlib.contextmanager
def memory() -> Iterator[Path]:
    """A directory in memory where there is one: a strike waits for the disk often."""
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="amalgam-", dir=shm) as directory:
        yield Path(directory)


class Victim:
    """A repository that is damaged and repaired again and again."""

    def __init__(self, root: Path, server: HgServer, exported: str = "null") -> None:
        """``exported``: what is exported before the damage is done."""
        self.root = root
        self._server = server
        self._amalgam = root / ".hg" / "amalgam"
        self._before_path = root.with_name(root.name + ".before")
        self._export()
        self._expected = self._ids()
        self._expected_refs = self._refs()
        self._expected_packs = self._packs()
        shutil.rmtree(self._amalgam)
        self._export("-r", exported)
        self._fsck()
        self._before = self._state()
        shutil.copytree(self._amalgam, self._before_path)
        self._export()
        self._expected_packs |= self._packs()
        self._fsck()
        assert self._ids() == self._expected
        store = root / ".hg" / "store"
        self.files = {
            str(path.relative_to(store)): path.stat().st_size
            for path in sorted(store.rglob("*.[id]"))
            if path.is_file() and path.stat().st_size
        }
        """Files of the store and their sizes."""

    @classmethod
    def make(cls, root: Path, layout: str, server: HgServer) -> Victim:
        """Make a repository of one of ``LAYOUTS``."""
        compression, plain, split, exported = LAYOUTS[layout]
        options = ["--changesets=40", f"--compression={compression}"]
        generate(root, "realistic", *options)
        if plain or split:
            revlogs.restore(root / ".hg" / "store", plain=plain, split=split)
        return cls(root, server, exported)

    def damage(self, file: int, at: int, bit: int) -> Damage:
        """Return the damage that three numbers of any size stand for.

        Changelog, manifest and filelogs take turns.
        """
        kinds: dict[str, list[str]] = {}
        for name in self.files:
            kinds.setdefault(name.partition(".")[0].partition("/")[0], []).append(name)
        kind = [kinds["00changelog"], kinds["00manifest"], kinds["data"]][file % 3]
        name = kind[file // 3 % len(kind)]
        at %= self.files[name]
        if bit == CUT and name == "00changelog.i" and 0 < at < 4:
            at = 4  # no hg command opens a changelog of 1 to 3 bytes
        return Damage(name, at, bit)

    def strike(self, damage: Damage, *options: str) -> str:
        """Damage, export, look, repair, export: ``same`` or ``refused``."""
        done = self._damaged_export(damage, *options)
        if done.code:
            self._check_refusal(damage, done)
        elif damage.bit == CUT and damage.file == "00changelog.i":
            # cut between two entries, it is what strip makes of it: a shorter history
            assert set(self._ids()) <= {*self._expected, ""}, damage
        else:
            assert self._ids() == self._expected, damage
            assert self._refs() == self._expected_refs, damage
        self._export()
        assert self._ids() == self._expected, damage
        assert self._refs() == self._expected_refs, damage
        if not self._packs() <= self._expected_packs:
            self._fsck()  # the same objects, but packed in another way
        return "refused" if done.code else "same"

    def opens(self, damage: Damage) -> bool:
        """Damage, let hg alone look, repair; return whether it noticed nothing."""
        alone = [str(HG), "--config", "extensions.amalgam=!", "log", "-r", "all()"]
        with self._damaged(damage):
            return not captured(alone, self.root).returncode

    @contextlib.contextmanager
    def _damaged(self, damage: Damage) -> Iterator[None]:
        path = self.root / ".hg" / "store" / damage.file
        whole = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(damage.to(whole))
        try:
            yield
        finally:
            path.write_bytes(whole)

    def _damaged_export(self, damage: Damage, *options: str) -> Outcome:
        shutil.rmtree(self._amalgam)
        shutil.copytree(self._before_path, self._amalgam)
        with self._damaged(damage):
            return self._server.run(self.root, "git::export", *options)

    def survive(self, damage: Damage, *options: str) -> int:
        """Damage, export, repair, whatever comes of it; return the exit code."""
        done = self._damaged_export(damage, *options)
        assert b"panic" not in done.err, f"{damage}: {done}"
        assert b"Traceback" not in done.err, f"{damage}: {done}"
        return done.code

    def _check_refusal(self, damage: Damage, done: Outcome) -> None:
        problem = f"{damage}: {done}"
        assert done.code == 50, problem
        lines = done.err.splitlines()
        assert _BLAMED.match(lines[0]), problem
        assert len(lines) <= 2, problem
        assert all(re.fullmatch(rb"\(.+\)", hint) for hint in lines[1:]), problem
        assert done.out == b"", problem
        # it was valid before, and nothing is visible that was not
        assert self._state() == self._before, problem

    def _export(self, *args: str) -> None:
        self._server.hg(self.root, "git::export", *args)

    def _ids(self) -> list[str]:
        log = self._server.hg(self.root, "log", "-r", "all()", "-T", "{gitnode}\n")
        return log.decode().splitlines()

    def _refs(self) -> bytes:
        """Return all refs but that of the metadata, which may be some exports old."""
        store = self._amalgam / "git" / "cinnabar.git"
        lines = (store / "packed-refs").read_bytes().splitlines(keepends=True)
        named = [line for line in lines if b" refs/cinnabar/" not in line]
        return b"".join(named) + (store / "HEAD").read_bytes()

    def _packs(self) -> set[str]:
        return {path.name for path in self._amalgam.rglob("*.pack")}

    def _state(self) -> dict[str, bytes]:
        """All files of amalgam with their content."""
        paths = (path for path in self._amalgam.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in paths}

    def _fsck(self) -> None:
        git(self._amalgam / "git" / "cinnabar.git", "fsck", "--full", "--strict")
