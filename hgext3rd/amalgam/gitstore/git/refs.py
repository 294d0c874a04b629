"""Branches, tags and HEAD for git users, and where they come from in Mercurial.

docs/git-view.rst has the rules for names. ``git check-ref-format`` decides which names
git allows. Refs are in UTF-8, as Mercurial stores names; it has them in memory in the
encoding of the process. Neither reads nor writes the git store.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, TypeVar

from mercurial import bookmarks as bookmarksmod, encoding, error
from mercurial.i18n import _
from mercurial.node import hex as hex_node
from mercurial.utils import stringutil

from ...records import Record
from .namelines import NotInOrderError, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

    from mercurial.interfaces.types import RepoT

_Key = TypeVar("_Key", bound="Hashable")

HEADS = b"refs/heads/"
TAGS = b"refs/tags/"
OTHER_HEADS = b"refs/hg/heads/"
METADATA = b"refs/cinnabar/metadata"
"""git-cinnabar's metadata, hidden from git users."""
MAIN_LINES = (b"@", b"main", b"master")
"""Bookmarks of main lines: Mercurial's name, and those that git makes by itself."""
LONGEST_PART, LONGEST_NAME = 250, 2048
"""Bytes of a name between slashes, and altogether, that every clone can have.

git keeps a ref in a file of that name, and locks it by another that ends in ``.lock``.
Most file systems have names of 255 bytes, and paths of 4,095. Part of the path is where
the clone is. One name that is longer makes ``git fetch`` fail; from 2.50 or so it then
fetches no other ref, either (seen with 2.55).
"""

# values of amalgam.git.refs for which all heads of branches are looked at
_OF_BRANCHES = frozenset({b"tips", b"heads"})
# names below refs/heads/ and the like that git-check-ref-format(1) refuses, and names
# that no clone gets
# what each of them has, unless it begins or ends with a dot or a slash
_SUSPICIOUS_BYTES = bytes(range(0x21)) + b"\x7f~^:?*[\\"
_SUSPICIOUS = (b"..", b"//", b"/.", b".lock", b"@{", b"HEAD")
_REFUSED = re.compile(
    rb"""
      [\x00-\x20\x7f~^:?*\[\\]    # control, space, glob and revision syntax
    | (?<=\.)\.                   # the second of two dots
    | (?:^|(?<=/))[./]            # a component that begins with a dot, or is empty
    | \.(?=lock(?:/|$))           # a component that ends in .lock
    | [./]$                       # the end
    | @(?=\{)
    | ^H(?=EAD(?:/|$))            # in clones, origin/HEAD is another thing
    """,
    re.VERBOSE,
)


def is_accepted(name: bytes) -> bool:
    """Return whether git takes ``name`` after ``refs/heads/`` or the like, as it is."""
    return bool(name) and not _REFUSED.search(name)


class NamedNodes(Record):
    """Names in a repository, by kind: name to node.

    Names are in Mercurial's encoding in memory.
    """

    bookmarks: dict[bytes, bytes]
    tips: dict[bytes, bytes]
    """Of each open branch."""
    others: dict[bytes, bytes]
    """All other heads of branches, by ``branch/node`` in UTF-8."""
    tags: dict[bytes, bytes]
    tip_branch: bytes
    """The branch of the last changeset; empty if HEAD needs not know it."""
    shows_tips: bool
    """Whether open branches have refs."""
    main_line: bytes = b""
    """The bookmark of the branch that a git remote checks out (``fetchedrefs``)."""

    @classmethod
    def of(
        cls,
        view: RepoT,
        kinds: Iterable[bytes],
        main_line: bytes = b"",
        tips: Mapping[bytes, bytes] | None = None,
        bookmarks: Mapping[bytes, bytes] | None = None,
    ) -> NamedNodes:
        """Take the names of ``view``; ``kinds`` is the value of ``amalgam.git.refs``.

        ``main_line``, in UTF-8, is needed for HEAD. ``tips``: those of open branches,
        if known. ``bookmarks``: the bookmarks to use, if not the view's own.
        """
        kinds = frozenset(kinds)

        rev_of = view.unfiltered().changelog.index.get_rev
        filtered = view.changelog.filteredrevs

        def is_served(node: bytes) -> bool:
            rev = rev_of(node)
            # a strip may leave a bookmark on the null revision, which has no commit
            return rev is not None and rev >= 0 and rev not in filtered

        marks: dict[bytes, bytes] = {}
        if b"bookmarks" in kinds:
            shown = view._bookmarks if bookmarks is None else bookmarks
            marks = {name: node for name, node in shown.items() if is_served(node)}
        others: dict[bytes, bytes] = {}
        if tips is None or b"heads" in kinds:
            try:
                tips, others = _heads(view, kinds)
            except ValueError as exc:  # of the cache of branches, which is believed
                raise error.StorageError(
                    _(b"branch cache does not fit the changelog: %s")
                    % stringutil.forcebytestr(exc),
                    hint=_(b"run 'hg verify'"),
                ) from exc
        tags = {}
        if b"tags" in kinds and has_tags(view):
            tags = global_tags(view)
        tip_branch = b""
        if tips and b"@" not in marks and b"default" not in tips:
            tip_branch = view[b"tip"].branch()
        main_line = encoding.tolocal(main_line)
        shows_tips = b"tips" in kinds
        return cls(marks, dict(tips), others, tags, tip_branch, shows_tips, main_line)

    def branches(self) -> Mapping[tuple[str, bytes], bytes]:
        """Return the git branch of each bookmark and of each tip, without prefix.

        The keys are ``("bookmark", name)`` and ``("tip", branch)``. Names that are too
        long for git are left out.
        """
        return fitting(self.distinct_branches())

    def distinct_branches(self) -> Mapping[tuple[str, bytes], bytes]:
        """Return the same with names that are too long."""
        stored = {
            ("bookmark", name): encoding.fromlocal(name) for name in self.bookmarks
        }
        for branch in self.tips:
            name = encoding.fromlocal(branch)
            clashes = branch in self.bookmarks
            stored["tip", branch] = b"branches/" + name if clashes else name
        return distinct(stored)

    def refs(
        self, distinct_branches: Mapping[tuple[str, bytes], bytes] | None = None
    ) -> tuple[dict[bytes, bytes], bytes]:
        """Return the refs, name to node, and the name that HEAD leads to.

        HEAD may lead to no ref, as in an empty repository. ``distinct_branches``: the
        result of that method, if it is known.
        """
        heads_refs = fitting(distinct_branches or self.distinct_branches())
        nodes = {"bookmark": self.bookmarks, "tip": self.tips}
        refs = {
            HEADS + ref: nodes[kind][name] for (kind, name), ref in heads_refs.items()
        }
        tags = tag_names(self.tags)
        refs |= {TAGS + ref: self.tags[name] for name, ref in tags.items()}
        others = _shown({name: name for name in self.others})
        refs |= {OTHER_HEADS + ref: self.others[name] for name, ref in others.items()}

        return refs, self.head(lambda *key: heads_refs.get(key, b""))

    def head(self, shown: Callable[[str, bytes], bytes]) -> bytes:
        """Return the ref of HEAD if ``shown`` gives the branch of bookmark or tip."""
        return head_of(
            shown, self.tip_branch, self.main_line, shows_tips=self.shows_tips
        )

    def too_long(self, refs: Collection[bytes]) -> list[bytes]:
        """Return the bookmarks, open branches and tags that have none of ``refs``.

        These are all that have a name which is short enough. Names are in UTF-8.
        """
        kinds = (self.bookmarks, self.tips, self.tags, self.others)
        if len(refs) == sum(map(len, kinds)):
            return []
        branches, tags = self.branches(), tag_names(self.tags)
        lost = {name for name in self.bookmarks if ("bookmark", name) not in branches}
        lost |= {name for name in self.tips if ("tip", name) not in branches}
        lost |= self.tags.keys() - tags
        return sorted(map(encoding.fromlocal, lost - {b""}))


def head_of(
    shown: Callable[[str, bytes], bytes],
    tip_branch: bytes,
    main_line: bytes,
    *,
    shows_tips: bool,
) -> bytes:
    """Return the ref that HEAD leads to; there may be none of that name.

    ``shown`` gives the git branch of a ``"bookmark"`` or ``"tip"``, without prefix, or
    nothing. The rest is as in ``NamedNodes``, with names as ``shown`` takes them.
    """
    at, *of_git = MAIN_LINES
    tips = (("tip", b"default"), ("tip", tip_branch))
    marks = (("bookmark", name) for name in (main_line, *of_git))
    names = (shown(*key) for key in (("bookmark", at), *tips, *marks))
    # else a branch that a push can make
    return HEADS + next(filter(None, names), b"default" if shows_tips else b"main")


def has_tags(view: RepoT) -> bool:
    """Return whether a file of tags exists; without, Mercurial looks at all heads."""
    return bool(view.svfs.exists(b"data/.hgtags.i"))


def global_tags(view: RepoT) -> dict[bytes, bytes]:
    """Return the tags of ``view`` that everybody sees: name to node."""
    rev_of = view.unfiltered().changelog.index.get_rev
    filtered = view.changelog.filteredrevs
    return {
        name: node
        for name, node in view.tags().items()
        if name != b"tip" and view.tagtype(name) == b"global"
        if (rev := rev_of(node)) is not None and rev >= 0 and rev not in filtered
    }


def tag_names(tags: Iterable[bytes]) -> Mapping[bytes, bytes]:
    """Return the git tag of each of Mercurial's ``tags``, without prefix.

    A tag that would have too long a name, or none, is left out.
    """
    return _shown({tag: encoding.fromlocal(tag) for tag in tags})


def read_bookmarks(repo: RepoT) -> Mapping[bytes, bytes]:
    """Return the bookmarks of ``repo`` as its file has them now, with unknown nodes.

    A tenth of the time that Mercurial takes, which reads files of other forms.
    """
    content: bytes = bookmarksmod.bookmarksvfs(repo).tryread(b"bookmarks")
    try:
        found = names_in(content)
    except NotInOrderError:
        return repo._bookmarks
    nodes = map(binascii.unhexlify, found.values())
    return dict(zip(map(encoding.tolocal, found), nodes, strict=True))


def can_follow(kinds: Iterable[bytes]) -> bool:
    """Return whether new changesets tell how the names of branches change."""
    return b"tips" in kinds


def wanted(
    view: RepoT, kinds: Iterable[bytes], main_line: bytes
) -> tuple[dict[bytes, bytes], bytes]:
    """Return the refs that ``view`` has, name to node, and the name HEAD leads to."""
    return NamedNodes.of(view, kinds, main_line).refs()


def _heads(
    view: RepoT, kinds: frozenset[bytes]
) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """Return the tips of open branches, and other heads, each by name."""
    tips: dict[bytes, bytes] = {}
    others: dict[bytes, bytes] = {}
    if kinds.isdisjoint(_OF_BRANCHES):
        return tips, others
    branchmap = view.branchmap()
    for branch in branchmap:
        if b"tips" in kinds and branchmap.branchheads(branch):
            tips[branch] = branchmap.branchtip(branch)
        if b"heads" in kinds:
            for node in branchmap.branchheads(branch, closed=True):
                if tips.get(branch) != node:
                    name = encoding.fromlocal(branch) + b"/" + hex_node(node)
                    others[name] = node
    return tips, others


class RefNames:
    """Names that exist together: no two are alike, and none is a directory."""

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        """``names`` are such names."""
        self._names: set[bytes] = set()
        self._directories: set[bytes] = set()
        for name in names:
            self.add(name)

    def add(self, name: bytes) -> None:
        """Note a name that may be there."""
        self._names.add(name)
        self._directories.update(parents_of(name))

    def has(self, name: bytes) -> bool:
        """Return whether the name exists, or a directory of it."""
        return name in self._names or name in self._directories

    def has_above(self, name: bytes) -> bool:
        """Return whether a directory of ``name`` is a name."""
        return not self._names.isdisjoint(parents_of(name))

    def clash(self, name: bytes) -> bytes:
        """Return a name that cannot exist beside ``name``, or an empty one."""
        if name in self._directories:
            return min(it for it in self._names if it.startswith(name + b"/"))
        others = (it for it in (name, *parents_of(name)) if it in self._names)
        return next(others, b"")

    def may_have(self, name: bytes) -> bool:
        """Return whether git allows ``name``, beside the existing ones."""
        is_legal = name != b"" and escaped(name) == name
        return is_legal and not (self.has(name) or self.has_above(name))


def distinct(names: Mapping[_Key, bytes]) -> Mapping[_Key, bytes]:
    """Return a name that git allows for each of ``names``, no two alike.

    No name is a directory of another: the longer one's slashes become ``%2F``. Of two
    names that become the same, the one that had to change changes more: its first byte
    is written as ``%XX``, too. The order of ``names`` does not matter, unless two are
    equal.
    """
    if are_plain(names.values()):
        return names
    legal = {key: escaped(name) for key, name in names.items()}
    taken = RefNames()

    def rank(key: _Key) -> tuple[int, bool, bytes]:
        return len(legal[key]), legal[key] != names[key], names[key]

    result = {}
    for key in sorted(names, key=rank):
        ref = legal[key]
        if taken.has_above(ref):
            ref = ref.replace(b"/", b"%2F")
        while taken.has(ref):
            ref = _changed_more(ref)
        taken.add(ref)
        result[key] = ref
    return result


def are_plain(names: Iterable[bytes]) -> bool:
    """Return whether git surely allows ``names`` as they are, beside each other.

    False for few names that it allows. Takes some 100 ns for each, since nearly all
    repositories have such names alone.
    """
    listed = [*names]
    different = {*listed}
    if len(different) < len(listed):
        return False
    joined = b"\n".join(listed)
    if len(joined.translate(None, _SUSPICIOUS_BYTES)) + len(listed) - 1 < len(joined):
        return False
    text = b"\n%s\n" % joined
    if any(part in joined for part in _SUSPICIOUS) or any(
        part in text for part in (b"\n.", b"\n/", b".\n", b"/\n", b"\n\n")
    ):
        return not listed
    directories = {name.rpartition(b"/")[0] for name in listed}
    while directories - {b""}:
        if not different.isdisjoint(directories):
            return False
        directories = {name.rpartition(b"/")[0] for name in directories}
    return True


def are_escaped(names: Iterable[bytes]) -> bool:
    """Return whether each ref has the name that ``escaped`` gives, and fits."""
    named = {name: name for name in names}
    if are_plain(named) and fitting(named) is named:
        return True
    shown = _shown(named)
    return all(shown.get(name) == escaped(name) for name in named)


def is_too_long(name: bytes) -> bool:
    """Return whether some clones could not have a ref of that name, without prefix."""
    if len(name) <= LONGEST_PART:
        return False
    longest = max(map(len, name.split(b"/")))
    return longest > LONGEST_PART or len(name) > LONGEST_NAME


def _shown(names: Mapping[_Key, bytes]) -> Mapping[_Key, bytes]:
    """Return the names of ``distinct`` without too long and empty ones.

    A line of ``.hgtags`` can have an empty tag. No client could read its ref.
    """
    return fitting(distinct(names))


def fitting(names: Mapping[_Key, bytes]) -> Mapping[_Key, bytes]:
    """Return the names that a ref may have; an empty one is none."""
    lengths = {*map(len, names.values())}
    if lengths and 0 < min(lengths) <= max(lengths) <= LONGEST_PART:
        return names
    return {key: name for key, name in names.items() if name and not is_too_long(name)}


def tried_names(name: bytes, ref: bytes) -> set[bytes]:
    """Return all names that ``distinct`` may have tried before it found ``ref``.

    For a bookmark or branch ``name``.
    """
    tried = {ref}
    for stored in (name, b"branches/" + name):
        legal = escaped(stored)
        for candidate in (legal, legal.replace(b"/", b"%2F")):
            while candidate and len(candidate) <= len(ref):
                tried.add(candidate)
                candidate = _changed_more(candidate)
    return tried


def _changed_more(ref: bytes) -> bytes:
    at = len(ref) - len(ref.lstrip(b"%"))
    return b"%%%02X" % ref[at] + ref[at + 1 :]


def escaped(name: bytes) -> bytes:
    """Return ``name`` with each byte that git refuses as ``%XX``."""
    return _REFUSED.sub(lambda found: b"%%%02X" % ord(found[0]), name)


def parents_of(ref: bytes) -> list[bytes]:
    """Return the directories that ``ref`` lies in."""
    names = ref.split(b"/")
    return [b"/".join(names[:count]) for count in range(1, len(names))]
