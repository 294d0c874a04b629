"""Conversions of git commits in this process, and what stock hg makes of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Any

from mercurial import hg as hgmod, ui as uimod

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore.git.process import Git
from hgext3rd.amalgam.receive import convert, graph

from .environment import HG, captured, git, hg

MEMORY_BYTES = 32 << 20


class Target:
    """A Mercurial repository that gets commits, and which changesets these are."""

    def __init__(
        self,
        root: Path,
        known: Mapping[str, str] | None = None,
        dialect: bytes = b"cinnabar",
    ) -> None:
        self.root = root
        self.dialect = dialect
        self.known = {**(known or {})}
        self.bundle = root.parent / f"{root.name}-pushed.hg"
        self.chunks = b""
        """The changegroup that was made last."""

    def convert(
        self,
        git_dir: Path,
        *tips: str,
        memory_bytes: int = MEMORY_BYTES,
        program: bytes = b"git",
        round_trip: bool | None = None,
        is_exact: bool = False,
    ) -> Any:
        """Convert commits; the changegroup is a bundle then."""
        ui = uimod.ui.load()
        repo = hgmod.repository(ui, bytes(self.root))
        inner = git_dir / ".git"
        directory = inner if inner.exists() else git_dir
        runner = Git(program, Directory(bytes(directory.resolve())))
        is_cinnabar = self.dialect == b"cinnabar"
        oids = [git(git_dir, "rev-parse", tip).strip() for tip in tips]
        with tempfile.TemporaryFile() as out:
            out.write(b"before")
            new = graph.read(runner, oids, self._known, inf)
            commits = new.needed(oids)
            made = convert.convert(
                *(ui, repo, runner, commits, new.base(commits), out),
                dialect=self.dialect,
                round_trip=is_cinnabar if round_trip is None else round_trip,
                memory_bytes=memory_bytes,
                is_exact=is_exact,
            )
            end = out.tell()
            out.seek(0)
            assert out.read(6) == b"before"
            self.chunks = out.read()
            assert out.tell() == end
        assert bool(self.chunks) == bool(made.changesets)
        _write_bundle(self.bundle, self.chunks, made.version)
        return made

    def _known(self, oids: Iterable[bytes]) -> dict[bytes, bytes]:
        found = {oid: self.known.get(oid.decode()) for oid in oids}
        return {oid: node.encode() for oid, node in found.items() if node}

    def unbundle(self, made: Any) -> None:
        """Let stock hg add what was converted last, and learn it."""
        command = [str(HG), "-R", str(self.root), "unbundle", "-q", str(self.bundle)]
        done = captured(command)
        assert done.returncode == 0, done.stderr.decode()
        self.known |= {oid.decode(): node.decode() for oid, node in made.changesets}

    def push(self, git_dir: Path, *tips: str, memory_bytes: int = MEMORY_BYTES) -> Any:
        """Convert commits, none of which is refused, and add them."""
        made = self.convert(git_dir, *tips, memory_bytes=memory_bytes)
        assert not made.refused, made.refused
        if made.changesets:
            self.unbundle(made)
        return made

    def export(self) -> None:
        """Export all changesets, so that their commits are known."""
        hg(self.root, "git::export", "--config", "amalgam.git.refs=heads,tips")

    def hg(self, *args: str) -> str:
        """Run stock hg, and return what it writes."""
        command = [str(HG), "-R", str(self.root), *args]
        done = captured(command)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout.decode()


def _write_bundle(path: Path, chunks: bytes, version: bytes) -> None:
    """Write a bundle with one part."""
    name, parameter = b"CHANGEGROUP", b"version"
    header = bytes([len(name)]) + name + (0).to_bytes(4, "big") + bytes([1, 0])
    header += bytes([len(parameter), len(version)]) + parameter + version
    with path.open("wb") as file:
        file.write(b"HG20" + (0).to_bytes(4, "big"))
        file.write(len(header).to_bytes(4, "big") + header)
        for at in range(0, len(chunks), 1 << 20):
            piece = chunks[at : at + (1 << 20)]
            file.write(len(piece).to_bytes(4, "big") + piece)
        file.write((0).to_bytes(4, "big"))  # of the part
        file.write((0).to_bytes(4, "big"))  # of the bundle
