"""Changegroups that the native core writes, beside those that Mercurial writes."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mercurial import changegroup, hg, util
from mercurial.revlogutils import constants
from testlib import odd
from testlib.changegroups import ALONE, LOG, STOCK, took
from testlib.environment import ENVIRONMENT, HG
from testlib.generated import generate
from testlib.hgserver import HgServer
from testlib.oddstore import write

from hgext3rd.amalgam.changegroup import native


def bundles(server: HgServer, repo: Path, *args: str) -> tuple[bytes, bytes]:
    """The same bundle, native and by Mercurial. The first was really native."""
    paths = []
    for name, options in (("native", []), ("stock", STOCK)):
        path = repo.parent / f"{name}.hg"
        took(repo)
        bundle = ["bundle", "-q", "-t", "none-v2", *args, str(path)]
        server.hg(repo, *bundle, *LOG, *options)
        reasons = {"native": "native", "stock": "Mercurial's: amalgam.bundles.native"}
        assert took(repo) == [reasons[name]]
        paths.append(path.read_bytes())
    return paths[0], paths[1]


def check_received(server: HgServer, bundle: bytes, expected: bytes, at: Path) -> None:
    """A Mercurial without amalgam gets the same from both, and finds nothing wrong."""
    seen = []
    for name, content in (("one", bundle), ("two", expected)):
        path = at / f"{name}.hg"
        path.write_bytes(content)
        repo = at / name
        server.hg(at, "init", str(repo), *ALONE)
        server.hg(repo, "unbundle", "-q", str(path), *ALONE)
        server.hg(repo, "verify", "-q", *ALONE)
        log = ["log", "-T", "{rev} {node} {manifest} {phase}\n", *ALONE]
        seen.append(server.hg(repo, *log))
    assert seen[0] == seen[1]


@pytest.fixture(scope="module")
def merges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with merges, branches and a few hundred changesets."""
    path = tmp_path_factory.mktemp("merges") / "repo"
    return generate(path, "merges", "--changesets=300")


@pytest.fixture
def small(tmp_path: Path, server: HgServer) -> Path:
    """A repository of a few changesets, to be damaged."""
    repo = tmp_path / "small"
    server.hg(tmp_path, "init", str(repo))
    for number in range(4):
        (repo / "a").write_text("line\n" * 50 + f"{number}\n")
        (repo / f"b{number}").write_text("other\n")
        server.hg(repo, "commit", "-qAm", str(number), "-d", "0 0", "-u", "me")
    return repo


@pytest.mark.parametrize("version", ["02", "03"])
@pytest.mark.parametrize(
    "args",
    [
        ["--all"],
        ["--base", "100"],
        ["-r", "200", "--base", "100"],
        ["-r", "tip", "--base", "null"],
        ["-r", "50:60", "--base", "10", "--base", "30"],
    ],
    ids=" ".join,
)
def test_bytes_are_those_of_mercurial(
    merges: Path, server: HgServer, args: list[str], version: str
) -> None:
    kind = ["-t", f"none-v2;cg.version={version}"]
    native, stock = bundles(server, merges, *kind, *args)
    assert native == stock


@pytest.mark.parametrize("seed", range(1, 9))
def test_odd_histories_arrive(seed: int, tmp_path: Path, server: HgServer) -> None:
    repo = tmp_path / "odd"
    write(repo, odd.steps(seed))
    hidden = ["--hidden"] if seed % 2 else []
    native, stock = bundles(server, repo, "--all", *hidden)
    if native != stock:
        check_received(server, native, stock, tmp_path)
    heads = server.hg(repo, "log", "-r", "heads(all())", "-T", "{rev}\n").split()
    one = ["-r", heads[0].decode(), "--base", "null"]
    native, stock = bundles(server, repo, *one)
    if native != stock:
        check_received(server, native, stock, tmp_path)


def test_copy_in_a_merge_is_sent_alike_behind_much_of_its_file(
    tmp_path: Path, server: HgServer
) -> None:
    """Its first parent is null, its second is not: only files have such revisions."""
    repo, draw = tmp_path / "repo", random.Random(1)
    server.hg(tmp_path, "init", str(repo))

    def commit(text: str, *on: str) -> None:
        if on:
            server.hg(repo, "update", "-q", *on)
        (repo / "large").write_text(text)
        server.hg(repo, "commit", "-qAm", "new", "-d", "0 0", "-u", "me")

    (repo / "source").write_text("other\n")
    # more than one job writes of a file
    first, second = (draw.randbytes(400_000).hex() for _ in range(2))
    commit(first)
    commit(second)
    commit(f"{second}\none\n")
    commit(f"{second}\ntwo\n", "1")
    server.hg(repo, "merge", "-q", "--tool", ":local", "2")
    server.hg(repo, "copy", "-q", "--force", "source", "large")
    server.hg(repo, "commit", "-qm", "merged", "-d", "0 0", "-u", "me")
    parents = server.hg(repo, "debugindex", "large").split()[-2:]
    assert parents[0] == b"0" * 12 != parents[1]
    native, stock = bundles(server, repo, "--all")
    assert native == stock


def test_flag_that_mercurial_leaves_on_a_merge_is_sent(
    tmp_path: Path, server: HgServer, ui: Any
) -> None:
    if util.version().startswith(b"7.1"):
        return  # it ends such a merge with an AssertionError
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))
    lines = ["\1\n", *(f"{number}\n" for number in range(9))]
    for number, changed in enumerate(
        (lines, ["\1\n", "first\n", *lines[1:]], [*lines, "last\n"])
    ):
        server.hg(repo, "update", "-q", "0" if number else "null")
        (repo / "file").write_text("".join(changed))
        server.hg(repo, "commit", "-qAm", str(number), "-d", "0 0", "-u", "me")
    server.hg(repo, "merge", "-q", "--tool", ":merge", "-r", "1")
    server.hg(repo, "commit", "-m", "merge", "-d", "0 0", "-u", "me")
    log = hg.repository(ui, os.fsencode(repo)).file(b"file")._revlog
    assert log.flags(3) == getattr(constants, "REVIDX_HASMETA", 0)
    native, stock = bundles(server, repo, "--all", "-t", "none-v2;cg.version=03")
    assert native == stock


def test_manifests_above_an_empty_one_are_sent(
    tmp_path: Path, server: HgServer
) -> None:
    """They are deltas of a text of no length, which is not one of unknown length."""
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))

    def commit(name: str, *files: str) -> None:
        for file in files:
            (repo / file).write_text(f"{name} {file}\n")
        server.hg(repo, "commit", "-qAm", name, "-d", "0 0", "-u", "me")

    commit("first", *"abcdef")
    server.hg(repo, "remove", "-q", "set:**")
    commit("emptied")
    commit("again", *"ghijkl")
    server.hg(repo, "update", "-q", "1")
    commit("other", "x")
    # what the receiver has comes after what it has not
    native, stock = bundles(server, repo, "--base", "3")
    assert native == stock


def test_delta_is_computed_if_the_receiver_has_not_its_base(
    tmp_path: Path, server: HgServer
) -> None:
    repo = tmp_path / "repo"
    server.hg(tmp_path, "init", str(repo))
    lines = [f"{number} {number * 7919 % 1009}\n" for number in range(400)]
    (repo / "a").write_text("".join(lines))
    server.hg(repo, "commit", "-qAm", "0", "-d", "0 0", "-u", "me")
    for number in range(1, 9):
        server.hg(repo, "update", "-q", "0")
        changed = [*lines[:200], f"{number}\n" * number, *lines[200:], "end\n"]
        (repo / "a").write_text("".join(changed))
        server.hg(repo, "commit", "-qm", str(number), "-d", "0 0", "-u", "me")
    # each is stored as a delta of the one before, which is not an ancestor
    force = ["--config", "storage.revlog.optimize-delta-parent-choice=no"]
    native, stock = bundles(server, repo, "-r", "0+8", "--base", "null", *force)
    check_received(server, native, stock, tmp_path)
    assert len(native) < len(stock) + 100


def test_secret_changesets_stay(small: Path, server: HgServer, tmp_path: Path) -> None:
    server.hg(small, "phase", "--secret", "--force", "3")
    url = f"file://{small}"
    clone = tmp_path / "clone"
    took(small)
    server.hg(tmp_path, "clone", "-q", "--pull", "-U", url, str(clone), *LOG)
    assert took(small) == ["native"]
    assert server.hg(clone, "log", "-T", "{rev}{files}\n") == b"2b2\n1b1\n0a b0\n" or (
        server.hg(clone, "log", "-T", "{rev}\n") == b"2\n1\n0\n"
    )
    server.hg(clone, "verify", "-q", *ALONE)


def test_push_and_strip_are_native(
    small: Path, server: HgServer, tmp_path: Path
) -> None:
    server.hg(tmp_path, "init", "other")
    took(small)
    server.hg(small, "push", "-q", str(tmp_path / "other"), *LOG)
    assert took(small) == ["native"]
    strip = ["--config", "extensions.strip=", "strip", "-q", "-r", "2"]
    server.hg(small, *strip, *LOG)
    assert took(small) == ["native"]
    (backup,) = (small / ".hg" / "strip-backup").iterdir()
    server.hg(small, "unbundle", "-q", str(backup))
    server.hg(small, "verify", "-q", *ALONE)


def test_hooks_are_run_once(small: Path, server: HgServer) -> None:
    hooks = []
    for name in ("preoutgoing", "outgoing"):
        hooks += ["--config", f"hooks.{name}=echo {name} $HG_SOURCE $HG_NODE"]
    out = small.parent / "out.hg"
    said = server.hg(small, "bundle", "--all", str(out), *hooks).decode()
    node = server.hg(small, "log", "-r", "0", "-T", "{node}").decode()
    assert (
        said.count("preoutgoing bundle") == said.count(f"outgoing bundle {node}") == 1
    )


#: What Mercurial writes itself: arguments of the bundle, and the reason.
FALLS_THROUGH = {
    "config": (STOCK, "amalgam.bundles.native"),
    "sizes": (["--verbose"], "sizes are shown"),
    "delta": (["--config", "devel.bundle.delta=p1"], "debugging"),
    "statistics": (["--config", "debug.bundling-stats=yes"], "debugging"),
    "version 1": (["-t", "none-v1"], "version 01"),
}


@pytest.mark.parametrize("row", FALLS_THROUGH)
def test_what_is_not_known_is_left_to_mercurial(
    row: str, small: Path, server: HgServer
) -> None:
    args, reason = FALLS_THROUGH[row]
    out = small.parent / "out.hg"
    took(small)
    server.hg(small, "bundle", "--all", str(out), *LOG, *args)
    assert took(small) == [f"Mercurial's: {reason}"]


FORMATS = {
    "treemanifest": ["experimental.treemanifest=yes"],
    "changelogv2": [
        "format.exp-use-changelog-v2=enable-unstable-format-and-corrupt-my-data"
    ],
}


@pytest.mark.parametrize("form", FORMATS)
def test_format_that_is_not_known_is_left_to_mercurial(
    form: str, tmp_path: Path, server: HgServer, ui: Any
) -> None:
    options = [part for item in FORMATS[form] for part in ("--config", item)]
    server.hg(tmp_path, "init", "repo", *options)
    ui.setconfig(b"experimental", b"changegroup5", b"yes")
    repo = hg.repository(ui, os.fsencode(tmp_path / "repo"))
    packer = changegroup.getbundler(changegroup.safeversion(repo), repo)
    reason = native.fallback_reason(packer, 1, has_changelog=True)
    assert re.match(rb"requirement|version", reason)


def test_few_changesets_of_many_are_left_to_mercurial(
    merges: Path, server: HgServer
) -> None:
    text = (
        "from hgext3rd.amalgam.changegroup import native as fallthrough\n"
        "def extsetup(ui): fallthrough._REVS_A_CHANGESET = 100\n"
    )
    extension = merges.parent / "fewer.py"
    extension.write_text(text)
    options = [*LOG, "--config", f"extensions.fewer={extension}", "-t", "none-v2"]
    took(merges)
    command = [str(HG), "--config", "extensions.amalgam=", "-R", str(merges)]
    out = str(merges.parent / "out.hg")
    one = ["-r", "tip", "--base", "parents(tip)"]
    for args, reason in ((one, "Mercurial's: few changesets"), (["--all"], "native")):
        bundle = ["bundle", "-q", *args, *options, out]
        subprocess.run([*command, *bundle], env=ENVIRONMENT, check=True)
        assert took(merges) == [reason]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("data/a.i", b"filelog a: "),
        ("00manifest.i", b"manifest: "),
        ("data/b2.i", b"filelog b2: "),
    ],
)
def test_damage_is_named_and_leaves_no_file(
    small: Path, server: HgServer, path: str, said: bytes
) -> None:
    damaged = small / ".hg" / "store" / path
    content = bytearray(damaged.read_bytes())
    content[-3] ^= 0x40
    damaged.write_bytes(content)
    out = small.parent / "out.hg"
    ended = server.run(small, "bundle", "-q", "--all", str(out))
    assert (ended.code, ended.err[:7]) == (50, b"abort: ")
    assert said in ended.err
    assert not out.exists()


def test_missing_filelog_is_named(small: Path, server: HgServer) -> None:
    (small / ".hg" / "store" / "data" / "b2.i").unlink()
    out = small.parent / "out.hg"
    ended = server.run(small, "bundle", "-q", "--all", str(out))
    assert b"filelog b2: it is empty or missing" in ended.err
    assert not out.exists()


@pytest.fixture
def progress() -> list[str]:
    return [
        *("--config", "progress.delay=0", "--config", "progress.assume-tty=yes"),
        *("--config", "extensions.progress=", "--config", "progress.debug=yes"),
    ]


def test_progress_has_the_topics_of_mercurial(
    small: Path, server: HgServer, progress: list[str]
) -> None:
    out = str(small.parent / "out.hg")
    topics = []
    for options in ((), STOCK):
        ended = server.run(
            small, "bundle", "--debug", "--all", out, *progress, *options
        )
        found = re.findall(rb"^(changesets|manifests|files): ", ended.out, re.MULTILINE)
        topics.append(set(found))
    assert topics[1] == {b"changesets", b"manifests", b"files"}
    # what is done at once is not shown
    assert topics[0]
    assert topics[0] <= topics[1]
