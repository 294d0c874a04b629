"""States of a repository that nobody planned for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from testlib.environment import add_config, git
from testlib.exported import STRIP, Exported
from testlib.meanwhile import export_while
from testlib.small import repository

pytestmark = pytest.mark.slow


def commit(store: Exported, *names: str) -> None:
    for name in names:
        store.commit(name)


def check(store: Exported) -> None:
    """Export twice, and see that nothing differs."""
    store.hg("git::export")
    done = store.run("git::verify", "--full")
    assert done.code == 0, done
    store.git("fsck", "--strict", "--full")
    assert store.hg("git::export") == "nothing new to export\n"


@pytest.mark.parametrize("name", ["@", "other"])
def test_bookmark_on_the_null_revision_is_no_ref(empty: Exported, name: str) -> None:
    commit(empty, "one")
    empty.hg("bookmark", "-r", "null", name)
    check(empty)
    assert empty.git("for-each-ref", "--format=%(refname)", "refs/heads") == (
        "refs/heads/default"
    )
    assert empty.git("symbolic-ref", "HEAD") == "refs/heads/default"
    empty.hg(*STRIP, "0")
    check(empty)
    assert empty.git("for-each-ref", "refs/heads") == ""


def test_bookmark_named_head_reaches_clones(empty: Exported, tmp_path: Path) -> None:
    commit(empty, "one", "two")
    empty.hg("bookmark", "-r", "0", "HEAD")
    empty.hg("bookmark", "-r", "1", "HEAD/below")
    check(empty)
    git(tmp_path, "clone", "-q", str(empty.git_dir), "clone")
    names = git(tmp_path / "clone", "branch", "-r", "--format=%(refname:short)")
    assert set(names.decode().split()) >= {
        "origin/%48EAD",
        "origin/%48EAD%2Fbelow",
        "origin/default",
    }


def only_secret(store: Exported) -> None:
    commit(store, "one")
    store.hg("phase", "--force", "--secret", "0")


def closed_branches(store: Exported) -> None:
    commit(store, "one")
    store.hg("branch", "-q", "a..b")
    commit(store, "two")
    store.hg("commit", "-q", "--close-branch", "-m", "closed", "-d", "0 0")
    store.hg("update", "-q", "0")
    store.hg("branch", "-q", "-f", "x~^ y.lock")
    commit(store, "three")


def odd_tags(store: Exported) -> None:
    commit(store, "one")
    store.commit(
        ".hgtags", text=f"{'0' * 40} null\n{'1' * 40} unknown\nx\n", message="tags"
    )


def odd_bookmarks(store: Exported) -> None:
    commit(store, "one", "two")
    node = store.hg("log", "-r", "1", "-T", "{node}")
    store.hg("bookmark", "-r", "1", "hidden")
    store.hg("update", "-q", "0")
    store.hg("debugobsolete", node, "--config", "experimental.evolution=all")
    with (store.root / ".hg/bookmarks").open("a") as file:
        file.write(f"{'1' * 40} unknown\n{node} \n")


def odd_phases(store: Exported) -> None:
    commit(store, "one")
    (store.root / ".hg/store/phaseroots").write_text(f"1 {'1' * 40}\n2 {'2' * 40}\n")


def odd_parents(store: Exported) -> None:
    commit(store, "one", "two")
    store.hg("debugobsolete", "2" * 40, "--config", "experimental.evolution=all")
    (store.root / ".hg/dirstate").write_bytes(b"\x11" * 40)


STATES = [
    lambda _store: None,
    only_secret,
    closed_branches,
    odd_tags,
    odd_bookmarks,
    odd_phases,
    odd_parents,
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_odd_state_is_exported(
    empty: Exported, state: Callable[[Exported], None]
) -> None:
    state(empty)
    check(empty)


COMMANDS = [
    ["git::export"],
    ["git::export", "-r", "0"],
    ["git::verify"],
    ["git::id", "0123456789"],
    ["git::bundle", "bundle"],
    ["admin::amalgam"],
    ["admin::amalgam", "--repair"],
]


#: A file of the store, and what becomes of its content; it goes if that is nothing.
DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    # the parents of revision 1 are revisions 7 and 9
    "parents ahead": (
        *("00changelog.i", lambda it: it[:88] + b"\0\0\0\x07\0\0\0\x09" + it[96:]),
    ),
    "no entries": ("00changelog.i", lambda it: it[:4] + b"\xff" * (len(it) - 4)),
    "cut entry": ("00changelog.i", lambda it: it[:-13]),
    "no data": ("00changelog.d", lambda _it: b""),
    "bad phases": ("phaseroots", lambda _it: b"not a phase\n"),
    "bad obsstore": ("obsstore", lambda _it: b"\1\xff\xff\xff\xff nonsense"),
    "unknown obsstore": ("obsstore", lambda _it: b"\x63nonsense"),
    "bad requires": ("requires", lambda _it: b"\xff\xfe\n"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_one_line_of_every_command(empty: Exported, damage: str) -> None:
    commit(empty, "one", "two", "three")
    empty.hg("git::export")
    name, change = DAMAGES[damage]
    path = empty.root / ".hg/store" / name
    content = change(path.read_bytes() if path.exists() else b"")
    path.write_bytes(content) if content else path.unlink(missing_ok=True)
    for command in COMMANDS:
        try:
            done = empty.run(*command)
        except AssertionError as exc:
            raise AssertionError(f"{command}: {exc}") from None
        assert b"Traceback" not in done.err, (command, done.err.decode())
        assert done.code in (0, 1, 10, 20, 50, 255), (command, done)
        aborts = [line for line in done.err.splitlines() if b"abort: " in line]
        assert len(aborts) <= 1, (command, done)


MISTAKE = """
from hgext3rd.amalgam.gitstore.export import writer as storefiles

def extsetup(ui):
    def name(*args, **kwargs):
        raise AssertionError("a mistake of ours")

    storefiles.StoreWriter.name = name
"""


def test_mistake_of_ours_is_not_taken_for_a_busy_repository(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", publishes=False)
    (tmp_path / "mistake.py").write_text(MISTAKE)
    add_config(repo, f"[extensions]\nmistake = {tmp_path}/mistake.py\n")
    done = export_while(repo, "echo >> more; hg commit -qAm more", "after", 1)
    assert done.returncode == 1
    assert b"a mistake of ours" in done.stderr
    assert b"kept changing" not in done.stderr
