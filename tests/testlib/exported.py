"""A repository that is exported, its files, and ways to damage them."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mercurial import extensions, hg as hgmod, ui as uimod

from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.gitstore.docket import Docket
from hgext3rd.amalgam.gitstore.store import GitStore

from .environment import git, publish_commits
from .hgserver import HgServer, Outcome

STRIP = ("--config", "extensions.strip=", "strip", "-q", "--no-backup")


class Exported:
    """A repository at ``root`` and what amalgam made of it."""

    def __init__(self, root: Path, server: HgServer) -> None:
        self.root = root
        self.server = server
        self.amalgam = root / ".hg" / "amalgam"
        self.git_dir = self.amalgam / "git" / "cinnabar.git"
        self.packs_dir = self.git_dir / "objects" / "pack"
        self.map_dir = self.amalgam / "map"
        self.docket_path = self.map_dir / "cinnabar.docket"

    @classmethod
    def init(cls, root: Path, server: HgServer) -> Exported:
        """Make an empty repository, which is not exported; it publishes commits."""
        server.hg(root.parent, "init", str(root))
        publish_commits(root)
        return cls(root, server)

    @classmethod
    def make(cls, root: Path, server: HgServer) -> Exported:
        """Make a repository with merges, branches, tags; two exports, two packs.

        And git-cinnabar's metadata of all of it.
        """
        store = cls.init(root, server)
        (root / "dir" / "below").mkdir(parents=True)
        for number in range(6):
            (root / f"file{number}").write_text(f"text {number}\n" * 20)
            (root / "dir" / "below" / "common").write_text(f"common {number}\n")
            store.hg("commit", "-qAm", f"number {number}", "-d", f"{number} 0")
        store.hg("update", "-q", "3")
        store.hg("branch", "-q", "stable")
        (root / "fix").write_text("fix\n")
        store.hg("commit", "-qAm", "fix", "-d", "7 0")
        store.hg("update", "-q", "default")
        store.hg("merge", "-q", "stable")
        store.hg("commit", "-qm", "merge", "-d", "8 0")
        store.hg("tag", "-r", "2", "v1", "-d", "9 0")
        store.hg("bookmark", "-r", "4", "feature/one")
        store.hg("bookmark", "-i", "@")
        store.hg("git::export")
        (root / "last").write_text("last\n")
        store.hg("commit", "-qAm", "last", "-d", "10 0")
        store.hg("git::export", "--metadata")
        return store

    def hg(self, *args: str) -> str:
        """Run hg in the repository and return its stdout."""
        return self.server.hg(self.root, *args).decode()

    def run(self, *args: str) -> Outcome:
        """Run hg in the repository, whatever comes of it."""
        return self.server.run(self.root, *args)

    def copied(self, directory: Path, name: str = "repo") -> Exported:
        """Copy the repository, and all that was made of it."""
        shutil.copytree(self.root, directory / name, symlinks=True)
        return Exported(directory / name, self.server)

    def commit(
        self, name: str, *options: str, text: str | bytes = "", message: str = ""
    ) -> None:
        """Commit a file; text and message are its name, unless they are given."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = text or f"{name}\n" * 30
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.hg("commit", "-qAm", message or name, "-d", "20 0", *options)

    def commit_nothing(self, message: str) -> None:
        """Commit a changeset that changes no file."""
        self.hg("commit", "-qm", message, "--config", "ui.allowemptycommit=yes")

    def open(self, **config: str) -> Any:
        """Open the repository in this process; ``config`` is of ``[amalgam]``."""
        ui = uimod.ui.load()
        ui.setconfig(b"extensions", b"amalgam", b"")
        ui.setconfig(b"ui", b"quiet", b"yes")
        for name, value in config.items():
            item = name.replace("__", ".").replace("_", "-").encode()
            ui.setconfig(b"amalgam", item, value.encode())
        extensions.loadall(ui)
        return hgmod.repository(ui, os.fsencode(self.root))

    def git_store(self, **config: str) -> GitStore:
        """Open the git store in this process."""
        repo = self.open(**config)
        return GitStore(repo, GitConfig.from_ui(repo.ui))

    def answers(self) -> bool:
        """Return whether a server may answer from the git store."""
        return self.git_store().may_answer()

    def docket(self) -> dict[str, Any]:
        """Return what the docket says, with dictionaries and lists in it."""
        return dict(_plain(Docket.parse(self.docket_path.read_bytes())))

    def named(self, what: str) -> list[str]:
        """Return the ``packs`` or ``segments`` that the docket names, oldest first."""
        docket = self.docket()
        return [*docket["base"][what], *docket["drafts"][what]]

    def write_docket(self, **changes: Any) -> None:
        """Change what the docket says of the base."""
        docket = Docket.parse(self.docket_path.read_bytes())
        items: dict[str, Any] = {name: tuple(changes[name]) for name in changes}
        base = docket.base._replace(**items)
        self.docket_path.write_bytes(docket._replace(base=base).format())

    def packs(self) -> list[Path]:
        """Return the packs, oldest first, and those of metadata commits at the end."""
        docket = self.docket()
        names = self.named("packs")
        names += docket["base_commit"]["packs"] + docket["drafts_commit"]["packs"]
        return [self.packs_dir / f"{name}.pack" for name in dict.fromkeys(names)]

    def segments(self) -> list[Path]:
        """Return the segments of the map, oldest first."""
        return [self.map_dir / name for name in self.named("segments")]

    def ids(self, rev: str) -> tuple[str, str]:
        """Return node and oid of a changeset."""
        node, oid = self.hg("log", "-r", rev, "-T", "{node} {gitnode}").split(" ")
        return node, oid

    def git(self, *args: str) -> str:
        return git(self.git_dir, *args).decode().strip()

    def repack_without(self, oid: str) -> None:
        """Replace the packs by one that lacks an object, but is whole otherwise."""
        listing = self.git(
            "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"
        )
        kept = (name for name in listing.split() if name != oid)
        name = f"pack-{pack_objects(self, kept)}"
        for pack in self.packs():
            remove_pack(pack)
        self.git("index-pack", "--rev-index", str(self.packs_dir / f"{name}.pack"))
        docket = Docket.parse(self.docket_path.read_bytes())
        commit = docket.base_commit._replace(packs=())
        base = docket.base._replace(packs=(name,))
        docket = docket._replace(base=base, base_commit=commit)
        self.docket_path.write_bytes(docket.format())


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {key: _plain(inner) for key, inner in value._asdict().items()}
    return [*map(_plain, value)] if isinstance(value, tuple) else value


def pack_objects(store: Exported, oids: Iterable[str]) -> str:
    """Make a pack of some objects, and return its checksum."""
    listing = store.root / "listing"
    listing.write_text("".join(f"{oid}\n" for oid in oids))
    prefix = store.packs_dir / "pack"
    command = f'git pack-objects -q "{prefix}" < "{listing}"'
    return git(store.git_dir, "-c", f"alias.p=!{command}", "p").decode().strip()


def remove_pack(pack: Path) -> None:
    for suffix in (".pack", ".idx", ".rev", ".keep"):
        pack.with_suffix(suffix).unlink()


def edit(path: Path, at: int, byte: int | None = None) -> None:
    """Change a byte of a file, though nobody may write to it."""
    content = bytearray(path.read_bytes())
    content[at] = content[at] ^ 0x40 if byte is None else byte
    replace(path, bytes(content))


def cut(path: Path, count: int) -> None:
    """Take bytes away at the end of a file."""
    replace(path, path.read_bytes()[:-count])


def replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def forge(segment: Path, oid: str, forged: str) -> None:
    """Exchange an oid in a segment of the map, and make its checksum right again."""
    body = segment.read_bytes()[:-20]
    at = body.index(bytes.fromhex(oid))
    body = body[:at] + bytes.fromhex(forged) + body[at + 20 :]
    # the changesets once more, ordered by their oids, at the end
    (count,) = struct.unpack(">Q", body[16:24])
    start = 64 + 1024 + count * 20
    oids = [body[start + 20 * number :][:20] for number in range(count)]
    order = sorted(range(count), key=oids.__getitem__)
    body = body[: -4 * count] + struct.pack(f">{count}I", *order)
    replace(segment, body + hashlib.sha1(body).digest())
