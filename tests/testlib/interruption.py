"""Exports that end too early, and what has to be true after them.

After a kill or on a full disk the git repository is valid, and the next export gives
the same ids and refs as one that nothing interrupted, without a file too many.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sysconfig
from pathlib import Path

from hgext3rd.amalgam.gitstore.docket import Docket

from .environment import HG, WITHOUT_BYTECODE, git, hg
from .hgserver import HgServer

PAGE_BYTES = 4096
"""What a tmpfs counts in."""
_OPTIONS = ["--config", "extensions.amalgam=", "--config", "ui.detailed-exit-code=yes"]


class Interrupted:
    """A repository whose exports are interrupted."""

    def __init__(self, root: Path, server: HgServer) -> None:
        self.root = root
        self.amalgam = root / ".hg" / "amalgam"
        self.git_dir = self.amalgam / "git" / "cinnabar.git"
        self._server = server
        self.clear()
        self.export()
        self._ids = self._log()
        self._refs = self._packed_refs()
        self._files = self.files()

    def clear(self) -> None:
        """Forget all that was exported."""
        shutil.rmtree(self.amalgam, ignore_errors=True)

    def export(self, *args: str) -> None:
        """Export to the end."""
        self._server.hg(self.root, "git::export", *args)

    def start(
        self,
        *args: str,
        command: str = "git::export",
        environment: dict[str, str] | None = None,
        file_bytes: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start an export, or another ``command``, in a process of its own.

        No file may grow beyond ``file_bytes``.
        """

        def limit() -> None:
            if file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

        return subprocess.Popen(
            [str(HG), *_OPTIONS, command, *args],
            cwd=self.root,
            env=WITHOUT_BYTECODE | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=limit,
        )

    def files(self) -> set[str]:
        """Return the names of all files of amalgam."""
        paths = self.amalgam.rglob("*")
        return {str(path.relative_to(self.amalgam)) for path in paths if _is_file(path)}

    def packs(self) -> list[str]:
        """Return the names of all packs."""
        return sorted(path.name for path in self.git_dir.glob("objects/pack/*.pack"))

    def sizes(self) -> list[int]:
        """Return the sizes of all files of amalgam that have any, ascending."""
        sizes = ((self.amalgam / name).stat().st_size for name in self.files())
        return sorted(filter(None, sizes))

    def check_valid(self) -> None:
        """Let git look at all objects, and at all refs."""
        if self.git_dir.exists():
            git(self.git_dir, "fsck", "--full", "--strict")
            git(self.git_dir, "rev-list", "--all", "--objects")

    def check_refusal(self, process: subprocess.Popen[bytes]) -> bytes:
        """Wait for an export that fails in one line, and return that."""
        out, err = process.communicate()
        assert process.returncode == 255, (out, err)
        assert err.startswith(b"abort: "), err
        assert len(err.splitlines()) == 1, err
        return err

    def debris(self) -> set[str]:
        """Return files that are there and should not be, and none that may come yet."""
        docket_path = self.amalgam / "map" / "cinnabar.docket"
        docket = Docket()
        if docket_path.exists():
            docket = Docket.parse(docket_path.read_bytes())
        packs = f"{self.git_dir.relative_to(self.amalgam)}/objects/pack"
        wanted = {name for name in self._files if not _is_data(name)}
        wanted.add("map/cinnabar.removals")  # if packs of a killed export were removed
        wanted |= {f"map/{name}" for name in docket.segments}
        wanted |= {f"map/{name}" for name in docket.metadata_segments}
        for suffix in ("pack", "idx", "rev", "keep"):
            wanted |= {f"{packs}/{pack}.{suffix}" for pack in docket.packs}
        return self.files() - wanted

    def check_next(self, *args: str) -> None:
        """Export again: all is there, and nothing else."""
        self.export(*args)
        assert self._log() == self._ids
        assert self._packed_refs() == self._refs
        debris = self.debris()
        assert not debris, debris
        self.check_valid()

    def _log(self) -> bytes:
        return self._server.hg(self.root, "log", "-r", "all()", "-T", "{gitnode}\n")

    def _packed_refs(self) -> bytes:
        """Return all refs but that of the metadata, which may be some exports old."""
        head = (self.git_dir / "HEAD").read_bytes()
        lines = (self.git_dir / "packed-refs").read_bytes().splitlines(keepends=True)
        named = [line for line in lines if b" refs/cinnabar/" not in line]
        return b"".join(named) + head


def preloaded(source: Path, directory: Path) -> Path:
    """Compile what a process is to load before all libraries (``LD_PRELOAD``)."""
    library = directory / source.with_suffix(".so").name
    compiler = str(sysconfig.get_config_var("CC") or "cc").split()
    options = ["-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run([*compiler, *options], check=True)
    return library


def bookmarked(root: Path) -> Path:
    """Make a repository that has more to say of its refs than of its objects."""
    hg(root.parent, "init", str(root))
    (root / "file").write_text("content\n")
    hg(root, "commit", "-qAm", "one", "-d", "0 0")
    node = hg(root, "log", "-T", "{node}").decode()
    lines = [f"{node} bookmark-{number:04}\n" for number in range(300)]
    (root / ".hg" / "bookmarks").write_text("".join(lines))
    return root


class SmallDisk:
    """A tmpfs at a directory, until the context ends."""

    def __init__(self, path: Path, pages: int) -> None:
        self._path = path
        self._pages = pages

    def __enter__(self) -> SmallDisk:
        self._path.mkdir()
        self._mount(f"size={self._pages * PAGE_BYTES}", "-t", "tmpfs", "none")
        return self

    def grow(self) -> None:
        """Make room."""
        self._mount("remount,size=100m")

    def __exit__(self, *_exc: object) -> None:
        subprocess.run(["umount", str(self._path)], check=True)

    def _mount(self, options: str, *what: str) -> None:
        command = ["mount", "-o", options, *what, str(self._path)]
        subprocess.run(command, check=True)


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _is_data(name: str) -> bool:
    return name.endswith((".map", ".pack", ".idx", ".rev", ".keep"))
