"""``hg-amalgam-ssh``: access over ssh to some repositories, for hg and git.

It takes the place of Mercurial's ``hg-ssh``, with the same arguments: in the option
``command`` of a key in ``authorized_keys``, see sshd(8). Mercurial serves its clients.
git's clients may fetch what a client of hgweb may, by the same steps.

Of the client's environment, git gets only ``GIT_PROTOCOL``, if it is a version.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

from mercurial import (
    dispatch,
    error,
    extensions,
    ui as uimod,
    wireprotoserver,
)
from mercurial.i18n import _
from mercurial.utils import procutil, stringutil

from ... import compat
from ...index import openhooks
from ...terminal import printable, shown_by_git, utf8_of
from .. import pktlines
from ..refusal import RefusedError
from ..uploadpack import PROTOCOL
from . import command
from .pushsession import PushSession
from .session import Session, write_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercurial.interfaces.types import RepoT, UiT

_ILLEGAL = 255
"""The exit code of hg-ssh for what is not allowed."""
_READ_ONLY = b"you may not push into this repository"
_ARCHIVES = b"this service of git is not offered here"
_OFF = b"amalgam is not enabled for this repository; its operator does that"


def main() -> int:
    """Serve the command of one client; return the exit code."""
    dispatch.initstdio()
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, _end)
    is_read_only, paths = _arguments(sys.argv[1:])
    asked = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    try:
        wanted = command.Command.parse(asked)
    except ValueError:
        return _say(b'illegal command "%s"' % os.fsencode(asked), _ILLEGAL)
    path = command.allowed(wanted.path, paths, os.getcwd())
    if path is None:
        sentence = b'illegal repository "%s"' % os.fsencode(wanted.path)
        return _refuse(wanted.service, sentence, _ILLEGAL)
    if wanted.service is command.Service.ARCHIVE:
        return _refuse(wanted.service, _ARCHIVES)
    if wanted.service is command.Service.PUSH and is_read_only:
        return _refuse(wanted.service, _READ_ONLY)
    if wanted.service in (command.Service.FETCH, command.Service.PUSH):
        return _serve_git(wanted.service, os.fsencode(path))
    return _serve_hg(os.fsencode(path), is_read_only)


def _arguments(arguments: Sequence[str]) -> tuple[bool, Sequence[str]]:
    """Return whether pushes are refused, and the repositories."""
    at = next(
        (at for at, word in enumerate(arguments) if word != "--read-only"),
        len(arguments),
    )
    return at > 0, arguments[at:]


def _serve_hg(path: bytes, is_read_only: bool) -> int:
    """Let Mercurial serve its client, as hg-ssh does."""
    request = compat.request_of([b"-R", path, b"serve", b"--stdio"])
    if is_read_only:
        request.ui = request.ui or uimod.ui.load()
        for hook in (b"pretxnopen.hg-ssh", b"prepushkey.hg-ssh"):
            request.ui.setconfig(b"hooks", hook, _refuse_push, b"hg-ssh")
    return int(dispatch.dispatch(request) or 0)


def _refuse_push(ui: UiT, **_details: Any) -> bool:
    ui.warn(_(b"Permission denied\n"))
    return True


def _serve_git(service: command.Service, path: bytes) -> int:
    """Let git serve its client, once it has passed what clients of hgweb pass."""
    asked = os.fsencode(os.environ.get("GIT_PROTOCOL", ""))
    spoken = asked if PROTOCOL.fullmatch(asked) else b""
    started = time.monotonic()
    try:
        ui = uimod.ui.load()
        extensions.loadall(ui)
        extensions.populateui(ui)
        repo = compat.open_repository(ui, path)
        if not openhooks.enabled(repo.ui):
            raise RefusedError(403, _OFF)
        if service is command.Service.PUSH:
            code, said = _receive(repo)
        else:
            code, said = _fetch(repo, spoken)
    except RefusedError as exc:
        if exc.logged != exc.sentence:
            _log(repo.ui, service, path, b"refused: %s" % exc.logged, started)
        return _refuse(service, exc.sentence)
    except (error.Abort, error.RepoError, error.StorageError, OSError) as exc:
        return _refuse(service, utf8_of(stringutil.forcebytestr(exc)))
    how = b"git ended with %d: %s" % (code, said) if code else b"done"
    _log(repo.ui, service, path, how, started)
    return code


def _fetch(repo: RepoT, spoken: bytes) -> tuple[int, bytes]:
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    proto = wireprotoserver.sshv1protocolhandler(repo.ui, stdin, stdout)
    session = Session(repo, proto, stdin.fileno(), stdout.fileno())
    return session.run(spoken)


def _receive(repo: RepoT) -> tuple[int, bytes]:
    # what Mercurial and its hooks print must not get between what git says
    stdin, stdout = repo.ui.protectfinout()
    try:
        proto = wireprotoserver.sshv1protocolhandler(repo.ui, stdin, stdout)
        return PushSession(repo, proto, stdin.fileno(), stdout.fileno()).run()
    finally:
        repo.ui.restorefinout(stdin, stdout)


def _log(
    ui: UiT, service: command.Service, path: bytes, how: bytes, started: float
) -> None:
    ui.log(
        b"amalgam",
        b"git %s of %s by %s over ssh: %s in %.3f seconds\n",
        b"push" if service is command.Service.PUSH else b"fetch",
        path,
        procutil.getuser(),
        printable(how),
        time.monotonic() - started,
    )


def _refuse(service: command.Service, sentence: bytes, code: int = 1) -> int:
    """Tell why there is no answer, in a way that the client shows."""
    if service in (command.Service.FETCH, command.Service.PUSH):
        # gitprotocol-pack(5), "error-line"
        line = pktlines.line(b"ERR " + shown_by_git(sentence) + b"\n")
        # a client that has gone needs no answer
        with contextlib.suppress(BrokenPipeError):
            write_all(sys.stdout.fileno(), line)
        return code
    return _say(sentence, code)


def _say(sentence: bytes, code: int) -> int:
    sys.stderr.buffer.write(printable(sentence) + b"\n")
    sys.stderr.buffer.flush()
    return code


def _end(_number: int, _frame: object) -> NoReturn:
    sys.exit(_ILLEGAL)


if __name__ == "__main__":
    sys.exit(main())
