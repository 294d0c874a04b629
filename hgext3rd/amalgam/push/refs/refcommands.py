"""Ref commands: what a push asks for, and what became of it (gitprotocol-pack(5))."""

from __future__ import annotations

import re

from ...records import Record

ZERO = b"0" * 40
"""The oid that stands for no ref."""
_COMMAND = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40}) (refs/[^\n\0]*)\n?")


class RefCommand(Record):
    """One ref of a push; oids in hex, ``ZERO`` for none."""

    old: bytes
    """What the client believes that the ref is."""
    new: bytes
    """What it is to be."""
    ref: bytes
    """Its full name."""

    @classmethod
    def parse(cls, line: bytes) -> RefCommand:
        """Return the command that a line is; ``ValueError`` if it is none."""
        found = _COMMAND.fullmatch(line)
        if not found:
            raise ValueError("not a ref command")
        return cls(found[1], found[2], found[3])


class PushRequest(Record):
    """What a push asks for."""

    commands: tuple[RefCommand, ...]
    """In the order in which they are answered."""
    is_atomic: bool = False
    """Whether all are refused if one is."""
    options: tuple[bytes, ...] = ()
    """The push options, as the client wrote them."""


class PushResult(Record):
    """What became of a push."""

    refused: dict[bytes, bytes]
    """Refs that stay as they were, each with a sentence; all others were changed."""
    said: tuple[bytes, ...] = ()
    """Lines in UTF-8 for the person who pushes: what Mercurial and its hooks said."""


class PushRefusedError(Exception):
    """A push of which nothing is taken."""

    def __init__(self, sentence: bytes) -> None:
        """``sentence`` is for the person who pushes, in UTF-8."""
        super().__init__(sentence)
        self.sentence = sentence
