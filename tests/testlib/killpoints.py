"""Kill an export at each of its steps in turn: killpoints.py TEMPLATE SCRATCH ARGS...

TEMPLATE is a repository. For each step that the export ``ARGS`` takes in the file
system, a copy in SCRATCH is exported, killed before that step, looked at, exported
again, and looked at again. Prints the steps: name and how often it was taken. Forks,
hence a program.
The environment variable GONE may name an object that must not be answered, LACKS steps
that are never taken, and CONSTANTS has other values for some, by module and name.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mercurial import dispatch, extensions, hg, pycompat, ui as uimod

#: Functions of ``os`` that change what is on disk.
STEPS = ("rename", "link", "unlink", "symlink", "fchmod", "fsync")
#: Those that not every export takes.
SELDOM = ("mkdir", "rmdir")
# an object that must not be there, or nothing may be answered
GONE = os.environ.get("GONE", "")
# steps that this run does not take
LACKS = os.environ.get("LACKS", "").split()
CONSTANTS: dict[str, Any] = json.loads(os.environ.get("CONSTANTS", "{}"))
STORE = Path(".hg/amalgam/git/cinnabar.git")


def at_each(
    template: Path,
    scratch: Path,
    *args: str,
    gone: str = "",
    lacks: str = "",
    constants: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Run this program, which must find nothing wrong; return the steps."""
    from .environment import ENVIRONMENT  # the program has no package

    done = subprocess.run(
        [sys.executable, __file__, str(template), str(scratch), *args],
        env=ENVIRONMENT
        | {"GONE": gone, "LACKS": lacks, "CONSTANTS": json.dumps(constants or {})},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def export(
    repo: Path, args: list[str], kill_before: int | None = None, met: Path | None = None
) -> int:
    """Run hg in a child; return its exit code, or the negative signal.

    The step that it is killed before is written to ``met``.
    """

    def prepare() -> None:
        if kill_before is not None:
            assert met is not None
            count_down(kill_before, met)
        for name, value in CONSTANTS.items():
            module, _dot, attribute = name.rpartition(".")
            setattr(importlib.import_module(module), attribute, value)

    return in_child(repo, args, prepare)


def in_child(repo: Path, args: Iterable[str], prepare: Callable[[], None]) -> int:
    """Run hg in a child after ``prepare``; return its exit code, or minus a signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        prepare()
        options = ["--config", "extensions.amalgam=", "-R", str(repo)]
        pycompat.sysargv = [os.fsencode(arg) for arg in ("hg", *options, *args)]
        try:
            dispatch.run()
        except SystemExit as exc:
            os._exit(int(exc.code or 0))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def count_down(left: int, met: Path) -> None:
    """Make the step that comes after ``left`` others the last thing we do."""
    remaining = [left]

    def counted(orig: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if not remaining[0]:
                met.write_text(orig.__name__)
                os.kill(os.getpid(), signal.SIGKILL)
            remaining[0] -= 1
            return orig(*args, **kwargs)

        return step

    for name in STEPS + SELDOM:
        setattr(os, name, counted(getattr(os, name)))


def git(repo: Path, *args: str) -> str:
    command = ["git", "-C", str(repo / STORE), *args]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout


def shows(repo: Path, oid: str) -> bool:
    """Tell whether git finds an object."""
    command = ["git", "-C", str(repo / STORE), "cat-file", "-e", oid]
    return bool(oid) and not subprocess.run(command, capture_output=True).returncode


def may_answer(repo: Path) -> bool:
    """Tell whether a server would answer from the store."""
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    extensions.loadall(ui)
    repository = hg.repository(ui, os.fsencode(repo))
    store = importlib.import_module("hgext3rd.amalgam.gitstore.store")
    config = importlib.import_module("hgext3rd.amalgam.config")
    return bool(store.GitStore(repository, config.GitConfig.from_ui(ui)).may_answer())


def is_refused(repo: Path) -> bool:
    """Tell whether something had to go at once: then refs may lead nowhere."""
    docket = repo / ".hg/amalgam/map/cinnabar.docket"
    return docket.exists() and b"\nrefused yes\n" in docket.read_bytes()


def leftovers(repo: Path) -> list[str]:
    """Return files that a finished export should not leave."""
    names = [path.name for path in (repo / ".hg/amalgam").rglob("*")]
    return [
        name
        for name in names
        if "tmp" in name
        or "roll-up" in name
        or ".lock" in name
        or "amalgam" in name
        or "pending" in name
    ]


def state(repo: Path) -> tuple[str, list[str]]:
    """Return the refs and the packs."""
    packs = sorted(path.name for path in (repo / STORE / "objects/pack").iterdir())
    return git(repo, "for-each-ref"), packs


def main(template: str, scratch: str, *args: str) -> None:
    repo, met = Path(scratch, "repo"), Path(scratch, "met")
    taken: Counter[str] = Counter()
    expected = None
    for step in range(1000):
        shutil.rmtree(repo, ignore_errors=True)
        shutil.copytree(template, repo, symlinks=True)
        code = export(repo, [*args], kill_before=step, met=met)
        where = f"killed before step {step}"
        if (repo / STORE).exists() and not is_refused(repo):
            git(repo, "fsck", "--full", "--strict")
            git(repo, "rev-list", "--all", "--objects")
        if code == 0:
            assert not leftovers(repo), leftovers(repo)
            assert expected is None or state(repo) == expected, where
            assert not {*STEPS} - {*LACKS} - taken.keys(), f"never met: {taken}"
            print(json.dumps(taken))
            return
        assert code == -signal.SIGKILL, f"{where}: {code}"
        taken[met.read_text()] += 1
        assert not (may_answer(repo) and shows(repo, GONE)), where
        assert export(repo, [*args]) == 0, where
        git(repo, "fsck", "--full", "--strict")
        assert not leftovers(repo), f"{where}: {leftovers(repo)}"
        assert expected in (None, state(repo)), where
        expected = state(repo)


if __name__ == "__main__":
    main(*sys.argv[1:])
