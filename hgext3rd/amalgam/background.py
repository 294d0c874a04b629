"""Background processes of hg: start, replacement by a new process, and a fast exit.

A background process reads its configuration from files, without ``--config``. It has a
session of its own, no terminal, ``/dev/null`` for its output, no other descriptor of
the process that started it, and no variable of a hook, of git or of a web request. So
nobody waits for it, and it holds nothing open.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import subprocess
from typing import TYPE_CHECKING

from mercurial import encoding
from mercurial.utils import procutil

if TYPE_CHECKING:
    from typing import NoReturn


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


def start(
    path: bytes, *command: bytes, is_attached: bool = False, kept: int | None = None
) -> None:
    """Run ``hg --cwd PATH COMMAND...`` in the background; ``OSError`` if that fails.

    An attached process shares this process's output and is waited for; for tests.
    ``kept``: a descriptor that it gets as its standard input.
    """
    arguments, environment = _arguments(path, command), _environment()
    if is_attached:
        subprocess.run(arguments, env=environment, stdin=subprocess.DEVNULL)
        return
    script = _DETACHED if kept is None else _DETACHED_KEPT
    subprocess.run(
        [_SHELL, b"-c", script, _SHELL, *arguments],
        cwd="/",
        env=environment,
        stdin=subprocess.DEVNULL if kept is None else kept,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def restart(
    path: bytes, *command: bytes, after_seconds: int = 0, kept: int | None = None
) -> NoReturn:
    """Let ``hg --cwd PATH COMMAND...`` take the place of this process, which is one.

    ``kept``: a descriptor that it gets as its standard input. While it waits, the
    process takes little memory. ``OSError`` if that fails.
    """
    if kept is not None:
        os.dup2(kept, 0)
    os.chdir("/")
    delay = b"%d" % after_seconds
    arguments = [_SHELL, b"-c", _LATER, delay, *_arguments(path, command)]
    os.execve(_SHELL, arguments, _environment())


def _arguments(path: bytes, command: tuple[bytes, ...]) -> list[bytes]:
    return [procutil.hgexecutable(), b"--cwd", path, *command]


def _environment() -> dict[bytes, bytes]:
    return {
        name: value
        for name, value in encoding.environ.items()
        if not name.startswith(_FOREIGN)
    }


@functools.lru_cache
def end_quickly() -> None:
    """Skip the garbage collection at the end of the interpreter.

    It walks all objects of Mercurial, twice, and frees them one by one. That takes a
    fifth of an export that finds nothing new (2026-11-22, 580 to 450 million cycles),
    and 40 of the 600 ms of CPU of a bundle of nginx (2026-11-24). By then, locks are
    released and files closed; the system takes the memory back.
    """
    atexit.register(gc.freeze)
