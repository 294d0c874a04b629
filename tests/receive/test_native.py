"""Stores that the core writes, compared with those that Mercurial writes."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from testlib.environment import git
from testlib.gitclone import Clone

ORDINARY = ("--config", "hooks.changegroup=true")
NAMES = [
    "ChangeLog",
    "src/Main.C",
    "src/main.c",
    ".dot/aux.i",
    "data.d/x.i",
    f"long/{'directory/' * 12}name",
    "ünï/ code ",
]

# metadata of hg-git, which other dialects keep as text
BRANCH = "m\n--HG--\nbranch : ünï : one\n"
MESSAGES = {
    4: BRANCH,
    5: "m\n--HG--\nbranch : two\n",
    6: f"{BRANCH}extra : close : 1\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history that needs snapshots: branches of files with long chains."""
    path = tmp_path_factory.mktemp("native") / "project.git"
    git(path.parent, "init", "-q", "--bare", path.name)
    draw = random.Random(1)
    texts = {name: [f"{name} {line}\n" for line in range(300)] for name in NAMES}
    stream: list[bytes] = []
    mark = 0

    def commit(*parents: int, changes: list[bytes]) -> int:
        nonlocal mark
        mark += 1
        head = f"commit refs/heads/work\nmark :{mark}\n"
        text = MESSAGES.get(mark % 10, "m\n").encode()
        head += f"committer A <a@x> {mark} +0000\ndata {len(text)}\n{text.decode()}"
        links = [f"from :{parents[0]}\n"] if parents else []
        links += [f"merge :{it}\n" for it in parents[1:]]
        stream.extend([(head + "".join(links)).encode(), *changes])
        return mark

    def file(name: str, content: bytes) -> bytes:
        head = f'M 100644 inline "{name}"\ndata {len(content)}\n'
        return head.encode() + content + b"\n"

    branches = [commit(changes=[file("empty", b""), file("mark", b"\1\nx\n\1\n")])]
    for number in range(580):
        name = draw.choice(NAMES)
        lines = texts[name]
        at = 0 if name == "ChangeLog" else draw.randrange(len(lines))
        lines.insert(at, f"{draw.random()}\n")
        if number % 5 == 0:
            del lines[draw.randrange(len(lines))]
        changes = [file(name, "".join(lines).encode())]
        if number % 50 == 0:
            changes += [file("random", draw.randbytes(5000)), file("mark", b"\1\ny")]
        if number % 97 == 0:
            changes = [b'D "mark"\n']
        if number % 60 == 10 and len(branches) < 4:
            branches.append(commit(branches[0], changes=changes))
        elif number % 60 == 50 and len(branches) > 1:
            merged = commit(branches[0], branches.pop(), changes=changes)
            branches[0] = merged
        else:
            place = draw.randrange(len(branches))
            branches[place] = commit(branches[place], changes=changes)
    for number, branch in enumerate(branches):
        stream.append(f"reset refs/heads/keep{number}\nfrom :{branch}\n".encode())
    command = ["git", "-C", str(path), "fast-import", "--quiet"]
    subprocess.run(command, input=b"".join(stream), check=True)
    git(path, "symbolic-ref", "HEAD", "refs/heads/keep0")
    git(path, "update-ref", "-d", "refs/heads/work")
    return path


def cloned(tmp_path: Path, project: Path, name: str, *args: str) -> tuple[Clone, str]:
    clone = Clone(tmp_path / name)
    output = clone.hg("clone", "-U", *args, f"git+file://{project}", str(clone.root))
    return clone, output


def sizes(clone: Clone) -> dict[str, int]:
    found = {"00changelog": 0, "00manifest": 0, "data": 0}
    store = clone.root / ".hg" / "store"
    for path in store.rglob("*.[id]"):
        name = path.relative_to(store).parts[0].partition(".")[0]
        found["data" if name == "dh" else name] += path.stat().st_size
    return found


def modes(clone: Clone) -> dict[str, int]:
    paths = (clone.root / ".hg/store").rglob("*.[id]")
    return {it.name: it.stat().st_mode & 0o777 for it in paths if it.is_file()}


def longest_chain(clone: Clone, revlog: str) -> int:
    output = clone.hg("debugrevlog", revlog)
    return int(re.findall(r"max chain length *: *(\d+)", output)[0])


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["cinnabar", "hggit"])
@pytest.mark.parametrize("compression", ["zstd", "zlib"])
def test_a_clone_is_as_mercurial_would_have_made_it(
    tmp_path: Path, project: Path, dialect: str, compression: str
) -> None:
    config = ["--config", f"format.revlog-compression={compression}"]
    # messages of Mercurial are shown in both dialects
    for item in (f"amalgam.git.dialect={dialect}", "ui.verbose=yes"):
        config += ["--config", item]
    native, output = cloned(tmp_path, project, "native", *config)
    ordinary, other = cloned(tmp_path, project, "ordinary", *config, *ORDINARY)
    assert "adding changesets" in other
    assert "adding changesets" not in output
    said = [line for line in output.splitlines() if line.startswith("added ")]
    assert said == [line for line in other.splitlines() if line.startswith("added ")]
    log = ("log", "-T", "{rev} {node} {parents} {phase} {bookmarks} {branch}\n")
    assert native.hg(*log) == ordinary.hg(*log)
    assert ("two" in native.hg("branches", "--closed")) == (dialect == "hggit")
    # branches of changesets, which Mercurial notes when it adds a changegroup
    cached = [
        sorted((it.root / ".hg/cache").glob("rbc-*")) for it in (native, ordinary)
    ]
    assert len(cached[0]) == 2
    for one, two in zip(*cached, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert "warning" not in native.hg("verify")
    store = Path(".hg") / "store"
    caches = [(it.root / store / "fncache").read_bytes() for it in (native, ordinary)]
    assert {*caches[0].splitlines()} == {*caches[1].splitlines()}
    for content in caches:  # a process has its own order of sets
        lines = content.replace(b".d.hg/", b".d/").splitlines()
        assert lines == sorted(lines)
    requires = [
        (it.root / ".hg" / "requires").read_bytes() for it in (native, ordinary)
    ]
    assert requires[0] == requires[1]
    assert modes(native) == modes(ordinary)
    mine, theirs = sizes(native), sizes(ordinary)
    for kind, size in theirs.items():
        assert abs(mine[kind] - size) <= size / 20, (mine, theirs)
    for revlog in ("-m", "ChangeLog", "src/main.c"):
        longest = longest_chain(ordinary, revlog)
        assert 1 < longest_chain(native, revlog) <= longest, revlog


@pytest.mark.slow
def test_a_killed_clone_leaves_an_empty_repository(
    tmp_path: Path, project: Path
) -> None:
    clone = Clone(tmp_path / "clone")
    clone.hg("init", str(clone.root))
    (clone.root / ".hg/store").chmod(0o2775)
    url = f"git+file://{project}"
    for hook, recovers in (("false", False), ("kill -9 $PPID", True)):
        code, output = clone.run("pull", url, "--config", f"hooks.pretxnclose={hook}")
        assert code, output
        assert "adding changesets" not in output
        if recovers:
            assert "interrupted transaction" in clone.hg("recover")
        assert clone.hg("log") == ""
        left = [it for it in os.listdir(clone.root / ".hg/store") if "00" in it]
        assert left == []
        assert not [*(clone.root / ".hg/store").rglob("*.[id]")]
    assert "adding changesets" not in clone.hg("pull", url)
    assert {*modes(clone).values()} == {0o664}  # as the directory
    count = git(project, "rev-list", "--count", "--all").strip()
    assert clone.hg("log", "-r", "tip", "-T", "{rev}") == str(int(count) - 1)
    assert "no changes found" in clone.hg("pull", url)
    assert "warning" not in clone.hg("verify")


def test_repositories_with_changesets_and_with_hooks_get_a_changegroup(
    tmp_path: Path, project: Path
) -> None:
    clone, output = cloned(tmp_path, project, "clone", "-r", "keep0")
    assert "adding changesets" not in output
    assert "adding changesets" in clone.hg("pull")
    for hook in ("incoming", "pretxnchangegroup.check"):
        config = ("--config", f"hooks.{hook}=true")
        _clone, output = cloned(tmp_path, project, hook, *config)
        assert "adding changesets" in output
