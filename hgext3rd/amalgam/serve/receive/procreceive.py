"""git's question which refs of a push are changed, and the answer to it.

The protocol ``proc-receive`` of githooks(5), on the pipes of a hook.
"""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING

from mercurial.i18n import _

from ...push.refs.refcommands import PushRefusedError, PushRequest, RefCommand
from ...records import Record
from ...terminal import cut
from .. import pktlines

if TYPE_CHECKING:
    from ...push.refs.refcommands import PushResult

_VERSION = b"version=1"
_OPTIONS = b"push-options"
_MOST_LINES = 2_000
_MOST_BYTES = 1 << 20
_LONGEST_SAID = 1 << 15
_LONGEST_REASON = 1 << 10


def read_request(file: IO[bytes], answers: int) -> PushRequest | None:
    """Read what git asks; ``None`` if it ends before it has asked.

    ``answers`` is the descriptor for the first line of the answer, which git awaits.
    ``ValueError`` for what is not this protocol; ``PushRefusedError`` for too much of
    it, all of which was read.
    """
    offer = _group(file)
    if offer is None:
        return None
    version, _nul, features = b"".join(offer.lines).rstrip(b"\n").partition(b"\0")
    if version != _VERSION:
        raise ValueError("another version of proc-receive")
    offered = features.split(b" ")
    has_options = _OPTIONS in offered
    wanted = b"\0" + _OPTIONS if has_options else b""
    _write(answers, pktlines.line(_VERSION + wanted + b"\n") + pktlines.FLUSH)
    commands = _group(file)
    options = _group(file) if has_options else _Group((), is_cut=False)
    if commands is None or options is None:
        return None
    if commands.is_cut or options.is_cut:
        raise PushRefusedError(
            _(
                b"the push has more than %d refs or options, or they are too long; "
                b"push fewer at a time"
            )
            % _MOST_LINES
        )
    return PushRequest(
        tuple(map(RefCommand.parse, commands.lines)),
        is_atomic=b"atomic" in offered,
        options=options.lines,
    )


def write_result(request: PushRequest, result: PushResult, pipe: int) -> None:
    """Tell git what became of each ref; nothing if git has ended.

    git itself refuses those that are not in ``request``.
    """
    with contextlib.suppress(BrokenPipeError):
        for command in request.commands:
            reason = result.refused.get(command.ref)
            if reason is None:
                line = b"ok %s" % command.ref
            else:
                line = b"ng %s %s" % (command.ref, cut(reason, _LONGEST_REASON))
                line = line[: pktlines.LONGEST_CONTENT]
            _write(pipe, pktlines.line(line))
        _write(pipe, pktlines.FLUSH)


def say(result: PushResult, pipe: int) -> None:
    """Let people know what was said; they see it after ``remote:``."""
    text = b"".join(line + b"\n" for line in result.said)
    with contextlib.suppress(BrokenPipeError):
        _write(pipe, cut(text, _LONGEST_SAID))


class _Group(Record):
    """Lines up to a flush."""

    lines: tuple[bytes, ...]
    is_cut: bool
    """Whether there were more than are kept."""


def _group(file: IO[bytes]) -> _Group | None:
    """Read all lines up to the next flush; ``None`` if there is no end."""
    found: list[bytes] = []
    size, is_cut = 0, False
    for line in pktlines.lines(file):
        if line == pktlines.FLUSH:
            return _Group(tuple(found), is_cut)
        size += len(line)
        is_cut = is_cut or len(found) == _MOST_LINES or size > _MOST_BYTES
        if not is_cut:
            found.append(line)
    return None


def _write(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
