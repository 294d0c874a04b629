"""Stores of every format: the same history gives the same ids."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from mercurial import requirements
from testlib.environment import git
from testlib.hgserver import HgServer

pytestmark = pytest.mark.slow

# Mercurial wants to hear it before it uses some
_SURE = "enable-unstable-format-and-corrupt-my-data"
FORMATS = {
    "default": [],
    "no fncache": ["format.usefncache=no"],
    "no dotencode": ["format.dotencode=no"],
    "no generaldelta": ["format.usegeneraldelta=no", "format.sparse-revlog=no"],
    "no sparse-revlog": ["format.sparse-revlog=no"],
    "zlib": ["format.revlog-compression=zlib"],
    "zstd": ["format.revlog-compression=zstd"],
    "none": ["format.revlog-compression=none"],
    "no share-safe": ["format.use-share-safe=no"],
    "internal phase": ["format.use-internal-phase=yes"],
    "archived phase": ["format.exp-archived-phase=yes"],
    "changelog-v2": [f"format.exp-use-changelog-v2={_SURE}"],
    "copies in side data": ["format.exp-use-copies-side-data-changeset=yes"],
    "revlog-v2": [f"experimental.revlogv2={_SURE}"],
    "revlog-v2, zlib": [
        f"experimental.revlogv2={_SURE}",
        "format.revlog-compression=zlib",
    ],
    "tree manifests": ["experimental.treemanifest=yes"],
    "fileindex-v1": ["format.use-fileindex-v1=yes"],
    "delta-info flags": ["format.use-delta-info-flags=yes"],
    "delta-info flags of 7.1": ["format.exp-use-delta-info-flags=yes"],
    "filelog flags of 7.1": ["format.exp-use-hasmeta-flag=yes"],
    "plain names": [
        "format.exp-use-very-fragile-and-unsafe-plain-store-encoding=yes",
        "format.dotencode=no",
    ],
}
#: What a repository in such a format requires, if the version of Mercurial knows it.
REQUIREMENTS = {
    "revlog-v2": "exp-revlogv2.2",
    "fileindex-v1": "fileindex-v1",
    "delta-info flags": "delta-info-revlog",
    "delta-info flags of 7.1": "exp-delta-info-revlog",
    "filelog flags of 7.1": "exp-filelog-metaflag",
    "plain names": "exp-very-fragile-and-unsafe-plain-store-encoding",
}
KNOWN = {value for value in vars(requirements).values() if isinstance(value, bytes)}
FORMATS_KNOWN = [
    name
    for name in FORMATS
    if name not in REQUIREMENTS or REQUIREMENTS[name].encode() in KNOWN
]
#: Formats in which the same manifest has another node, and so has the changeset.
OWN_NODES = ("tree manifests",)
NAMES = [
    "README",
    "Dir.With.Capitals/_under__score/X",
    ".hidden/.too",
    "trailing./dot. /space ",
    " leading",
    "aux/con.txt/prn/com1.c/lpt9",
    "a.i/b.d/c.hg/d.i",
    'odd~name*?:|<>"\\',
    "caf\u00e9/\u674e\u96f7",
    "long/" + "/".join(f"directory-number-{n}" for n in range(9)) + "/name",
    "LONG/" + "N" * 100 + ".CAPITALS",
    "x" * 200 + ".i",
]


def write_history(server: HgServer, repo: Path) -> None:
    """Commit names that stores encode, large files, merges, and a second root."""
    draw = random.Random(7)
    for name in NAMES:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(f"{len(name)}\n" * 30)
    (repo / "binary").write_bytes(draw.randbytes(150_000))  # too large to be inline
    commit(server, repo)
    for number in range(12):
        (repo / NAMES[number]).write_text(f"{number}\n" * 20 * number)
        content = (repo / "binary").read_bytes()
        (repo / "binary").write_bytes(content[:-10] + draw.randbytes(9_000))
        commit(server, repo)
    server.hg(repo, "update", "-q", "5")
    server.hg(repo, "rename", "-q", "README", "README.txt")
    commit(server, repo)
    server.hg(repo, "merge", "-q", "12")
    commit(server, repo)
    server.hg(repo, "update", "-q", "null")
    (repo / "root").write_text("another\n")
    commit(server, repo)
    server.hg(repo, "remove", "-q", "root")
    commit(server, repo)
    server.hg(repo, "update", "-q", "null")
    server.hg(repo, "branch", "-q", "null parents")
    server.hg(repo, "commit", "-qm", "no files at all", "-d", "0 0")


@pytest.fixture(scope="module")
def expected(
    server: HgServer, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], str]:
    """Nodes, ids and refs in the default format."""
    repo = tmp_path_factory.mktemp("default") / "repo"
    server.hg(repo.parent, "init", str(repo))
    write_history(server, repo)
    server.hg(repo, "git::export")
    return ids(server, repo), refs(repo)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", FORMATS_KNOWN)
def test_store_format_does_not_matter(
    tmp_path: Path,
    server: HgServer,
    expected: tuple[list[str], str],
    name: str,
) -> None:
    repo = tmp_path / "repo"
    config = [*FORMATS[name], "storage.all-slow-path=allow"]
    options = [part for option in config for part in ("--config", option)]
    server.hg(tmp_path, "init", str(repo), *options)
    requires = (repo / ".hg" / "requires").read_text().split()
    if "share-safe" in requires:
        requires += (repo / ".hg" / "store" / "requires").read_text().split()
    assert name not in REQUIREMENTS or REQUIREMENTS[name] in requires
    (repo / ".hg" / "hgrc").write_text("[storage]\nall-slow-path = allow\n")
    write_history(server, repo)
    server.hg(repo, "verify")
    done = server.run(repo, "git::export")
    assert done.code == 0, done
    if name in OWN_NODES:
        own = [line.split()[1] for line in ids(server, repo)]
        assert own == [line.split()[1] for line in expected[0]]
        assert heads(refs(repo)) == heads(expected[1])
    else:
        assert (ids(server, repo), refs(repo)) == expected
    git(store_of(repo), "fsck", "--full", "--strict")
    commit_oid = ids(server, repo, "12")[0].split()[1]
    for path in NAMES:
        blob = git(store_of(repo), "cat-file", "blob", f"{commit_oid}:{path}")
        assert blob == server.hg(repo, "cat", "-r", "12", f"path:{path}")


@pytest.mark.parametrize("requirement", ["exp-from-the-future", "exp-revlogv2.3"])
def test_unknown_requirement_is_named_and_nothing_is_written(
    tmp_path: Path, server: HgServer, requirement: str
) -> None:
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))
    (repo / "file").write_text("content\n")
    commit(server, repo)
    requires = repo / ".hg" / "store" / "requires"
    requires.write_text(requires.read_text() + requirement + "\n")
    done = server.run(repo, "git::export")
    assert done.code != 0
    assert requirement in done.err.decode()
    assert not (repo / ".hg" / "amalgam").exists()


def commit(server: HgServer, repo: Path) -> None:
    server.hg(repo, "commit", "-qAm", "all", "-d", "0 0")


def ids(server: HgServer, repo: Path, revs: str = "all()") -> list[str]:
    """Node and oid of changesets."""
    log = server.hg(repo, "log", "-r", revs, "-T", "{node} {gitnode}\n")
    return log.decode().splitlines()


def store_of(repo: Path) -> Path:
    return repo / ".hg" / "amalgam" / "git" / "cinnabar.git"


def heads(refs: str) -> list[str]:
    """Leave out the metadata, which has the nodes of manifests."""
    return [line for line in refs.splitlines() if "refs/cinnabar/" not in line]


def refs(repo: Path) -> str:
    names = git(store_of(repo), "for-each-ref", "--format=%(refname) %(objectname)")
    return names.decode()
