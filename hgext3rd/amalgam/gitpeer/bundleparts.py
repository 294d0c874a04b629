"""hg-git's parts of bundles: ids of commits and tags of git, from clone to clone.

``exp-hg-git-map`` has 20 bytes of a commit and 20 of its changeset, again and again;
``exp-hg-git-tags`` has lines as ``.hg/git-tags``. They are written with
``experimental.hg-git-bundle``, and sent to clients that ask for them with
``experimental.hg-git-serve``, if the server has that item, too. With one of the items,
hg-git's files get them, and ids that are known stay.

Mercurial loads this with its ``exchange``, so all else is imported when it is needed.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _
from mercurial.node import bin as bin_node
from mercurial.utils import stringutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ..gitstore.store import GitStore

MAP_PART = b"exp-hg-git-map"
TAGS_PART = b"exp-hg-git-tags"
_PAIR_LEN = 40
_NODE_AND_SPACE = re.compile(b"[0-9a-f]{40} ")
_CATEGORY = b"amalgam-hggit-"


def register() -> None:
    """Add the parts to Mercurial's."""
    from mercurial import bundle2, exchange

    handlers: Any = bundle2
    if not hasattr(handlers, "parthandler"):  # 7.2
        handlers = importlib.import_module("mercurial.bundle2_part_handlers")
    handlers.parthandler(MAP_PART)(take_map)
    handlers.parthandler(TAGS_PART)(take_tags)
    exchange.getbundle2partsgenerator(MAP_PART)(send_map)
    exchange.getbundle2partsgenerator(TAGS_PART)(send_tags)


def _serves(ui: UiT) -> bool:
    from ..config import setting

    given = setting(ui, b"experimental", b"hg-git-serve") or b""
    return stringutil.parsebool(given) is True


def _bundles(ui: UiT) -> bool:
    from ..config import setting

    given = setting(ui, b"experimental", b"hg-git-bundle") or b""
    return stringutil.parsebool(given) is True


def capabilities(orig: Callable[..., Any], repo: RepoT, *args: Any, **opts: Any) -> Any:
    """Replace ``get_repo_caps``: ask for the parts, and offer them."""
    found = orig(repo, *args, **opts)
    if _serves(repo.ui):
        found[MAP_PART] = found[TAGS_PART] = ()
    return found


def write(orig: Callable[..., Any], *args: Any) -> Any:
    """Replace ``bundle2._addpartsfromopts``, of ``hg bundle``."""
    result = orig(*args)
    repo, bundler, _source, outgoing, opts = args[-5:]
    for name, content in ((MAP_PART, _map_of), (TAGS_PART, _tags_of)):
        if opts.get(name) or _bundles(repo.ui):
            _add(bundler, name, repo, outgoing.missing, content)
    return result


def send_map(bundler: Any, repo: RepoT, _source: bytes, **asked: Any) -> None:
    """Add the part to the answer to a pull."""
    _send(bundler, MAP_PART, repo, _map_of, **asked)


def send_tags(bundler: Any, repo: RepoT, _source: bytes, **asked: Any) -> None:
    """Add the part to the answer to a pull."""
    _send(bundler, TAGS_PART, repo, _tags_of, **asked)


def _send(
    bundler: Any,
    name: bytes,
    repo: RepoT,
    content: Callable[[GitStore, Sequence[bytes]], bytes],
    b2caps: Any = None,
    heads: Any = None,
    common: Any = None,
    **_others: Any,
) -> None:
    from mercurial import exchange

    if name in (b2caps or ()) and _serves(repo.ui):
        missing = exchange._computeoutgoing(repo, heads, common).missing
        _add(bundler, name, repo, missing, content)


def _add(
    bundler: Any,
    name: bytes,
    repo: RepoT,
    nodes: Sequence[bytes],
    content: Callable[[GitStore, Sequence[bytes]], bytes],
) -> None:
    from ..config import warn_once
    from ..configitems import HGGIT_DIALECT
    from . import pulling

    try:
        store = pulling.opened(repo)
        is_theirs = store.config.dialect == HGGIT_DIALECT
        data = content(store, nodes) if is_theirs else b""
    except (error.Abort, error.StorageError) as exc:
        # the changesets are complete without them
        warn_once(repo.ui, stringutil.forcebytestr(exc), exc.hint)
        return
    if data:
        bundler.newpart(name, data=data, mandatory=False)


def _map_of(store: GitStore, nodes: Sequence[bytes]) -> bytes:
    return b"".join(
        oid + node for oid, node in zip(_oids(store, nodes), nodes, strict=True) if oid
    )


def _oids(store: GitStore, nodes: Sequence[bytes]) -> list[bytes | None]:
    from ..gitstore.imported import ImportedCommits

    with (
        contextlib.closing(ImportedCommits(store.repo, store)) as imported,
        contextlib.closing(imported.ids_with(store.open_map())) as oidmap,
    ):
        return oidmap.oids(nodes)


def _tags_of(store: GitStore, nodes: Sequence[bytes]) -> bytes:
    from .fetched import Fetched
    from .source import TAGS

    fetched, wanted = Fetched(store), {it.hex().encode() for it in nodes}
    tags = {
        ref.removeprefix(TAGS): it.node
        for remote in fetched.remotes()
        for ref, it in fetched.refs(remote).items()
        if ref.startswith(TAGS) and it.node in wanted
    }
    return b"".join(b"%s %s\n" % (node, name) for name, node in sorted(tags.items()))


def take_map(op: Any, part: Any) -> None:
    """Take the ids of a bundle when its changesets are there."""
    if not _takes(op.repo.ui):
        return  # Mercurial passes over what is not read
    content = part.read()
    if len(content) % _PAIR_LEN:
        op.ui.warn(_(b"warning: hg-git's map in the bundle is cut; it is not taken\n"))
        return
    pairs = [
        (content[at : at + 20], content[at + 20 : at + _PAIR_LEN])
        for at in range(0, len(content), _PAIR_LEN)
    ]
    _after(op, b"map", lambda store: _keep_map(store, pairs))


def take_tags(op: Any, part: Any) -> None:
    """Take the tags of git of a bundle when its changesets are there."""
    if not _takes(op.repo.ui):
        return
    lines = part.read().split(b"\n")
    if lines.pop() or not all(map(_is_tag, lines)):
        op.ui.warn(_(b"warning: tags of git in the bundle are damaged; not taken\n"))
        return
    tags = {line[41:]: bin_node(line[:40]) for line in lines}
    _after(op, b"tags", lambda store: _keep_tags(store, tags))


def _is_tag(line: bytes) -> bool:
    from ..gitstore.git import refs

    return bool(_NODE_AND_SPACE.match(line)) and refs.is_accepted(line[41:])


def _takes(ui: UiT) -> bool:
    return _serves(ui) or _bundles(ui)


def _after(op: Any, name: bytes, keep: Callable[[GitStore], None]) -> None:
    from ..config import GitConfig
    from ..configitems import HGGIT_DIALECT
    from ..gitstore.store import GitStore
    from ..hggit import adoption
    from . import hggitfiles
    from .fetched import Fetched

    repo = op.repo
    store = GitStore(repo, GitConfig.from_ui(repo.ui))
    if store.config.dialect != HGGIT_DIALECT or not store.trust.usable:
        return

    def run(_transaction: Any) -> None:
        keep(store)
        Fetched(store).set_mark("")
        with repo.ui.configoverride({(b"ui", b"quiet"): True}):
            adoption.take_over(store)
            hggitfiles.take_over(store)

    op.gettransaction().addpostclose(_CATEGORY + name, run)


def _keep_map(store: GitStore, pairs: Iterable[tuple[bytes, bytes]]) -> None:
    from ..files import Directory
    from ..hggit import mapfile

    place, has = Directory(store.repo.sharedpath), store.repo.changelog.hasnode
    oids = {oid for oid, _node in mapfile.read(place)}
    found = [(oid, node) for oid, node in pairs if oid not in oids and has(node)]
    known = _oids(store, [node for _oid, node in found])
    new = [it for it, oid in zip(found, known, strict=True) if oid is None]
    if new:
        mapfile.extend(place, new, store.placement)


def _keep_tags(store: GitStore, tags: Mapping[bytes, bytes]) -> None:
    from . import hggitfiles

    has = store.repo.changelog.hasnode
    hggitfiles.add_tags(store, {name: it for name, it in tags.items() if has(it)})
