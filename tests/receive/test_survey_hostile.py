"""Surveys of repositories that are odd, incomplete or hostile, and interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, git
from testlib.mirrors import write_object
from testlib.small import run_hg, said

ROOT = Path("/")
TREE = b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a working directory and three commits."""
    path = tmp_path / "project"
    git(tmp_path, "init", "-q", "-b", "main", str(path))
    for number in range(3):
        (path / "dir").mkdir(exist_ok=True)
        (path / "dir" / f"file{number}").write_text(f"{number}\n")
        git(path, "add", ".")
        git(path, "commit", "-qm", f"commit {number}")
    return path


def survey(path: object, *args: str) -> subprocess.CompletedProcess[bytes]:
    return run_hg(ROOT, "git::survey", str(path), *args)


def counted(path: object, *args: str) -> tuple[int, int]:
    """Return how many commits were surveyed, and how many survive."""
    done = survey(path, "-T", "json", *args)
    assert done.returncode in (0, 1), said(done)
    (found,) = json.loads(done.stdout)
    return found["commits"], found["survivors"]


def refusal(path: object, *args: str) -> str:
    """Return what a survey that is refused says, of one line and its hint."""
    done = survey(path, *args)
    text = said(done)
    assert done.returncode == 10, text
    assert text.startswith("abort: ")
    assert len(text.splitlines()) <= 2
    return text


def state(path: Path) -> dict[str, tuple[int, int]]:
    """Return what is in a directory, and when it changed."""
    found = ((file, file.lstat()) for file in path.rglob("*"))
    return {str(file): (it.st_mtime_ns, it.st_size) for file, it in found}


def test_nothing_is_written(root: Path, tmp_path: Path) -> None:
    before = state(root)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [str(HG), "--config", "extensions.amalgam=", "git::survey", str(root)]
    environment = ENVIRONMENT | {"TMPDIR": str(temporary)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    assert state(root) == before
    assert not [*temporary.iterdir()]


@pytest.mark.parametrize(
    "rev", ["--all", "-n1", "--output=x", "--", "-", "", "main\n--all"]
)
def test_revision_like_an_option_is_refused(root: Path, rev: str) -> None:
    assert "is not a revision of git" in refusal(root, "--", rev)


@pytest.mark.parametrize("rev", ["nope", "main..nope", "f" * 40, "\x1b[2J"])
def test_unknown_revision_is_named(root: Path, rev: str) -> None:
    text = refusal(root, rev)
    assert "git cannot read" in text
    assert "\x1b" not in text


def test_revisions_are_those_of_git(root: Path) -> None:
    git(root, "tag", "v1", "main~1")
    git(root, "tag", "-a", "-m", "annotated", "v2", "main~2")
    assert counted(root, "main~1") == (2, 2)
    assert counted(root, "v1..main") == (1, 1)
    assert counted(root, "main", "^v2") == (2, 2)
    assert counted(root, "HEAD~2") == (1, 1)
    assert counted(root, "v2") == (1, 1)


def test_everything_is_branches_tags_and_remotes(root: Path) -> None:
    tree = git(root, "rev-parse", "main^{tree}").strip()
    for number, ref in enumerate(
        ["refs/tags/t", "refs/remotes/o/b", "refs/notes/n", "refs/pull/1", "refs/stash"]
    ):
        content = b"tree %s\nauthor A <a> %d +0000\ncommitter A <a> 1 +0000\n\n"
        oid = write_object(root, "commit", content % (tree, number))
        git(root, "update-ref", ref, oid)
    assert counted(root) == (5, 5)
    assert counted(root, "refs/notes/n") == (1, 1)
    git(root, "pack-refs", "--all")
    assert counted(root) == (5, 5)
    git(root, "symbolic-ref", "refs/remotes/o/HEAD", "refs/remotes/o/b")
    assert counted(root, "o") == (1, 1)


def test_detached_head_is_surveyed(root: Path) -> None:
    git(root, "checkout", "-q", "--detach")
    git(root, "commit", "-q", "--allow-empty", "-m", "detached")
    assert counted(root) == (4, 4)


def test_empty_repository_has_no_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    assert counted(tmp_path / "empty") == (0, 0)


def test_refs_with_bad_names_are_left_out(root: Path) -> None:
    oid = git(root, "rev-parse", "main").decode()
    (root / ".git/refs/heads/bad name").write_text(oid)
    (root / ".git/refs/heads/bad.lock").write_text(oid)
    (root / ".git/refs/heads/broken").write_text("ref: ../../../etc/passwd\n")
    (root / ".git/packed-refs").write_text(f"{oid.strip()} refs/heads/../../x\n")
    assert counted(root) == (3, 3)


@pytest.mark.parametrize("name", ["nothing", "file", "directory"])
def test_what_is_no_repository_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "directory").mkdir()
    assert "is not a git repository" in refusal(tmp_path / name)


def test_shallow_clone_is_refused(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{root}", "shallow")
    assert "is a shallow clone" in refusal(tmp_path / "shallow")


def test_partial_clone_needs_trees_and_fetches_nothing(
    root: Path, tmp_path: Path
) -> None:
    git(root, "config", "uploadpack.allowFilter", "true")
    for name in ("blob:none", "tree:0"):
        args = ("--bare", f"--filter={name}", f"file://{root}", name[:4])
        git(tmp_path, "clone", "-q", *args)
    assert counted(tmp_path / "blob") == (3, 3)
    before = state(tmp_path / "tree")
    text = refusal(tmp_path / "tree")
    assert "is missing" in text
    assert "make a full clone" in text
    assert state(tmp_path / "tree") == before


def test_alternates_are_not_followed(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(root), "shared")
    assert "git cannot read" in refusal(tmp_path / "shared")


def test_sha256_and_reftables_are_refused(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "other")
    assert "has ids of sha256" in refusal(tmp_path / "other")
    (root / ".git/reftable").mkdir()
    assert "reftables" in refusal(root)


def test_damaged_object_is_an_error(root: Path) -> None:
    git(root, "gc", "-q")
    (pack,) = (root / ".git/objects/pack").glob("*.pack")
    content = bytearray(pack.read_bytes())
    content[20:200] = b"\xff" * 180
    pack.chmod(0o600)
    pack.write_bytes(content)
    done = survey(root)
    assert done.returncode in (10, 50), said(done)
    assert said(done).startswith("abort: ")


def test_replacements_and_grafts_are_ignored(root: Path) -> None:
    content = git(root, "cat-file", "commit", "main~1")
    signed = content.replace(b"\n\n", b"\ngpgsig x\n\n", 1)
    git(root, "replace", "main~1", write_object(root, "commit", signed))
    assert counted(root) == (3, 3)
    oid = git(root, "rev-parse", "main").decode()
    (root / ".git/info/grafts").write_text(oid)
    assert counted(root) == (3, 3)


def test_commit_graph_is_not_believed(root: Path) -> None:
    git(root, "commit-graph", "write", "--reachable")
    (graph,) = (root / ".git/objects/info").glob("commit-graph")
    graph.chmod(0o600)
    graph.write_bytes(b"\0" * graph.stat().st_size)
    assert counted(root) == (3, 3)


def test_configuration_and_hooks_run_nothing(root: Path, tmp_path: Path) -> None:
    marker = tmp_path / "was-here"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    with (root / ".git/config").open("a") as file:
        for key in (
            *("core.fsmonitor", "core.sshCommand", "core.pager", "core.askPass"),
            *("core.alternateRefsCommand", "uploadpack.packObjectsHook"),
            *("filter.x.clean", "diff.external", "gpg.program", "alias.rev-list"),
        ):
            section, _dot, name = key.rpartition(".")
            section, _dot, sub = section.partition(".")
            head = f'[{section} "{sub}"]' if sub else f"[{section}]"
            file.write(f"{head}\n\t{name} = {program}\n")
        file.write(f'[include]\n\tpath = {tmp_path}/other\n[remote "o"]\n')
        file.write(f"\tpromisor = true\n\turl = ext::{program}\n")
        file.write("[extensions]\n\tpartialClone = o\n")
    for hook in ("post-checkout", "pre-auto-gc", "reference-transaction"):
        (root / ".git/hooks").mkdir(exist_ok=True)
        (root / ".git/hooks" / hook).symlink_to(program)
    assert counted(root) == (3, 3)
    git_dir = root / ".git"
    (lost,) = (git_dir / "objects" / it[:2] / it[2:] for it in [tree_of(root)])
    lost.unlink()
    assert "is missing" in refusal(root)
    assert not marker.exists()


def tree_of(root: Path) -> str:
    return git(root, "rev-parse", "main^{tree}").decode().strip()


@pytest.mark.needs("root")
def test_repository_of_another_user_is_read(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert counted(root) == (3, 3)


def test_odd_bytes_are_shown_safely(root: Path) -> None:
    author = b"\x1b]0;title\x07\xff<a> 1 +0000"
    content = b"tree %s\nauthor %s\ncommitter %s\n\n" % (TREE, author, author)
    oid = write_object(root, "commit", content)
    (root / ".git/refs/heads/odd").write_text(f"{oid}\n")
    done = survey(root)
    assert done.returncode == 1
    assert not {*done.stdout} & {*b"\x1b\x07"}
    assert b"\\x1b]0;title\\x07\xff<a> 1 +0000" in done.stdout
    (found,) = json.loads(survey(root, "-T", "json").stdout)
    assert found["findings"][0]["first"] == oid


def test_long_details_are_cut(root: Path) -> None:
    author = b"A" * 10_000 + b"<a> 1 +0000"
    content = b"tree %s\nauthor %s\ncommitter %s\n\n" % (TREE, author, author)
    oid = write_object(root, "commit", content)
    (root / ".git/refs/heads/odd").write_text(f"{oid}\n")
    (found,) = json.loads(survey(root, "-T", "json").stdout)
    assert found["findings"][0]["detail"] == "A" * 512


def test_url_is_fetched(root: Path) -> None:
    assert counted(f"file://{root}") == (3, 3)
    bundle = root.parent / "b.bundle"
    git(root, "bundle", "create", "-q", str(bundle), "--all")
    assert "is not a git repository" in refusal(bundle)


def test_survey_shows_progress(root: Path) -> None:
    options = ("progress.debug=yes", "progress.assume-tty=yes", "progress.delay=0")
    args = [word for option in options for word in ("--config", option)]
    assert survey(root, *args).returncode == 0


@pytest.mark.parametrize("kill", [os.kill, os.killpg])
def test_interrupted_survey_leaves_nothing(
    root: Path, tmp_path: Path, kill: Callable[[int, int], None]
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    slow = tmp_path / "slow-git"
    slow.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--batch-command*) echo > "$0.began"; exec sleep 6000 ;; esac\n'
        'exec git "$@"\n'
    )
    slow.chmod(0o755)
    command = [str(HG), "--config", "extensions.amalgam="]
    command += ["--config", f"amalgam.git.program={slow}", "git::survey", str(root)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=ENVIRONMENT | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # what is started in the background of a shell may ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not slow.with_name("slow-git.began").exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)  # let it wait for an answer
    # to hg alone, and as a terminal does: also to all that it has started
    kill(process.pid, signal.SIGINT)
    _output, errors = process.communicate(timeout=600)
    assert process.returncode == 255
    assert errors == b"interrupted!\n"
    assert not [*temporary.iterdir()]


@pytest.mark.parametrize("name", ["packed-refs", "HEAD", "shallow", "config"])
def test_fifo_in_place_of_a_file_is_named_and_stays(root: Path, name: str) -> None:
    path = root / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    found = refusal(root)
    assert str(path) in found
    # it is not ours to remove
    assert "remove" not in found
    assert path.is_fifo()
