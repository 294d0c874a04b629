"""What a terminal is given of names that others chose."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from mercurial import error
from testlib.environment import add_config, hg, publish_commits
from testlib.small import STORE, run_hg

from hgext3rd.amalgam.terminal import clean, one_line, printable

#: What clears a screen, and what looks like a line of output.
EVIL = b"e\x1b[2J\x9bm\nabort: evil"


def test_controls_are_shown_as_text() -> None:
    assert printable(b"a\x1b[2Jb\r\n\x7f") == rb"a\x1b[2Jb\x0d\x0a\x7f"
    assert printable("ä\x9bm€".encode()) == "ä".encode() + rb"\xc2\x9bm" + "€".encode()


def test_control_that_is_no_utf8_is_shown_as_text() -> None:
    assert printable(b"\x9b2J\xe9") == rb"\x9b2J" + b"\xe9"


def test_line_of_output_is_one_line() -> None:
    assert one_line(b"a\nb\n") == rb"a\x0ab\x0a" + b"\n"


@pytest.mark.parametrize(
    "exc",
    [
        error.Abort(EVIL, hint=EVIL),
        error.RepoError(EVIL, hint=EVIL),
        error.LookupError(EVIL, EVIL, EVIL),
        error.LockHeld(11, EVIL, EVIL, b"locker"),
    ],
)
def test_exceptions_are_cleaned_whatever_mercurial_shows_of_them(
    exc: Exception,
) -> None:
    clean(exc)
    shown = [getattr(exc, name, None) for name in ("message", "hint", "desc")]
    for text in (*shown, *exc.args, getattr(exc, "filename", None)):
        if isinstance(text, bytes):
            assert printable(text) == text


def test_mark_below_a_mistake_stays_on_its_line() -> None:
    exc = error.ParseError(b"not a prefix: end", hint=b"(foo\x1b\n    ^ here)")
    clean(exc)
    assert exc.hint == b"(foo\\x1b\n    ^ here)"


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository whose path, bookmarks, branches and files are evil."""
    top = tmp_path_factory.mktemp("terminal")
    repo = Path(os.fsdecode(os.path.join(os.fsencode(top), EVIL)))
    repo.mkdir()
    hg(repo, "init")
    publish_commits(repo)
    add_config(
        repo,
        "[clone-bundles]\ngit.formats = git-v2\n" + "[extensions]\nclonebundles =\n",
    )
    name = repo / os.fsdecode(b".GIT-\x1b[2J\x9b")
    git_directory = repo / os.fsdecode(b".git \x1b[2J")
    (repo / "plain").write_text("text\n")
    name.write_text("text\n")
    git_directory.mkdir()
    (repo / ".GIT").mkdir()
    (repo / ".GIT" / os.fsdecode(b"config\x1b[2J\x9b")).write_text("text\n")
    hg(repo, "branch", "-q", "b\x1b[31m")
    hg(repo, "commit", "-qAm", "one", "-d", "0 0")
    hg(repo, "bookmark", "m\x1b[31m")
    (repo / "other").write_text("text\n")
    hg(repo, "commit", "-qAm", "two", "-d", "0 0", "--secret")
    return repo


def spoil_refs(repo: Path) -> None:
    (repo / STORE / "packed-refs").write_bytes(b"\x1b[2J\x9b\n")


def lose_map(repo: Path) -> None:
    shutil.rmtree(repo / ".hg/amalgam/map")


def lock(repo: Path) -> None:
    (repo / ".hg/amalgam/lock").symlink_to("h\x1b[2J:1")


def spoil_docket(repo: Path) -> None:
    (repo / ".hg/amalgam/map/cinnabar.docket").write_text("\x1b[2J")


def spoil_register(repo: Path) -> None:
    (repo / ".hg/amalgam/bundles").mkdir(exist_ok=True)
    (repo / ".hg/amalgam/bundles/register").write_text("\x1b[2J")


def lead_elsewhere(repo: Path) -> None:
    (repo / STORE / os.fsdecode(b"x\x1b[2J\n\x9b")).symlink_to("/")


def set_program(repo: Path) -> None:
    with (repo / STORE / "config").open("a") as file:
        file.write('[filter "a\x1b[2J"]\n\tclean = x\n[a\x1b]\n')


def block(repo: Path) -> None:
    (repo / ".hg/amalgam/git/cinnabar.git").rename(repo / "gone")
    (repo / ".hg/amalgam/git/cinnabar.git").write_text("")


EVENTS = [
    None,
    spoil_refs,
    lose_map,
    lock,
    spoil_docket,
    spoil_register,
    lead_elsewhere,
    set_program,
    block,
]
COMMANDS = [
    ("git::export",),
    ("git::export", "-r", "0"),
    ("git::export", "-r", "x\x1b[2J"),
    ("git::export", "--dialect", "x\x1b[2J"),
    ("git::verify",),
    ("git::verify", "--full"),
    ("git::id", "x\x1b[2J", "y\x9b"),
    ("git::id", "x\x1b[2J"),
    ("git::bundle", "--type", "x\x1b[2J", "../file"),
    ("git::bundle", "../x\x1b[2J/file"),
    ("git::bundle", "../file"),
    ("admin::clone-bundles-refresh",),
    ("admin::amalgam",),
    ("admin::amalgam", "--config", "amalgam.x\x1b[2J=1"),
    ("admin::clone-bundles-clear",),
    ("admin::amalgam", "--repair"),
]


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("event", EVENTS)
def test_no_command_lets_controls_through(
    evil: Path, event: object, tmp_path: Path
) -> None:
    repo = tmp_path / os.fsdecode(EVIL)
    shutil.copytree(evil, repo, symlinks=True)
    limit = ("--config", "ui.timeout=0")
    run_hg(repo, "git::export")
    run_hg(repo, "admin::clone-bundles-refresh")
    if callable(event):
        event(repo)
    for command in COMMANDS:
        done = run_hg(repo, *command, *limit)
        shown = done.stdout + done.stderr
        assert b"Traceback" not in shown, (command, shown)
        for line in shown.split(b"\n"):
            assert printable(line) == line, (command, shown)
            assert not line.startswith(b"abort: evil"), (command, shown)
