"""Git bundles, taken apart and read by git: gitformat-bundle(5)."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

from hgext3rd.amalgam.clonebundles import gitbundle
from hgext3rd.amalgam.config import GitConfig
from hgext3rd.amalgam.configitems import GIT_V2

from .environment import captured, git
from .exported import Exported

METADATA = "refs/cinnabar/metadata"


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
        captured(
            ["git", "index-pack", "--stdin", *(options or ("--strict",))],
            directory,
            input=self.pack,
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
    store: Exported, kind: bytes = GIT_V2, **options: Any
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


def check_metadata(bundle: Bundle, git_dir: Path, objects_dir: Path) -> None:
    """Compare a bundle with what git finds from its one ref."""
    (oid,) = bundle.refs.values()
    assert bundle.refs == {METADATA: oid}
    assert bundle.version == "# v2 git bundle"
    assert not bundle.prerequisites
    expected = reached(git_dir, oid)
    # index-pack --strict knows no commits in trees, nor the modes of manifests
    git(objects_dir.parent, "init", "-q", "--bare", str(objects_dir))
    done = captured(["git", "index-pack", "--stdin"], objects_dir, input=bundle.pack)
    assert done.returncode == 0, done
    there = git(objects_dir, "cat-file", "--batch-all-objects", "--batch-check")
    assert [line.split()[0] for line in there.decode().splitlines()] == sorted(expected)


def pack_of(store: Exported, layer: str) -> Path:
    name = store.docket()[layer]["complete"]
    assert name
    return store.packs_dir / f"{name}.pack"


def complete_pack(store: Exported) -> Path:
    return pack_of(store, "base")
