"""git's question which refs of a push are changed, and the answer to it.

The protocol ``proc-receive`` of githooks(5), on the pipes of a hook.
"""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING

from ...push.refs.refcommands import PushRequest, RefCommand
from .. import pktlines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...push.refs.refcommands import PushResult

_VERSION = b"version=1"
_OPTIONS = b"push-options"
_MOST_COMMANDS = 20_000
_LONGEST_SAID = 1 << 15
_LONGEST_REASON = 1 << 10


def read_request(file: IO[bytes], answers: int) -> PushRequest | None:
    """Read what git asks; ``None`` if it ends before it has asked.

    ``answers`` is the descriptor for the first line of the answer, which git awaits.
    ``ValueError`` for what is not this protocol.
    """
    group = _group(file)
    if group is None:
        return None
    version, _nul, features = b"".join(group).rstrip(b"\n").partition(b"\0")
    if version != _VERSION:
        raise ValueError("another version of proc-receive")
    offered = features.split(b" ")
    has_options = _OPTIONS in offered
    wanted = b"\0" + _OPTIONS if has_options else b""
    _write(answers, pktlines.line(_VERSION + wanted + b"\n") + pktlines.FLUSH)
    lines = _group(file)
    options = _group(file) if has_options else []
    if lines is None or options is None:
        return None
    return PushRequest(
        tuple(map(RefCommand.parse, lines)),
        is_atomic=b"atomic" in offered,
        options=tuple(options),
    )


def write_result(request: PushRequest, result: PushResult, pipe: int) -> None:
    """Tell git what became of each ref; nothing if git has ended."""
    with contextlib.suppress(BrokenPipeError):
        for command in request.commands:
            reason = result.refused.get(command.ref)
            if reason is None:
                line = b"ok %s" % command.ref
            else:
                line = b"ng %s %s" % (command.ref, reason[:_LONGEST_REASON])
                line = line[: pktlines.LONGEST_CONTENT]
            _write(pipe, pktlines.line(line))
        _write(pipe, pktlines.FLUSH)


def say(result: PushResult, pipe: int) -> None:
    """Let people know what was said; they see it after ``remote:``."""
    text = b"".join(line + b"\n" for line in result.said)
    with contextlib.suppress(BrokenPipeError):
        _write(pipe, text[:_LONGEST_SAID])


def _group(file: IO[bytes]) -> list[bytes] | None:
    """Return the lines up to the next flush; ``None`` if there is no end."""
    found: list[bytes] = []
    lines: Iterator[bytes] = pktlines.lines(file)
    for line in lines:
        if line == pktlines.FLUSH:
            return found
        found.append(line)
        if len(found) > _MOST_COMMANDS:
            raise ValueError("too many commands")
    return None


def _write(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
