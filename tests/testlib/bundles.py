"""Git bundles, taken apart and read by git: gitformat-bundle(5)."""

from __future__ import annotations

import dataclasses
import io
import subprocess
from pathlib import Path
from typing import Any

from hgext3rd.amalgam.bundles import gitbundle
from hgext3rd.amalgam.configitems import GitConfig

from .environment import ENVIRONMENT, git
from .exported import Exported


@dataclasses.dataclass(frozen=True)
class Bundle:
    """A bundle, as its header and its pack."""

    version: str
    capabilities: tuple[str, ...]
    prerequisites: tuple[str, ...]
    refs: dict[str, str]
    """Name to oid."""
    pack: bytes

    @classmethod
    def of(cls, content: bytes) -> Bundle:
        """Take a bundle apart."""
        head, pack = content.split(b"\n\n", 1)
        version, *lines = head.decode().split("\n")
        refs = [line for line in lines if line[0] not in "@-"]
        return cls(
            version,
            tuple(line[1:] for line in lines if line.startswith("@")),
            tuple(line[1:41] for line in lines if line.startswith("-")),
            {name: oid for oid, name in (line.split(" ", 1) for line in refs)},
            pack,
        )

    def objects(self, directory: Path, *options: str) -> dict[str, str]:
        """Let git index the pack in a new repository: oid to kind of all objects.

        ``options`` are those of git-index-pack(1), by default for a strict look.
        """
        git(directory.parent, "init", "-q", "--bare", str(directory))
        subprocess.run(
            ["git", "index-pack", "--stdin", *(options or ("--strict",))],
            cwd=directory,
            env=ENVIRONMENT,
            input=self.pack,
            capture_output=True,
            check=True,
        )
        listing = git(directory, "cat-file", "--batch-all-objects", "--batch-check")
        return {
            line.split()[0]: line.split()[1] for line in listing.decode().splitlines()
        }


def command(store: Exported, *args: str) -> Bundle:
    """Run ``git::bundle`` and return what it wrote."""
    path = store.root.with_name("of-command.bundle")
    store.hg("git::bundle", *args, str(path))
    content = path.read_bytes()
    path.unlink()
    return Bundle.of(content)


def written(
    store: Exported, kind: bytes = gitbundle.GIT_V2, **options: Any
) -> tuple[Bundle, gitbundle.Written]:
    """Call what the command and the server call, in this process."""
    repo = store.open()
    out = io.BytesIO()
    config = GitConfig.from_ui(repo.ui)
    report = gitbundle.write(repo, config, out, kind, **options)
    content = out.getvalue()
    assert report.bytes == len(content)
    return Bundle.of(content), report


def reached(git_dir: Path, *revs: str) -> set[str]:
    """Return the oids of all objects that ``revs`` lead to."""
    listing = git(git_dir, "rev-list", "--objects", "--no-object-names", *revs)
    return set(listing.decode().split())
