"""The hg and git of the tests, sealed against the configuration of this machine."""

from __future__ import annotations

import atexit
import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .hgserver import HgServer

ROOT = Path(__file__).resolve().parents[2]
HG = Path(sys.executable).with_name("hg")

_KEPT = ("PATH", "HOME", "TMPDIR", "LANG", "CARGO_HOME", "RUSTUP_HOME")

#: For every process that a test starts. Users and dates are fixed.
ENVIRONMENT = {name: os.environ[name] for name in _KEPT if name in os.environ} | {
    "HGRCPATH": "",
    "HGPLAIN": "1",
    "HGUSER": "test",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "test",
    "GIT_AUTHOR_EMAIL": "test@example.org",
    "GIT_AUTHOR_DATE": "1970-01-01T00:00:00+0000",
    "GIT_COMMITTER_NAME": "test",
    "GIT_COMMITTER_EMAIL": "test@example.org",
    "GIT_COMMITTER_DATE": "1970-01-01T00:00:00+0000",
}

#: For processes that may write only small files: Python would keep half of a module's
#: bytecode, and fail when it reads that.
WITHOUT_BYTECODE = ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1"}


def seal() -> None:
    """Let what runs in this process know as little of this machine."""
    for name in os.environ.keys() - ENVIRONMENT.keys():
        if name.startswith(("GIT_", "HG", "LC_")):
            del os.environ[name]
    os.environ.update(ENVIRONMENT)


def hg(cwd: Path, *args: str) -> bytes:
    """Run hg with amalgam enabled in ``cwd`` and return its stdout.

    Common commands run in a command server, others in a process of their own.
    """
    if is_common(cwd, args):
        return server().hg(None, "--cwd", str(cwd), *args)
    command = [str(HG), "--config", "extensions.amalgam=", *args]
    return _output(cwd, command)


_COMMON = {
    *("bookmark", "branch", "cat", "commit", "debugobsolete", "heads", "init", "log"),
    *("merge", "phase", "tag", "update", "verify", "git::bundle", "git::export"),
    *("git::id", "git::verify", "admin::amalgam", "admin::clone-bundles-refresh"),
    *("admin::clone-bundles-clear",),
}
#: Settings and requirements that load extensions: those would stay in the server.
_EXTENSIONS = ("extensions", "hooks", "lfs", "largefiles", "narrow")
#: Extensions that every server loads.
_LOADED = re.compile(r"\[extensions\]\n((amalgam|clonebundles) *=\n)+(?=\[|\Z)")
_SEALED = dict(ENVIRONMENT)


def is_common(cwd: Path, args: tuple[str, ...]) -> bool:
    """Return whether a command leaves nothing behind in its process."""
    if args[0] not in _COMMON or ENVIRONMENT != _SEALED:
        return False
    if any(name in arg for arg in args for name in _EXTENSIONS):
        return False
    if args[0] == "init":
        return True
    files = [cwd / ".hg" / name for name in ("hgrc", "requires", "store/requires")]
    if not files[1].is_file() or (cwd / ".hg" / "sharedpath").exists():
        return False
    found = [file.read_text(errors="replace") for file in files if file.is_file()]
    texts = [_LOADED.sub("", text) for text in found]
    return not any(name in text for text in texts for name in _EXTENSIONS)


@functools.cache
def _server_of(_process: int, _thread: int) -> HgServer:
    from .hgserver import HgServer

    made = HgServer()
    atexit.register(made.close)
    return made


def server() -> HgServer:
    """Return the command server of this thread; a fork has one of its own."""
    return _server_of(os.getpid(), threading.get_ident())


def executable(path: Path, text: str) -> Path:
    """Write a program that everybody may run."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def add_config(repo: Path, text: str) -> None:
    """Add to the configuration of a repository."""
    with (repo / ".hg" / "hgrc").open("a") as file:
        file.write(text)


def add_items(repo: Path, section: str, **items: object) -> None:
    """Add to a section of the configuration; ``__`` is a dot in the name of an item."""
    names = {name: name.replace("__", ".").replace("_", "-") for name in items}
    lines = "".join(f"{names[name]} = {value}\n" for name, value in items.items())
    add_config(repo, f"[{section}]\n{lines}")


def publish_commits(repo: Path) -> None:
    """Let what is committed in ``repo`` be public at once, as on a server."""
    add_config(repo, "[phases]\nnew-commit = public\n")


def git(cwd: Path, *args: str) -> bytes:
    """Run git in ``cwd`` and return its stdout."""
    return _output(cwd, ["git", *args])


def captured(
    command: Sequence[str | Path], cwd: Path | None = None, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a program in the sealed environment; ``options`` are those of ``run``."""
    return subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, **options
    )


def _output(cwd: Path, command: list[str]) -> bytes:
    done = captured(command, cwd)
    if done.returncode:
        line = " ".join(command)
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise AssertionError(f"{line}\nended with {done.returncode} and said\n{said}")
    return done.stdout
