"""Commits and trees of every form that git reads, drawn by Hypothesis.

The grammar is git's: gitformat-commit, gitformat-tree as ``fsck.c`` checks them, and a
little beyond. It knows nothing of what a conversion can keep. ``Grown`` makes a history
of what was drawn, and ``judge`` asks git which commits it accepts.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from .environment import captured
from .randomcommits import GitObjects, write_object

#: Content of a file, target of a gitlink, or entries of a directory.
Child = bytes | str | tuple["Entry", ...]


@dataclass(frozen=True)
class Entry:
    """An entry of a tree."""

    mode: bytes
    name: bytes
    child: Child


Tree = tuple[Entry, ...]


@dataclass(frozen=True)
class Edit:
    """A change of one directory of a tree."""

    place: int
    """Which directory, modulo their number."""
    entry: Entry | int | bytes
    """What takes the place of one with its name; which one goes; a mode for files."""


@dataclass(frozen=True)
class Drawn:
    """A commit, but for what it stands on."""

    parents: tuple[int, ...] = ()
    """How far each is back, modulo the commits there are."""
    author: bytes = b"A <a@x> 1 +0000"
    committer: bytes = b"A <a@x> 1 +0000"
    headers: tuple[bytes, ...] = ()
    """Those after the committer, with their continuations."""
    body: bytes | None = b"plain\n"
    """The message; ``None`` if no empty line ends the headers."""
    is_new: bool = False
    """Whether the tree begins as an empty one, and not as that of the first parent."""
    edits: tuple[Edit, ...] = ()

    @property
    def after_parents(self) -> bytes:
        """The commit object behind its parents."""
        text = b"author %s\ncommitter %s\n" % (self.author, self.committer)
        text += b"".join(header + b"\n" for header in self.headers)
        return text + (b"" if self.body is None else b"\n" + self.body)


class Verdict(enum.Enum):
    """What git says of an object that it receives."""

    ACCEPTED = "accepted"
    WARNED = "accepted with a warning, by receive.fsckObjects or by fsck"
    REFUSED = "refused"


def _weighted(*choices: tuple[int, st.SearchStrategy[object]]) -> st.SearchStrategy:
    """One of some strategies, by weight."""
    strategies = [it for _weight, it in choices]
    bag = [at for at, (weight, _it) in enumerate(choices) for _ in range(weight)]
    return st.sampled_from(bag).flatmap(strategies.__getitem__)


def _bytes_but(forbidden: bytes, most: int = 12, least: int = 0) -> st.SearchStrategy:
    allowed = [byte for byte in range(256) if byte not in forbidden]
    text = st.text(st.characters(exclude_characters=forbidden.decode()), max_size=most)
    usual = [byte for byte in b"aA1 .-\\\t\r@%:\x7f\xe9\xff" if byte in allowed]
    return st.one_of(
        st.lists(st.sampled_from(usual), max_size=most).map(bytes),
        st.lists(st.sampled_from(allowed), max_size=most).map(bytes),
        text.map(lambda it: it.encode("utf-8", "surrogatepass")),
    ).filter(lambda it: len(it) >= least)


_names = st.one_of(
    st.sampled_from(
        (
            *(b"A U Thor", b"J\xc3\xa9", b"J\xe9", b""),
            *(b" ", b"  A", b"A  B", b"A ", b"a@x"),
            *(b"A ext:(%20x)", b"back\\n", b"\\", b'"Q"'),
            *(b"tab\tx", b"A\r", b"none", b"-"),
            *(b"\xf0\x28", b"\xed\xa0\x80", b"%41", b"A (c)"),
            *(b"\x01", b"A.", b",;", b"x" * 300),
        )
    ),
    _bytes_but(b"<>\n\0"),
)
_mails = st.one_of(
    st.sampled_from(
        (
            *(b"a@x", b"", b" ", b"none@none"),
            *(b"a", b" a@x ", b"a@x b", b"\xe9@x", b"a@x\t"),
            *(b"a\\@x", b"a@@x", b"\r", b"a)@(x", b"ext:(", b"m" * 300),
        )
    ),
    _bytes_but(b"<>\n\0"),
)
_SECONDS = (
    *(0, 1, 59, 1_000_000_000, 1_700_000_001, 2**31 - 1, 2**31, 2**32, 2**33 + 1),
    *(253402300799, 253402300800, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1),
)
_seconds = _weighted(
    (6, st.sampled_from([b"%d" % it for it in _SECONDS])),
    (3, st.integers(0, 2**63 - 1).map(lambda it: b"%d" % it)),
    (3, st.integers(0, 2**31).map(lambda it: b"%d" % it)),
    (1, st.sampled_from([b"+5", b" 7", b"\t7", b"  12", b"+0", b"007", b"-1", b""])),
)
_zones = _weighted(
    (4, st.sampled_from([b"+0000", b"+0200", b"-0530", b"+0545", b"-0800", b"+1400"])),
    (3, st.sampled_from([b"-0000", b"+0060", b"+0099", b"-0001", b"+0025", b"+9999"])),
    (3, st.from_regex(re.compile(rb"[+-][0-9]{4}"), fullmatch=True)),
)


@st.composite
def _people(draw: st.DrawFn) -> bytes:
    who = draw(_names) + b" <" + draw(_mails) + b">"
    return b"%s %s %s" % (who, draw(_seconds), draw(_zones))


#: What git refuses, so that it is seen that its check is asked.
_broken_people = st.sampled_from(
    (
        *(b"", b"A <a@x>", b"<a@x> 1 +0000", b"A<a@x> 1 +0000", b"A <a@x> -1 +0000"),
        *(b"A <a@x> 1", b"A <a@x> 1 0000", b"A <a@x> 1 +00000", b"A > <a@x> 1 +0000"),
        *(b"A <a@x> 01 +0000", b"A <a@x>1 +0000"),
        *(b"A a@x 1 +0000", b"A <<a@x>> 1 +0000"),
    )
)
person = _weighted((60, _people()), (1, _broken_people))

_lines = _bytes_but(b"\n\0", most=30)
_SIGNATURE = (
    b"-----BEGIN PGP SIGNATURE-----\n \n iQEzBAAB\xe9\n =AbCd\n "
    b"-----END PGP SIGNATURE-----"
)
_TAG = b"object %040d\n type commit\n tag v1\n tagger T <t@x> 1 +0000\n \n tagged\n"
_KEYS = (
    *(b"gpgsig", b"gpgsig-sha256", b"mergetag"),
    *(b"encoding", b"HG:extra", b"HG:rename"),
    *(b"HG:rename-source", b"HG:other", b"change-id", b"x", b"GIT0-x", b"GIT0", b""),
    *(b"tree", b"parent", b"author", b"committer", b"git.commit", b"git.tree", b"%:"),
)
_VALUES = (
    *(_SIGNATURE, _SIGNATURE + b"\n ", _TAG % 1, _TAG % 2 + b" gpgsig x", b"UTF-8"),
    *(b"utf-8", b"ISO-8859-1", b"koi8-r", b"Shift_JIS", b"no-such-code", b"hex", b""),
    *(b"hg", b"git", b"a:b", b"branch:x", b"close:1", b"k:%76", b"A <a@x> 1 +0000"),
    *(b"1" * 40, b"a\n \n b", b"\xe9", b" lead", b"trail ", b"x\r", b"x\\y", b"a\n "),
)
_values = st.one_of(
    st.sampled_from(_VALUES), st.lists(_lines, min_size=1, max_size=4).map(b"\n ".join)
)


#: Keys of extras, of which hg-git and Mercurial read some themselves.
_EXTRAS = (
    *(b"k", b"k:x", b"", b"a%20b", b"%0a", b"%00", b"\\n", b"close", b"branch"),
    *(b"author", b"committer", b"message", b"encoding", b"gpgsig", b"amend_source"),
    *(b"hg-git", b"hg-git-rename-source", b"git.commit", b"git.tree", b"p1copies"),
    *(b"filesadded", b"GIT0-x", b"GIT0-author", b"GIT1-x%20y", b"GIT99-z", b"GIT-q"),
)
_EXTRA_VALUES = (
    *(b"v", b"", b"1", b"git", b"hg", b"default", b"tip", b"%E9", b"%e9", b"a:b", b"%"),
    *(b"octopus", b"octopus-done", b"a%0Ab", b"a%0aparent x", b"%00", b"utf-8", b" v "),
    *(b"A <a@x> 1 0", b"A%20%3Ca@x%3E%201%200", b"%02%02%02ab", b"1 " + b"0" * 40),
)
_FILES = (b"a", b"b", b"d/x", b"none", b"", b"a%20b", b"a b", b"%61", b"a => b")


@st.composite
def _hg_headers(draw: st.DrawFn) -> bytes:
    """Draw a header as hg-git writes it, or nearly."""
    if draw(st.booleans()):
        return b"HG:rename %s:%s" % tuple(draw(st.sampled_from(_FILES)) for _ in "ab")
    pair = draw(st.sampled_from(_EXTRAS)), draw(st.sampled_from(_EXTRA_VALUES))
    return draw(st.sampled_from([b"HG:extra ", b"HG:extra  "])) + b":".join(pair)


@st.composite
def _sections(draw: st.DrawFn) -> bytes:
    """Draw a message with metadata of Mercurial in it, or nearly."""
    lines: list[bytes] = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["rename", "extra", "branch", "other", "again"]))
        if kind == "rename":
            pair = tuple(draw(st.sampled_from(_FILES)) for _ in "ab")
            lines.append(b"rename : %s => %s" % pair)
        elif kind == "extra":
            keys, values = st.sampled_from(_EXTRAS), st.sampled_from(_EXTRA_VALUES)
            lines.append(b"extra : %s : %s" % (draw(keys), draw(values)))
        elif kind == "branch":
            lines.append(b"branch : " + draw(st.sampled_from(_EXTRA_VALUES)))
        else:
            odd = (b"--HG--", b"prose", b"", b"x : y", b"rename : a", b"extra : k")
            lines.append(draw(st.sampled_from(odd)))
    head = draw(st.sampled_from([b"m\n\n", b"m\n", b"\n", b"m"]))
    end = draw(st.sampled_from([b"\n", b"\n", b"", b"\n\n"]))
    return head + b"\n".join([b"--HG--", *lines]) + end


@st.composite
def _headers(draw: st.DrawFn) -> bytes:
    key = draw(st.one_of(st.sampled_from(_KEYS), _bytes_but(b"\n\0 ", most=8, least=1)))
    return key + b" " + draw(_values)


_header = _weighted(
    (3, st.just(b"gpgsig " + _SIGNATURE)),
    (2, st.sampled_from([b"UTF-8", b"ISO-8859-1"]).map(b"encoding ".__add__)),
    (20, _headers()),
    (6, _hg_headers()),
    (1, _bytes_but(b"\n\0", least=1)),  # without a space, or nothing but blanks
)
_MESSAGES = (
    *(
        b"",
        b"m",
        b"m\n",
        b"m\n\n",
        b"\nm\n",
        b"\n",
        b"\n\n",
        b"m  \nx\t\n",
        b"m\r\nx\r\n",
    ),
    *(
        b"m\xe9\n",
        "mé\n".encode(),
        b"m\0x\n",
        b"\0",
        b"\x0cm\x0b\n",
        b" \n m \n",
        b"\r",
    ),
    *(b"m\n\n--HG--\nbranch : b\n", b"m\n--HG--\nbranch : default\n", b"\n--HG--\n"),
    *(
        b"m\n\n--HG--\nextra : k : v\n",
        b"m\n--HG--\nrename : a => b\n",
        b"a\n--HG--\nx",
    ),
    *(b"tree %040d\nparent x\n" % 0, b"\xef\xbb\xbfm\n", b"long \xe9 " * 90 + b"\r\n"),
    *(b"the quick brown fox\n" * 40, b"\xed\xa0\x80\n", b"m\xc2\x85\xe2\x80\xa8x\n"),
)
body = _weighted(
    (6, st.just(b"plain\n")),
    (8, st.sampled_from(_MESSAGES)),
    (4, _bytes_but(b"", most=60)),
    (2, _sections()),
    (1, st.none()),
)

_NAMES = (
    *(
        b"a",
        b"b",
        b"a.b",
        b"a-b",
        b"a0",
        b"A",
        b"d",
        b"d.x",
        b"d-",
        b"e",
        b"lib",
        b"x y",
    ),
    *(
        b".gitignore",
        b".gitattributes",
        b".hgtags",
        b".hgignore",
        b".hgsub",
        b".mailmap",
    ),
    *(b".hgsubstate", b".hgeol", b"data", b"x.i"),
    *(b"x.d", b"aux", b"con.txt", b"dot."),
    *(b"caf\xc3\xa9", b"cafe\xcc\x81", b"caf\xe9"),
    *(b"\xff", b" ", b" lead", b"trail "),
    *(
        b"-",
        b"--",
        b"~",
        b"~1",
        b"_",
        b"__",
        b"\\",
        b"a\\b",
        b":",
        b"*",
        b"?",
        b'"',
        b"'",
    ),
    *(
        b"tab\t",
        b"\x01",
        b"\x7f",
        b"%41",
        b"...",
        b".x",
        b"n" * 255,
        b"n" * 300,
        b"git",
    ),
)
#: What Mercurial does not check out, or git only with a warning.
_ODD_NAMES = (
    *(
        b".hg",
        b".HG",
        b".hG",
        b"a\rb",
        b"a\nb",
        b"\r",
        b"\n",
        b".git",
        b".GIT",
        b"git~1",
    ),
    *(b".g\xe2\x80\x8cit", b".git.", b".git ", b"hg~1"),
    *(b"a.lock", b".", b"..", b"a/b"),
    *(b"", b".gitmodules ", b"git~12", b".git::$INDEX", b".hg\xe2\x80\x8c", b"/"),
)
_name = _weighted(
    (30, st.sampled_from(_NAMES)),
    (10, _bytes_but(b"\0/\n\r", most=8, least=1)),
    (2, st.sampled_from(_ODD_NAMES)),
)
_CONTENTS = (
    *(
        b"",
        b"x\n",
        b"x\n",
        b"same\n",
        b"no line feed",
        b"\1\n",
        b"\1\ncopy: a\n\1\n",
        b"\n",
    ),
    *(
        b"\1\n\1\nx",
        b"nul\0",
        b"a\r\nb\r\n",
        b"line\n" * 99,
        b"../up",
        b"a",
        b"\xff\xfe",
    ),
)
_content = st.one_of(st.sampled_from(_CONTENTS), st.binary(max_size=20))
_gitlink = st.one_of(
    st.sampled_from(["1" * 40, "f" * 40, "07" * 20]),
    st.binary(min_size=20, max_size=20).map(bytes.hex),
)
_module_line = st.sampled_from(
    (
        b"\tpath = sub\n",
        *(b"\tpath = lib/s\n", b"\turl = https://example.org/s.git\n"),
        b"\turl = ../s\n",
        *(b"\tbranch = main ; note\n", b'\tURL = "https://x/q#1"\n'),
        *(b"# note\n", b"\tignore\n"),
        *(b"\n", b"path=d\n", b"\tfetchRecurseSubmodules = no\n"),
        *(
            b"\turl = a\\\n b\n",
            b"\tpath = sub2\r\n",
            b"\tshallow = true\n",
            b"broken [\n",
        ),
    )
)
_module_head = st.sampled_from(
    (
        *(b'[submodule "sub"]\n', b'[submodule "Sub"]\n'),
        *(b'[submodule "lib/s"]\n', b""),
        *(b'[submodule "a b"]\r\n', b"[submodule.sub]\n"),
        *(b"[core]\n", b'[other "x"]\n'),
    )
)
_modules = st.lists(
    st.builds(
        lambda head, lines: head + b"".join(lines),
        _module_head,
        st.lists(_module_line, max_size=4),
    ),
    max_size=3,
).map(b"".join)
_source_lines = st.sampled_from(
    (
        *(b"s = ../s\n", b"lib/s=[git]https://x\r\n", b"s\t= [svn]file:///x\r"),
        *(b"# note\n", b"; = [\n", b"\n", b" \t\n", b"\x0c\n", b"s =\n", b"s=a=b\n"),
        *(b"c: = x\n", b"a b = \xe9\n", b"s = [hg] x\n", b".git = x\n", b"s = [hg]x"),
        *(b"s = file:/x\n", b"\xef\xbb\xbfs = x\n", b"s = x y \\n", b"con. = x\n"),
    )
)
_odd_source_lines = st.sampled_from(
    (
        *(b"junk\n", b" s = x\n", b"\t# note\n", b"= x\n", b"s = x\n  more\n"),
        *(b"\x0bs = x\n", b"\x0b\n", b".hg\x0b = x\n", b"\xef\xbb\xbf = x\n"),
        *(b"%include a\n", b"%unset s\n", b"\xef\xbb\xbf%include x=y\n", b"[s]\n"),
        *(b"[subpaths]\n", b"( = x\n", b"s = [git x\n", b"s = [cvs]x\n", b"s = []x\n"),
        *(b".hg = x\n", b"a/.HG/b = x\n", b"../s = x\n", b"a/./s = x\n", b"/s = x\n"),
        *(b"s/ = x\n", b"a//s = x\n", b"hg~1 = x\n", b".h\xe2\x80\x8cg = x\n"),
        *(b"~s = x\n", b"$s = x\n", b"a$b = x\n", b"s\0 = x\n", b"s = \0\n"),
        *(b"s = file://host/x\n", b"s = [hg] file://x\n", b"s = file:///x#y\n"),
    )
)
_state_lines = st.sampled_from(
    (
        *(
            b"%040d s\n" % 1,
            b"%040d lib/s\r\n" % 2,
            b" 12 s\n",
            b"\n",
            b"\t\n",
            b"x y z",
        ),
        *(
            b"junk\n",
            b"\x0b\n",
            b"\x0b 1\n",
            b"\x0c 1\n",
            b"1\ts\n",
            b"12 \n",
            b"s\0 \n",
        ),
    )
)


_sources = st.lists(
    _weighted((6, _source_lines), (1, _odd_source_lines)), max_size=4
).map(b"".join)
_states = st.lists(_state_lines, max_size=3).map(b"".join)
_subrepositories = st.one_of(
    st.tuples(st.just(b".hgsub"), _sources),
    st.tuples(st.just(b".hgsubstate"), _states),
)
_file_modes = _weighted(
    (12, st.just(b"100644")),
    (4, st.sampled_from([b"100755", b"120000"])),
    (1, st.sampled_from([b"100664", b"100600", b"100666", b"120777", b"0100644"])),
)
_directory_modes = _weighted(
    (40, st.just(b"40000")), (1, st.sampled_from([b"040000", b"40755"]))
)


@st.composite
def _entries(draw: st.DrawFn, depth: int = 3) -> Entry:
    kinds = ["file"] * 16 + ["tree"] * 8 + ["link", "modules"] * 2 + ["sub"]
    kind = draw(st.sampled_from(kinds))
    if kind == "modules":
        return Entry(draw(_file_modes), b".gitmodules", draw(_modules))
    if kind == "sub":
        return Entry(draw(_file_modes), *draw(_subrepositories))
    name = draw(_name)
    if kind == "link":
        return Entry(b"160000", draw(st.sampled_from([name, b"sub"])), draw(_gitlink))
    if kind == "file" or not depth:
        return Entry(draw(_file_modes), name, draw(_content))
    inner = draw(st.lists(_entries(depth - 1), max_size=3))
    return Entry(draw(_directory_modes), name, sorted_entries(inner))


_numbers = st.integers(0, 30)
_edits = st.builds(
    Edit, _numbers, _weighted((10, _entries()), (2, _numbers), (1, _file_modes))
)
_parents = _weighted(
    (1, st.just(())),
    (12, st.just((0,))),
    (4, st.tuples(_numbers)),
    (5, st.tuples(_numbers, _numbers)),
    (2, st.lists(_numbers, min_size=3, max_size=5).map(tuple)),
    (1, st.lists(_numbers, min_size=3, max_size=32).map(tuple)),
)


@st.composite
def commits(draw: st.DrawFn) -> Drawn:
    """Draw a commit."""
    author = draw(person)
    return Drawn(
        parents=draw(_parents),
        author=author,
        committer=draw(st.one_of(st.just(author), person)),
        headers=tuple(
            draw(_weighted((3, st.just([])), (2, st.lists(_header, max_size=5))))
        ),
        body=draw(body),
        is_new=draw(st.sampled_from([False] * 9 + [True])),
        edits=tuple(draw(st.lists(_edits, max_size=4))),
    )


def draw_commits(seed: int, count: int) -> list[Drawn]:
    """Draw so many commits; the same ones for a seed."""
    found: list[Drawn] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[*hypothesis.HealthCheck],
    )
    @hypothesis.given(commits())
    def collect(drawn: Drawn) -> None:
        found.append(drawn)

    collect()
    return found


def _order(entry: Entry) -> bytes:
    return entry.name + (b"/" if isinstance(entry.child, tuple) else b"")


def sorted_entries(entries: Iterable[Entry]) -> Tree:
    """Return entries in git's order, the last of each name."""
    named = {entry.name: entry for entry in entries}
    return tuple(sorted(named.values(), key=_order))


def _directories(tree: Tree) -> list[tuple[bytes, ...]]:
    found: list[tuple[bytes, ...]] = [()]
    for entry in tree:
        if isinstance(entry.child, tuple):
            found += [(entry.name, *below) for below in _directories(entry.child)]
    return found


def _edited(tree: Tree, path: Sequence[bytes], entry: Entry | int | bytes) -> Tree:
    if path:
        (old,) = (it for it in tree if it.name == path[0])
        assert isinstance(old.child, tuple)
        inner = _edited(old.child, path[1:], entry)
        return sorted_entries([*tree, Entry(old.mode, old.name, inner)])
    if isinstance(entry, Entry):
        return sorted_entries([*tree, entry])
    if isinstance(entry, bytes):
        files = [it for it in tree if isinstance(it.child, bytes)]
        changed = [Entry(entry, it.name, it.child) for it in files]
        return sorted_entries([*tree, *changed])
    at = entry % len(tree) if tree else 0
    return tree[:at] + tree[at + 1 :]


@dataclass
class Grown:
    """A git repository that grows by what was drawn."""

    path: Path
    oids: list[str] = field(default_factory=list)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    trees: dict[str, Tree] = field(default_factory=dict)
    """By commit."""
    drawn: dict[str, Drawn] = field(default_factory=dict)
    _written: dict[Child, str] = field(default_factory=dict)
    _below: dict[Child, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make it, if it is not there."""
        self._objects = GitObjects(self.path)

    def add(self, drawn: Drawn, *, on: Sequence[str] | None = None) -> str:
        """Add a commit on others of ``on``, by default all; return its oid."""
        pool = self.oids if on is None else on
        parents = tuple(
            pool[len(pool) - 1 - back % len(pool)] for back in drawn.parents if pool
        )
        tree = self.trees[parents[0]] if parents and not drawn.is_new else ()
        for edit in drawn.edits:
            places = _directories(tree)
            tree = _edited(tree, places[edit.place % len(places)], edit.entry)
        text = b"tree %s\n" % self._tree(tree).encode()
        text += b"".join(b"parent %s\n" % it.encode() for it in parents)
        text += drawn.after_parents
        oid = write_object(self.path, "commit", text)
        if oid not in self.parents:
            self.oids.append(oid)
        self.parents[oid], self.trees[oid], self.drawn[oid] = parents, tree, drawn
        return oid

    def heads(self) -> list[str]:
        """Return the commits that are no parents."""
        used = {parent for parents in self.parents.values() for parent in parents}
        return [oid for oid in self.oids if oid not in used]

    def name_all(self) -> None:
        """Let a branch lead to each commit."""
        for at, oid in enumerate(self.oids):
            self._objects.branch(f"c{at}", oid)

    def paths(self, oid: str) -> list[bytes]:
        """Return the paths of all files of a commit."""
        return [*_paths(self.trees[oid])]

    def objects(self, oid: str) -> frozenset[str]:
        """Return the oids of a commit, its trees and files, without its parents."""
        return self._inside(self.trees[oid]) | {oid}

    def _inside(self, child: Child) -> frozenset[str]:
        if isinstance(child, str):
            return frozenset([child])  # git may look for a file there
        if child not in self._below:
            inner = child if isinstance(child, tuple) else ()
            own = frozenset([self._child(child)])
            self._below[child] = own.union(*(self._inside(it.child) for it in inner))
        return self._below[child]

    def _tree(self, tree: Tree) -> str:
        if not tree:
            return write_object(self.path, "tree", b"")
        if tree not in self._written:
            entries = ((it.mode, it.name, self._child(it.child)) for it in tree)
            self._written[tree] = self._objects.tree(*entries)
        return self._written[tree]

    def _child(self, child: Child) -> str:
        if isinstance(child, str):
            return child
        if isinstance(child, tuple):
            return self._tree(child)
        if child not in self._written:
            self._written[child] = write_object(self.path, "blob", child)
        return self._written[child]


def _paths(tree: Tree) -> Iterable[bytes]:
    for entry in tree:
        if isinstance(entry.child, tuple):
            yield from (entry.name + b"/" + path for path in _paths(entry.child))
        elif isinstance(entry.child, bytes):
            yield entry.name


_COMPLAINT = re.compile(r"^(error|warning) in (\w+) ([0-9a-f]{40}): (\w+)")


def complaints(path: Path) -> dict[str, set[tuple[bool, str]]]:
    """Return what git's check says of each object: whether it refuses it, and why.

    An error of ``fsck --strict`` is what ``receive.fsckObjects`` refuses. One that is
    a warning without ``--strict`` is refused by that check alone.
    """
    found: dict[str, set[tuple[bool, str]]] = {}
    for options in ((), ("--strict",)):
        command = ["git", "fsck", "--no-dangling", "--no-progress", *options]
        done = captured(command, path)
        for line in done.stderr.decode(errors="replace").splitlines():
            if match := _COMPLAINT.match(line):
                severity, _kind, oid, message = match.groups()
                is_refused = severity == "error" and not options
                found.setdefault(oid, set()).add((is_refused, message))
    return found


#: What fsck only warns of, while git reads no such tree, or never receives it.
_FATAL = ("emptyName", "nullSha1")


def judge(grown: Grown) -> dict[str, Verdict]:
    """Return what git says of each commit and its tree, not of its ancestors."""
    found = complaints(grown.path)
    verdicts = {}
    for oid in grown.oids:
        said = {it for each in grown.objects(oid) for it in found.get(each, ())}
        is_refused = any(bad or name in _FATAL for bad, name in said)
        verdict = Verdict.WARNED if said else Verdict.ACCEPTED
        verdicts[oid] = Verdict.REFUSED if is_refused else verdict
    return verdicts
