"""Background processes of hg: start, replacement by a new process, and a fast exit.

A background process has the configuration of the process that starts it, also items of
``--config`` and of ``hgweb.conf``. Of a share's own ``hgrc``, it has the extensions
only: the source decides about exports. The items are handed over in a file without a
name, since a command line can be read by everybody. ``%unset`` and the section
``paths``, which hgweb uses for its own purpose, are not handed over.

It has a session of its own, no terminal, no other descriptor of the process that
started it, and no variable of a hook, of git or of a web request. So nobody waits for
it, and it holds nothing open. Its output goes to a file until its command begins
(``.hg/amalgam/background``), so that the reason is known if it never does.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import functools
import gc
import io
import os
import re
import site
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from mercurial import config, encoding, error
from mercurial.utils import procutil

from . import compat
from .files import Directory, Placement
from .terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from mercurial.interfaces.types import RepoT, UiT


_SHELL = b"/bin/sh"
# The shell ends at once, so that the process belongs to nobody. It waits until hg has
# ended, which would share a core with it: a commit that starts an exporter took 36 ms
# more, and takes 1 ms more (2026-11-22, 2 cores with other work, medians of 70).
_DETACHED = b'(sleep 0.05; exec "$@") &'
# as a shell gives /dev/null to its background jobs
_DETACHED_KEPT = b'exec 3<&0; (sleep 0.05; exec "$@" <&3 3<&-) &'
# the descriptor that is kept is for hg alone
_LATER = b'sleep "$0" </dev/null; exec "$@"'
_FOREIGN = (
    *(b"HG_", b"GIT_"),  # of hooks, and of git
    # of CGI (RFC 3875, section 4.1)
    *(b"AUTH_TYPE", b"CONTENT_", b"GATEWAY_INTERFACE", b"HTTP_", b"PATH_INFO"),
    *(b"PATH_TRANSLATED", b"QUERY_STRING", b"REMOTE_", b"REQUEST_", b"SCRIPT_"),
    b"SERVER_",
    *(b"LISTEN_", b"NOTIFY_"),  # of systemd
)
_CONFIG = b"AMALGAM_CONFIG"
"""The variable that names the file with configuration."""
_RCPATH = b"HGRCPATH"
_IN_FILE = re.compile(rb"(.*):\d+")
"""The source of an item that is in a file."""
_NOT_HANDED_OVER = b"paths"
_ON_COMMAND_LINE = (b"extensions", b"trusted")
"""Sections that count before a repository is opened, and are no secrets."""
_FIRST_FREE = 20  # shells use the descriptors below
_LONGEST_OUTPUT = 1 << 16
_MOST_TRIES = 10
# a process has begun by then, even if the machine is busy
_LONGEST_START_SECONDS = 30


def begin(repo: RepoT, command: bytes) -> None:
    """Note that the process of ``command`` has begun, if this is the one."""
    directory, name = _start_log(repo, command)
    with contextlib.suppress(OSError, error.StorageError):
        if os.path.samestat(os.fstat(2), directory.stat(name)):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.close(null)
        directory.remove(name)


def failure(repo: RepoT, command: bytes, *, has_ended: bool = False) -> bytes:
    """Return why the last process of ``command`` did not begin; empty if it did or may.

    ``has_ended``: the process is known to have ended.
    """
    directory, name = _start_log(repo, command)
    try:
        age = time.time() - directory.stat(name).st_mtime
        if not has_ended and 0 <= age < _LONGEST_START_SECONDS:
            return b""
        lines = directory.tryread(name, _LONGEST_OUTPUT).splitlines()
    except (OSError, error.StorageError):
        return b""
    said = next((it.strip() for it in reversed(lines) if it.strip()), b"")
    return b"hg %s did not begin: %s" % (command, printable(said) or b"no output")


def forget(repo: RepoT, command: bytes) -> None:
    """Forget a process of ``command`` that did not begin: its work has been done."""
    directory, name = _start_log(repo, command)
    with contextlib.suppress(OSError, error.StorageError):
        directory.remove(name)


def _start_log(repo: RepoT, command: bytes) -> tuple[Directory, bytes]:
    """Return the file of a process's output until it begins: directory and name."""
    directory = Directory(repo.sharedpath, (b"amalgam", b"background"))
    return directory, command.rpartition(b"-")[2]


def _new_start_log(repo: RepoT, command: bytes) -> int:
    """Return the descriptor of an empty file, in place of any before."""
    directory, name = _start_log(repo, command)
    placement = Placement.of(repo)
    directory.make(placement)
    for _try in range(_MOST_TRIES):
        with contextlib.suppress(FileNotFoundError):
            directory.remove(name)
        with contextlib.suppress(FileExistsError):  # another process has just begun
            return directory.create(name, placement)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def start(
    repo: RepoT,
    path: bytes,
    *command: bytes,
    is_attached: bool = False,
    kept: int | None = None,
) -> None:
    """Run ``hg --cwd PATH COMMAND...`` in the background; ``OSError`` if that fails.

    ``repo`` has the configuration. An attached process shares this process's output and
    is waited for; for tests. ``kept``: a descriptor that it gets as its standard input.
    """
    with contextlib.ExitStack() as stack:
        arguments, environment, handed = _prepared(repo, path, command)
        if handed is not None:
            stack.callback(os.close, handed)
        passed = () if handed is None else (handed,)
        if is_attached:
            subprocess.run(
                arguments, env=environment, stdin=subprocess.DEVNULL, pass_fds=passed
            )
            return
        output = _new_start_log(repo, command[0])
        stack.callback(os.close, output)
        script = _DETACHED if kept is None else _DETACHED_KEPT
        subprocess.run(
            [_SHELL, b"-c", script, _SHELL, *arguments],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL if kept is None else kept,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=passed,
        )


def restart(
    repo: RepoT,
    *command: bytes,
    after_seconds: int = 0,
    kept: int | None = None,
) -> NoReturn:
    """Let ``hg --cwd ROOT COMMAND...`` take the place of this process, which is one.

    ``kept``: a descriptor that it gets as its standard input. While it waits, the
    process takes little memory. ``OSError`` if that fails.
    """
    if kept is not None:
        os.dup2(kept, 0)
    arguments, environment, _handed = _prepared(repo, repo.root, command)
    with contextlib.suppress(OSError, error.StorageError):
        output = _new_start_log(repo, command[0])
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
    os.chdir("/")
    delay = b"%d" % after_seconds
    os.execve(_SHELL, [_SHELL, b"-c", _LATER, delay, *arguments], environment)


def configure(ui: UiT) -> None:
    """Set the items handed over by the process that started this one, if any.

    Its repository has read its own ``hgrc`` meanwhile, which ``--config`` overrides.
    """
    if path := encoding.environ.get(_CONFIG):
        handed, fd = config.config(), int(path.rpartition(b"/")[2])
        # by its descriptor: in macOS, /dev/fd has the position after the first reader
        with contextlib.suppress(OSError):
            handed.parse(path, os.pread(fd, os.fstat(fd).st_size, 0))
        for section in handed:
            for name, value in handed.items(section):
                ui.setconfig(section, name, value, b"--config")


def _prepared(
    repo: RepoT, path: bytes, command: tuple[bytes, ...]
) -> tuple[list[bytes], dict[bytes, bytes], int | None]:
    """Return arguments and environment, and the descriptor of the configuration."""
    arguments = [_executable(), b"--cwd", path, *command]
    environment = {
        name: value
        for name, value in encoding.environ.items()
        if not name.startswith(_FOREIGN)
    }
    before = environment.pop(_CONFIG, None)
    files = compat.rc_files()
    if before in files:
        files.remove(before)
        environment[_RCPATH] = os.pathsep.encode().join(files)
    known = {*files, os.path.join(repo.sharedpath, b"hgrc")}
    own = {repo.vfs.join(b"hgrc"), repo.vfs.join(b"hgrc-not-shared")}
    items = [*_items(repo.ui, known, own)]
    arguments += [
        b"--config=%s.%s=%s" % item for item in items if item[0] in _ON_COMMAND_LINE
    ]
    if root := _package_root():
        paths = [root, environment.get(b"PYTHONPATH", b"")]
        environment[b"PYTHONPATH"] = os.pathsep.encode().join(filter(None, paths))
    if not items:
        return arguments, environment, None
    handed = _file_of(items)
    environment[_CONFIG] = b"/dev/fd/%d" % handed
    environment[_RCPATH] = os.pathsep.encode().join([*files, environment[_CONFIG]])
    return arguments, environment, handed


def _items(
    ui: UiT, known: set[bytes], own: set[bytes]
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the items that a new process would not find in the ``known`` files.

    Of ``own`` files, extensions only. And only those that somebody has written: code
    sets its own in each process.
    """
    for section, name, value in ui.walkconfig():
        if section == _NOT_HANDED_OVER or not isinstance(value, bytes):
            continue
        source = ui.configsource(section, name)
        in_file = _IN_FILE.fullmatch(source)
        if source != b"--config" and (in_file is None or in_file[1] in known):
            continue
        if in_file is not None and in_file[1] in own and section != b"extensions":
            continue
        is_path = b"/" in value and not value.startswith((b"!", b"~", b"$"))
        if section == b"extensions" and is_path:
            value = os.path.abspath(value)  # the new process has another directory
        yield section, name, value


def _file_of(items: list[tuple[bytes, bytes, bytes]]) -> int:
    """Return a descriptor of a file without a name that has ``items``."""
    text = io.BytesIO()
    for section, name, value in items:
        lines = b"\n  ".join(value.split(b"\n"))
        text.write(b"[%s]\n%s = %s\n" % (section, name, lines))
    if hasattr(os, "memfd_create"):
        opened = os.memfd_create("amalgam")
    else:  # macOS
        with tempfile.TemporaryFile() as file:
            opened = os.dup(file.fileno())
    try:
        os.write(opened, text.getvalue())
        os.lseek(opened, 0, os.SEEK_SET)
        return fcntl.fcntl(opened, fcntl.F_DUPFD, _FIRST_FREE)  # ``restart`` keeps it
    finally:
        os.close(opened)


def _executable() -> bytes:
    """Return the hg of this process: its own, or the one beside its Python.

    A web server may have another one in its PATH, or none.
    """
    main = getattr(sys.modules["__main__"], "__file__", None) or ""
    beside = os.path.join(os.fsencode(sys.prefix), b"bin", b"hg")
    is_hg = b"HG" in encoding.environ or os.path.basename(main) == "hg"
    if not is_hg and os.access(beside, os.X_OK):
        return beside
    found: bytes = procutil.hgexecutable()
    return found


def _package_root() -> bytes:
    """Return where this package is, if Python would not find it there by itself."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    if root in {*site.getsitepackages(), site.getusersitepackages()}:
        return b""
    return os.fsencode(root)


@functools.lru_cache
def end_quickly() -> None:
    """Skip the garbage collection at the end of the interpreter.

    It walks all objects of Mercurial, twice, and frees them one by one. That takes a
    fifth of an export that finds nothing new (2026-11-22, 580 to 450 million cycles),
    and 40 of the 600 ms of CPU of a bundle of nginx (2026-11-24). By then, locks are
    released and files closed; the system takes the memory back.
    """
    atexit.register(gc.freeze)
