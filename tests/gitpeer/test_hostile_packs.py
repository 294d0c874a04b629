"""Packs that would take memory, disk or time without end, in clones and pulls.

A host sends them in place of its own. hg ends with one line, within its limits, and
with the repository as it was. The next good pull leaves what a clone from scratch has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testlib import hostilepacks
from testlib.environment import ENVIRONMENT, HG, captured, git
from testlib.gitclone import Clone
from testlib.githost import Behaviour, HostedRepository, git_host
from testlib.hostilepacks import BLOB, BY_ID, COMMIT, TREE, object_id

pytestmark = pytest.mark.slow

_MAIN = "refs/heads/main"
_FORM = "{node} {phase} {bookmarks} {gittags} {gitnode}\n"
_LIMITS = {"max-pull": "8MB", "max-pull-file": "32MB", "memory": "64MB"}
_OPTIONS = [f"--config=amalgam.git.{name}={it}" for name, it in _LIMITS.items()]
_MOST_MB = 200
_MOST_BYTES = 9 << 20
# prints the peak of memory of any process, in KB
_MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([done.returncode, done.stdout + done.stderr, peak >> 10]))
"""
_LONG = b"x" * (1 << 16)
_ZEROS = bytes(40 << 20)


class _Scene:
    """A host, a project there, and a clone of it."""

    def __init__(self, root: Path, project: HostedRepository) -> None:
        self._root = root
        self.project = project
        self._url = f"git+{project.url}"
        self._clone = Clone(root / "clone")
        self._clone.hg("clone", "-q", "-U", self._url, str(self._clone.root))
        self._again = root / "again"

    def advertise(self, commit: bytes) -> None:
        """Let the branch lead to a commit, whose objects the host need not have."""
        path = self._root / "commit"
        path.write_bytes(commit)
        args = ("hash-object", "-t", "commit", "--literally", "-w", str(path))
        self.project.git("update-ref", _MAIN, self.project.git(*args))

    def store(self, content: bytes) -> None:
        """Give the host a file, and the directory that has it alone."""
        path = self._root / "file"
        path.write_bytes(content)
        oid = self.project.git("hash-object", "-w", str(path))
        tree = f"100644 blob {oid}\tfile\n".encode()
        captured(["git", "mktree"], self.project.path, input=tree, check=True)

    def run(self, command: str) -> tuple[int, str, int]:
        """Run a clone or a pull; return exit code, output and peak of memory in MB."""
        given = ["clone", "-q", "-U", self._url, str(self._again)]
        if command == "copy":
            given[3] = str(self.project.path)
        if command == "pull":
            given = ["pull", "-q", "-R", str(self._clone.root)]
        hg = [str(HG), "--config", "extensions.amalgam=", *_OPTIONS, *given]
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, *hg],
            cwd=self._root,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            check=True,
        )
        code, output, peak = json.loads(done.stdout)
        return code, output, peak

    def history(self, clone: Clone | None = None) -> str:
        return (clone or self._clone).hg("log", "-T", _FORM)

    def size(self) -> int:
        """Return how many bytes all files of both clones have."""
        roots = [self._clone.root, self._again]
        files = [it for root in roots for it in root.rglob("*") if it.is_file()]
        return sum(it.stat().st_size for it in files)

    def end_well(self) -> None:
        """Let the host be good again; pull, and compare with a clone from scratch."""
        self.project.behaviour = Behaviour()
        self.project.git("update-ref", _MAIN, "refs/heads/good")
        self.project.edit(_MAIN, "news")
        assert not self._again.exists()
        code, output, _peak = self.run("pull")
        assert code == 0, output
        assert self.run("clone")[0] == 0
        assert self.history() == self.history(Clone(self._again))
        assert "warning" not in self._clone.hg("verify", "-q")
        git(self._clone.root / ".hg/amalgam/fetched/objects.git", "fsck", "--full")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[_Scene]:
    with git_host(tmp_path / "host") as host:
        project = host.add("project.git")
        project.git("symbolic-ref", "HEAD", _MAIN)
        for number in range(5):
            project.edit(_MAIN, f"main {number}")
        project.git("update-ref", "refs/heads/good", _MAIN)
        yield _Scene(tmp_path, project)


def _with_file(content: bytes) -> tuple[bytes, bytes]:
    """Return a tree with a file, and a commit that has it."""
    tree = b"100644 file\0" + object_id(b"blob", content)
    return tree, hostilepacks.commit(object_id(b"tree", tree), [])


def _bomb_of_deltas() -> tuple[bytes, bytes]:
    """200 bytes that become 3 GB, which git would make in memory."""
    _tree, commit = _with_file(b"")
    delta = hostilepacks.repeated(_LONG, 3 << 30)
    entries = [(BLOB, b"", _LONG), (BY_ID, object_id(b"blob", _LONG), delta)]
    return commit, hostilepacks.pack([(COMMIT, b"", commit), *entries])


def _large_file() -> tuple[bytes, bytes]:
    tree, commit = _with_file(_ZEROS)
    entries = [(COMMIT, b"", commit), (TREE, b"", tree), (BLOB, b"", _ZEROS)]
    return commit, hostilepacks.pack(entries)


def _large_commit() -> tuple[bytes, bytes]:
    tree, _commit = _with_file(b"")
    commit = hostilepacks.commit(object_id(b"tree", tree), [], b"x" * len(_ZEROS))
    entries = [(COMMIT, b"", commit), (TREE, b"", tree), (BLOB, b"", b"")]
    return commit, hostilepacks.pack(entries)


def _large_tree() -> tuple[bytes, bytes]:
    """A directory that is said to have more than a million names."""
    line = b"100644 %07d\0" + object_id(b"blob", b"")
    tree = b"".join(line % number for number in range(1_200_000))
    commit = hostilepacks.commit(object_id(b"tree", tree), [])
    entries = [(COMMIT, b"", commit), (TREE, b"", tree), (BLOB, b"", b"")]
    return commit, hostilepacks.pack(entries)


def _more_objects_than_there_are() -> tuple[bytes, bytes]:
    tree, commit = _with_file(b"")
    entries = [(COMMIT, b"", commit), (TREE, b"", tree), (BLOB, b"", b"")]
    return commit, hostilepacks.pack(entries, count=(1 << 32) - 1)


def _cycle() -> tuple[bytes, bytes]:
    """Two deltas, each the base of the other."""
    tree, commit = _with_file(b"")
    ids = [object_id(b"blob", it) for it in (b"", b"other")]
    delta = hostilepacks.appended(1, b"y")
    entries = [(COMMIT, b"", commit), (TREE, b"", tree)]
    return commit, hostilepacks.pack([*entries, *((BY_ID, it, delta) for it in ids)])


def _long_pack() -> tuple[bytes, bytes]:
    _tree, commit = _with_file(b"")
    entries = [(BLOB, b"", os.urandom(1 << 20)) for _number in range(20)]
    return commit, hostilepacks.pack([(COMMIT, b"", commit), *entries])


def _deep() -> tuple[bytes, bytes]:
    """A chain of deltas that no reader follows by recursion: it is a good pack."""
    content, chain = b"x", [(BLOB, b"", b"x")]
    for number in range(12_000):
        more = b"%d" % (number % 10)
        delta = hostilepacks.appended(len(content), more)
        chain.append((BY_ID, object_id(b"blob", content), delta))
        content += more
    tree, commit = _with_file(content)
    return commit, hostilepacks.pack([*chain, (COMMIT, b"", commit), (TREE, b"", tree)])


_HOSTILE = {
    "bomb of deltas": (_bomb_of_deltas, "an object takes more than 32.0 MB"),
    "large file": (_large_file, "an object takes more than 32.0 MB"),
    "large commit": (_large_commit, "an object takes more than 32.0 MB"),
    "large tree": (_large_tree, ""),
    "more objects": (_more_objects_than_there_are, ""),
    "cycle": (_cycle, "index-pack"),
    "long": (_long_pack, "the pack is larger than 8.00 MB"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", ["pull", "clone"])
@pytest.mark.parametrize(("made", "reason"), _HOSTILE.values(), ids=_HOSTILE)
def test_a_hostile_pack_ends_within_limits(
    scene: _Scene, command: str, made: Callable[[], tuple[bytes, bytes]], reason: str
) -> None:
    before, size = scene.history(), scene.size()
    commit, pack = made()
    scene.advertise(commit)
    alter = hostilepacks.in_place_of_packs(pack)
    scene.project.behaviour = Behaviour(alters=alter)
    code, output, peak = scene.run(command)
    aborts = [it for it in output.splitlines() if it.startswith("abort: ")]
    assert (code, len(aborts)) == (255, 1), output
    assert reason in aborts[0], output
    assert "Traceback" not in output
    assert output.splitlines()[-1].startswith("("), output
    assert peak < _MOST_MB, f"{peak} MB: {output}"
    assert scene.history() == before
    assert scene.size() - size < _MOST_BYTES
    scene.end_well()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_ZEROS, "a file is too large: "),
        (os.urandom(9 << 20), "the pack is larger than 8.00 MB"),
    ],
    ids=["large file", "long"],
)
def test_a_local_repository_has_the_same_limits(
    scene: _Scene, content: bytes, reason: str
) -> None:
    """Its objects are copied, and the conversion verifies them."""
    _tree, commit = _with_file(content)
    scene.store(content)
    scene.advertise(commit)
    code, output, peak = scene.run("copy")
    assert code == 255, output
    assert f"{reason}" in output, output
    assert "max-pull" in output.splitlines()[-1], output
    assert peak < _MOST_MB
    scene.end_well()


@pytest.mark.parametrize("command", ["pull", "clone"])
def test_a_deep_chain_of_deltas_is_read(scene: _Scene, command: str) -> None:
    commit, pack = _deep()
    scene.project.git("update-ref", "-d", "refs/heads/good")
    scene.advertise(commit)
    scene.project.behaviour = Behaviour(alters=hostilepacks.in_place_of_packs(pack))
    code, output, peak = scene.run(command)
    assert code == 0, output
    assert peak < _MOST_MB
