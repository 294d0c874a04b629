"""Translation of ids for users: ``git::id``, ``{gitnode}`` and ``gitnode()``.

hg-git has ``{gitnode}`` and ``gitnode()``, too. If hg-git is loaded, they are hg-git's.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from mercurial import (
    error,
    revsetlang,
    scmutil,
    smartset,
)
from mercurial.i18n import _
from mercurial.node import hex as hex_node, short
from mercurial.utils import stringutil

from .. import compat
from ..config import GitConfig, setting, warn_once
from ..configitems import HGGIT_DIALECT
from ..gitstore import ids, oidmap as oidmaps, selection, store as stores
from ..gitstore.ids import RemoteIds
from ..gitstore.imported import ImportedCommits
from ..hggit import adoption, mapfile
from ..terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.ids import Translation
    from ..gitstore.store import GitStore

_BLOCK_BYTES = 1 << 17


def run(ui: UiT, repo: RepoT, *given: bytes, **opts: Any) -> int:
    """Answer ``git::id``."""
    if opts["stdin"] and given:
        raise error.InputError(_(b"cannot specify both --stdin and ids"))
    if not opts["stdin"] and not given:
        raise error.InputError(
            _(b"no id given"),
            hint=_(b"name some, or use --stdin; see 'hg help git::id'"),
        )
    byte_opts = {name.encode(): value for name, value in opts.items()}
    complete = True
    _refuse_rewritten(repo)
    with _open_map(repo) as oidmap:
        answers = _translate(repo, oidmap, given)
        mistakes = [
            _mistake(repo, oidmap, id_, meanings)
            for id_, meanings in zip(given, answers, strict=True)
        ]
        if len(given) == 1 and mistakes[0] is not None:
            raise mistakes[0]
        with ui.formatter(b"git-id", byte_opts) as fm:
            for id_, meanings, mistake in zip(given, answers, mistakes, strict=True):
                _show(fm, id_, meanings)
                if mistake is None:
                    fm.plain(one_line(hex_node(meanings[0].other)))
                    continue
                complete = False
                text = stringutil.forcebytestr(mistake)
                ui.warn(one_line(_(b"warning: %s") % text))
                if mistake.hint:
                    ui.warn(one_line(b"(%s)" % mistake.hint))
            for block in _line_blocks(ui) if opts["stdin"] else ():
                complete &= _answer_lines(ui, repo, fm, oidmap, block)
    return 0 if complete else 1


def revset(repo: RepoT, subset: Any, x: Any) -> Any:
    """Answer ``gitnode(id)``."""
    # i18n: "gitnode" is a keyword
    (argument,) = revsetlang.getargs(x, 1, 1, _(b"gitnode requires one argument"))
    # i18n: "gitnode" is a keyword
    id_ = revsetlang.getstring(argument, _(b"gitnode requires a string"))
    with _open_map(repo) as oidmap:
        found = ids.changesets(oidmap, id_)
    if len(found) > 1 and setting(repo.ui, b"amalgam", b"git.dialect") == HGGIT_DIALECT:
        # words and exit code of hg-git
        text = _(b"ambiguous identifier")
        raise error.AmbiguousPrefixLookupError(id_, mapfile.NAME, text)
    if len(found) > 1:
        raise _ambiguous(
            id_, [ids.Translation(node, oid, oidmaps.Side.OID) for node, oid in found]
        )
    revs = []
    for node, _oid in found:
        # one that this view of the repository does not have is not found either
        with contextlib.suppress(error.LookupError):
            revs.append(repo.changelog.rev(node))
    return subset & smartset.baseset(revs)


def keyword(context: Any, mapping: Any) -> bytes:
    """Answer ``{gitnode}``."""
    node = context.resource(mapping, b"ctx").node()
    if node is None:  # the working directory
        return b""
    repo = context.resource(mapping, b"repo")
    cache = context.resource(mapping, b"cache")
    if b"amalgam-map" not in cache:
        try:
            store = stores.GitStore(repo, GitConfig.from_ui(repo.ui))
        except error.ConfigError as exc:  # log and other commands go on
            warn_once(repo.ui, _(b"no {gitnode}: %s") % exc.message, exc.hint)
            cache[b"amalgam-map"] = None
        else:
            cache[b"amalgam-map"] = opened(repo, store)
    oidmap = cache[b"amalgam-map"]
    (oid,) = oidmap.oids([node]) if oidmap is not None else (None,)
    return hex_node(oid) if oid else b""


def leave_names_to(ui: UiT, hggit: ModuleType, ours: Mapping[str, Any]) -> None:
    """Leave the names that hg-git has, too, to hg-git, and warn at the first use.

    ``ours`` are registrars by the names of the attributes that extensions have.
    """

    @functools.cache
    def warn() -> None:
        ui.warn(
            _(b"warning: {gitnode} and gitnode() are those of hg-git, not of amalgam\n")
            + _(b"(use 'hg git::id' for the ids of amalgam's git repository)\n")
        )

    for attribute, registrar in ours.items():
        theirs = getattr(getattr(hggit, attribute, None), "_table", {})
        for name in theirs:
            compat.withdraw(registrar, name)
        if b"gitnode" in theirs:
            theirs[b"gitnode"] = _after(warn, theirs[b"gitnode"])


def _after(first: Callable[[], None], func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)  # with the attributes by which Mercurial knows it
    def both(*args: Any, **kwargs: Any) -> Any:
        first()
        return func(*args, **kwargs)

    return both


def opened(repo: RepoT, store: GitStore) -> RemoteIds:
    """Open the ids of all commits, exported and imported; to be closed."""
    exported = store.open_map()
    apart = adoption.take_over(store)
    if apart is not None:
        return RemoteIds(apart, exported)
    return ImportedCommits(repo, store).ids_with(exported)


@contextlib.contextmanager
def _open_map(repo: RepoT) -> Iterator[RemoteIds]:
    store = stores.GitStore(repo, GitConfig.from_ui(repo.ui))
    with contextlib.closing(opened(repo, store)) as oidmap:
        yield oidmap


def _line_blocks(ui: UiT) -> Iterator[list[bytes]]:
    """Yield the lines of standard input, as many at a time as are there."""
    # a command server's input has lines only
    read = getattr(ui.fin, "read1", lambda _size: ui.fin.readline())
    rest = b""
    while block := read(_BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield [line.strip() for line in lines]
    if rest:
        yield [rest.strip()]


def _refuse_rewritten(repo: RepoT) -> None:
    """Abort if the ids of the store are not those that it will have."""
    if stores.GitStore(repo, GitConfig.from_ui(repo.ui)).docket().refused:
        raise error.StateError(
            _(b"git store is being rewritten, because changesets were removed"),
            hint=_(b"wait for the export that does it, or run 'hg git::export'"),
        )


def _translate(
    repo: RepoT, oidmap: RemoteIds, given: Sequence[bytes]
) -> list[list[Translation]]:
    """Return the served changesets that ids may mean."""
    config = GitConfig.from_ui(repo.ui)
    source = stores.GitStore(repo, config).repo
    has_node = selection.view_of(source, config.export).changelog.hasnode
    return [
        [meaning for meaning in meanings if has_node(meaning.node)]
        for meanings in ids.translate(oidmap, given)
    ]


def _answer_lines(
    ui: UiT, repo: RepoT, fm: Any, oidmap: RemoteIds, given: Sequence[bytes]
) -> bool:
    """Answer a block of lines; return whether all were translated."""
    answers = _translate(repo, oidmap, given)
    if fm.isplain():
        lines = [
            hex_node(meanings[0].other)
            if len(meanings) == 1
            else b"%s %s" % (id_, _status(meanings))
            for id_, meanings in zip(given, answers, strict=True)
        ]
        ui.write(b"".join(map(one_line, lines)))
    else:
        for id_, meanings in zip(given, answers, strict=True):
            _show(fm, id_, meanings)
    ui.flush()
    return all(len(meanings) == 1 for meanings in answers)


def _show(fm: Any, id_: bytes, meanings: Sequence[Translation]) -> None:
    node, oid = b"", b""
    if len(meanings) == 1:
        node, oid = hex_node(meanings[0].node), hex_node(meanings[0].oid)
    fm.startitem()
    fm.data(id=id_, status=_status(meanings), node=node, gitnode=oid)


def _status(meanings: Sequence[Translation]) -> bytes:
    return (b"unknown", b"found")[len(meanings)] if len(meanings) < 2 else b"ambiguous"


def _mistake(
    repo: RepoT, oidmap: RemoteIds, id_: bytes, meanings: Sequence[Translation]
) -> error.RepoError | error.Abort | None:
    """Return Mercurial's error for an unknown or ambiguous id; None for others."""
    if len(meanings) > 1:
        return _ambiguous(id_, meanings)
    if meanings:
        return None
    hint = None
    node = _changeset(repo, id_)
    if not ids.is_id(id_):
        hint = _(b"to translate a name, run 'hg log -r %s -T {gitnode}'") % id_
    elif not oidmap.count(oidmaps.Table.CHANGESETS):
        hint = _(b"nothing is exported yet: run 'hg git::export'")
    elif node is not None:
        hint = _(b"changeset %s may not be exported") % short(node)
        export = GitConfig.from_ui(repo.ui).export
        if selection.view_of(repo, export).changelog.hasnode(node):
            hint = _(b"changeset %s is not exported yet: run 'hg git::export'")
            hint %= short(node)
    return error.RepoLookupError(_(b"unknown revision '%s'") % id_, hint=hint)


def _changeset(repo: RepoT, id_: bytes) -> bytes | None:
    """Return the changeset that ``id_`` abbreviates for Mercurial."""
    with contextlib.suppress(error.LookupError, error.WdirUnsupported):
        return scmutil.resolvehexnodeidprefix(repo.unfiltered(), id_)
    return None


def _ambiguous(id_: bytes, meanings: Sequence[Translation]) -> error.InputError:
    """Return Mercurial's error for an ambiguous abbreviation; it names two."""
    kinds = {oidmaps.Side.NODE: _(b"changeset %s"), oidmaps.Side.OID: _(b"commit %s")}
    first, second = (
        kinds[meaning.asked] % hex_node(meaning.given) for meaning in meanings[:2]
    )
    return error.InputError(
        _(b"ambiguous revision identifier: %s") % id_,
        hint=_(b"it may be %s or %s") % (first, second),
    )
