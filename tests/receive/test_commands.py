"""The answer to git's question what becomes of a push (githooks(5), proc-receive)."""

from __future__ import annotations

import errno
import os
import tempfile
from io import BytesIO

import pytest

from hgext3rd.amalgam.receive import apply
from hgext3rd.amalgam.receive.commands import (
    PushRefusedError,
    PushRequest,
    PushResult,
    RefCommand,
)
from hgext3rd.amalgam.serve import pktlines, receivepack

OID = b"1" * 40
LONGEST = 65520 - 4
"""Bytes of a line, without its length."""


def test_each_ref_is_answered_however_long_its_name_is() -> None:
    """A ref that could not be answered would hide what became of those after it."""
    room = LONGEST - len(b"%s %s " % (OID, OID))
    refs = [b"refs/heads/".ljust(count, b"a") for count in (20, 64_000, room)]
    request = PushRequest(
        tuple(RefCommand(OID, OID, ref) for ref in (*refs, b"refs/b"))
    )
    result = PushResult(dict.fromkeys(refs, b"because " * 500))
    with tempfile.TemporaryFile() as file:
        receivepack.write_result(request, result, file.fileno())
        file.seek(0)
        found = [*pktlines.lines(file)]
    assert found[3:] == [b"ok refs/b", pktlines.FLUSH]
    for line, ref in zip(found, refs, strict=False):
        assert line.startswith(b"ng %s because" % ref)
        assert len(line) <= LONGEST


OFFER = pktlines.line(b"version=1\0push-options atomic\n") + pktlines.FLUSH
COMMAND = pktlines.line(b"%s %s refs/heads/a" % (OID, OID))
OPTION = pktlines.line(b"branch=a")
LONG = pktlines.line(b"x" * LONGEST)


def asked(commands: bytes, options: bytes) -> PushRequest | None:
    """Return what is asked; all of it has to be read, since git waits for that."""
    question = OFFER + commands + pktlines.FLUSH + options + pktlines.FLUSH
    file = BytesIO(question)
    with tempfile.TemporaryFile() as answers:
        try:
            return receivepack.read_request(file, answers.fileno())
        finally:
            assert file.tell() == len(question)


def test_request_has_a_bound() -> None:
    request = asked(COMMAND * 20000, OPTION * 20000)
    assert request is not None
    assert (len(request.commands), len(request.options)) == (20000, 20000)
    for commands, options in (
        (COMMAND * 20001, b""),
        (COMMAND, OPTION * 20001),
        (COMMAND, LONG * 65),
    ):
        with pytest.raises(PushRefusedError) as refusal:
            asked(commands, options)
        assert refusal.value.sentence.startswith(b"the push has more than 20000 refs")


SHALLOW = pktlines.line(b"shallow " + OID)


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (pktlines.line(b"%s %s refs/a\0 report-status quiet" % (OID, OID)), True),
        (SHALLOW * 2 + pktlines.line(b"push-cert\0quiet agent=git\n"), True),
        (pktlines.line(b"%s %s refs/quiet\0 agent=quiet" % (OID, OID)), False),
        (COMMAND + pktlines.FLUSH + pktlines.line(b"\0quiet"), False),
        (SHALLOW[:-1], False),
        (b"", False),
    ],
)
def test_quiet_is_in_the_first_command(begin: bytes, expected: bool) -> None:
    assert receivepack.wants_quiet(BytesIO(begin)) == expected


def test_pusher_is_told_that_a_disk_is_full() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        failure = OSError(number, os.strerror(number), "file")
        assert b"no room" in apply.refusal_of(failure).sentence
    failure = OSError(errno.EIO, os.strerror(errno.EIO), "file")
    assert apply.refusal_of(failure).sentence.startswith(
        b"the server failed; nothing was changed; ask its operator"
    )
