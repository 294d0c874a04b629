"""Words, sentences, source files and edits, as people make them.

Owns vocabulary and wording only; every answer depends on the random numbers of its
``Writer`` alone. Of ``random.Random`` only ``random`` and ``getrandbits`` are used,
whose sequences Python keeps the same in all versions.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_NOUNS = b"""
account address answer archive array backend batch block branch bridge buffer cache
channel checksum client clock cluster codec column config connection context counter
cursor daemon digest directory document driver editor encoder engine entry error event
extension field filter folder format frame function gateway graph handle header heap
history hook index input iterator journal kernel key label layer layout lexer library
limit line link list loader lock log macro mapping marker matcher member memory merge
message method metric mirror module monitor network node notice number object offset
option order output packet page parser patch path pattern payload peer pipe plugin
point pool port prefix process profile prompt proxy query queue reader record region
register report request resolver resource response result revision route row rule
sample scanner schema scope screen script section segment sensor sequence server
session setting shell signal slot snapshot socket source stack stage state status
storage stream string suffix summary symbol table tag target task template terminal
thread ticket timer token tracker transport tree trigger tuple update user utility
value vector version view visitor volume walker widget window worker writer
""".split()
_VERBS = b"""
accept add allow append apply avoid bound build call change check clean clear close
collect compare compute convert copy count create decode delete detect drop emit encode
ensure expand export extend fetch find finish fix flush follow guard handle hide ignore
import improve insert join keep limit load lock log mark match merge move notify open
parse prefer print protect push read refuse release remove rename repair replace report
reset resolve restore retry return reuse rotate save scan send set share simplify skip
sort split start stop store strip test trace trim update use validate verify wait wrap
""".split()
_QUALITIES = b"""
active big broken common current deep default early empty exact extra fast final first
global hidden idle inner large last late lazy local long missing narrow new nested next
old open outer own partial plain private public quick raw recent remote safe second
shared short simple slow small spare stale strict temporary unknown unused valid wide
""".split()


class Writer:
    """Writes text from the random numbers it is given."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def below(self, limit: int) -> int:
        """A number from 0 up to, not including, ``limit``."""
        return int(self.random.random() * limit)

    def chance(self, percent: float) -> bool:
        """Whether something happens that does so ``percent`` times in a hundred."""
        return self.random.random() * 100 < percent

    def pick(self, items: Sequence[T]) -> T:
        """One of ``items``, each as likely."""
        return items[int(self.random.random() * len(items))]

    def noise(self, count: int) -> bytes:
        """That many bytes that do not compress, of all values."""
        pieces = []
        for done in range(0, count, 1 << 20):
            size = min(count - done, 1 << 20)
            pieces.append(self.random.getrandbits(8 * size).to_bytes(size, "little"))
        return b"".join(pieces)

    def noun(self) -> bytes:
        """A word for a thing, fit for a file name."""
        return self.pick(_NOUNS)

    def clause(self) -> bytes:
        """A few words without capital or full stop, as in the summary of a commit."""
        words = [self.pick(_VERBS), b"the", self.pick(_NOUNS)]
        if self.chance(60):
            words.insert(2, self.pick(_QUALITIES))
        if self.chance(50):
            words += [b"of", b"each", self.pick(_NOUNS)]
        if self.chance(30):
            words += [b"when", b"the", self.pick(_NOUNS), b"is", self.pick(_QUALITIES)]
        return b" ".join(words)

    def sentence(self) -> bytes:
        """A clause as a sentence."""
        return self.clause().capitalize() + b"."

    def paragraph(self) -> bytes:
        """Two to five lines of sentences, each ended by LF."""
        return b"".join(self.sentence() + b"\n" for _ in range(2 + self.below(4)))

    def description(self, area: bytes) -> bytes:
        """What a commit says: a summary, at times with a body."""
        summary = b"%s: %s" % (area, self.clause())
        return summary if self.chance(70) else summary + b"\n\n" + self.paragraph()[:-1]

    def statement(self, name: bytes) -> bytes:
        """One line for the file ``name``, indented as its language has it."""
        noun, other, verb = self.pick(_NOUNS), self.pick(_NOUNS), self.pick(_VERBS)
        number = self.below(4096)
        if name.endswith((b".c", b".h")):
            return b"    %s->%s = %s_%s(%s, %d);\n" % (
                noun,
                other,
                verb,
                noun,
                other,
                number,
            )
        if name.endswith(b".py"):
            return b"    %s.%s = %s(%s, %d)\n" % (noun, other, verb, other, number)
        if name.endswith((b".sh", b"Makefile", b"configure")):
            return b"\t%s --%s=%d $%s\n" % (verb, noun, number, other.upper())
        return self.sentence() + b"\n"

    def section(self, name: bytes) -> bytes:
        """A function of the file ``name``, or a section if it is prose."""
        title = b"%s_%s" % (self.pick(_VERBS), self.pick(_NOUNS))
        body = b"".join(self.statement(name) for _ in range(3 + self.below(8)))
        if name.endswith((b".c", b".h")):
            kind, noun = self.pick((b"int", b"void", b"size_t")), self.pick(_NOUNS)
            return b"\n/* %s */\nstatic %s\n%s(struct %s *%s)\n{\n%s}\n" % (
                self.sentence(),
                kind,
                title,
                noun,
                noun,
                body,
            )
        if name.endswith(b".py"):
            arguments = self.pick(_NOUNS), self.pick(_NOUNS), self.sentence(), body
            return b'\n\ndef %s(%s, %s):\n    """%s"""\n%s' % (title, *arguments)
        if name.endswith((b".sh", b"Makefile", b"configure")):
            return b"\n%s:\n%s" % (title.replace(b"_", b"-"), body)
        heading = title.replace(b"_", b" ").capitalize()
        return b"\n%s\n%s\n\n%s" % (heading, b"-" * len(heading), body)

    def document(self, name: bytes, sections: int) -> bytes:
        """A new file: a first line that names it, then so many sections."""
        mark = b"/* %s: %s */\n" if name.endswith((b".c", b".h")) else b"# %s: %s\n"
        head = mark % (name.rpartition(b"/")[2], self.sentence())
        return head + b"".join(self.section(name) for _ in range(sections))

    def revised(self, name: bytes, content: bytes) -> bytes:
        """``content`` after an edit: lines changed, added, or taken away."""
        lines = content.splitlines(keepends=True)
        for _edit in range(1 if self.chance(65) else 2 + self.below(3)):
            place = self.below(len(lines) + 1)
            kind = self.below(100)
            if kind < 55 or len(lines) < 6:
                lines[place : place + 1] = [self.statement(name)]
            elif kind < 75:
                lines[place:place] = [
                    self.statement(name) for _ in range(1 + self.below(5))
                ]
            elif kind < 88 and len(lines) > 20:
                del lines[place : place + 1 + self.below(6)]
            else:
                lines += self.section(name).splitlines(keepends=True)
        return b"".join(lines)
