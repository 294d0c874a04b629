"""Names of an export: its refs, and a record of them for the next one.

If the last export noted all names, only those that differ since are computed
(``lastnames``). If not, all of them are.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ...records import Record
from .. import selection
from ..fetchedrefs import FetchedRefs
from ..git import branchtips, lastnames, refs as refsmod
from ..git.branchtips import BranchTips
from ..git.lastnames import Changed, LastNames, NamesSource
from ..git.refs import NamedNodes
from ..remotetags import RemoteTags, ShownTags
from .writer import metadata_oid

if TYPE_CHECKING:
    from collections.abc import Mapping, Set as AbstractSet

    from ..docket import Docket
    from ..git.repository import Repository
    from ..selection import FilesState, Selection
    from ..store import GitStore


class Names(Record):
    """The refs of an export, and their source."""

    refs: Mapping[bytes, bytes | None]
    """Name to oid; of those that differ from the last export, if ``last`` is known."""
    head: bytes
    nodes: AbstractSet[bytes]
    """The changesets that they lead to."""
    too_long: tuple[bytes, ...]
    is_whole: bool
    """Whether the changesets of all names are exported."""
    tips: BranchTips | None
    """For the next export; ``None`` if it cannot follow them."""
    source: NamesSource
    found: NamedNodes | Changed
    branches: Mapping[tuple[str, bytes], bytes]
    """``distinct_branches`` of all names, or nothing."""
    tags: ShownTags | None
    """Those of remotes, unless only other names differ from the last export."""
    last: LastNames | None

    @classmethod
    def of(cls, store: GitStore, docket: Docket, allowed: Selection) -> Names:
        """Return the refs of exported changesets."""
        config, directory = store.config, store.maps.directory
        view = selection.view_of(store.repo, config.export)
        tips = None
        if refsmod.can_follow(config.refs):
            tips = branchtips.followed(directory, config.dialect, view, allowed)
        remote_tags, main_line = RemoteTags(store), FetchedRefs(store).main_line()
        source = NamesSource(
            *(store.repo, view, config.refs, allowed, directory, config.dialect),
            *(remote_tags.digest, main_line),
        )
        names = _changed(store, docket, source, tips)
        if names is None:
            marks = refsmod.read_bookmarks(store.repo)
            found = NamedNodes.of(view, config.refs, main_line, tips, marks)
            branches = found.distinct_branches()
            nodes, head = found.refs(branches)
            names = _with_oids(store, docket, source, nodes, head, found, None)
            own = {ref: it for ref, it in nodes.items() if ref.startswith(refsmod.TAGS)}
            tags = ShownTags.of(store, docket, remote_tags, own, source.is_served)
            names = names._replace(
                branches=branches,
                refs={**names.refs, **tags.refs},
                nodes=names.nodes | tags.nodes | tags.noted,
                is_whole=names.is_whole and tags.is_whole,
                tags=tags,
            )
        if source.follows:
            known = BranchTips.of(view, allowed, names.found.tips)
            names = names._replace(tips=known)
        return names

    @property
    def exported(self) -> dict[bytes, bytes]:
        """The refs whose changesets are exported."""
        return {name: oid for name, oid in self.refs.items() if oid is not None}

    @property
    def peeled(self) -> Mapping[bytes, bytes]:
        """The commits of annotated tags, by their oids."""
        return self.tags.peeled if self.tags else {}

    def are_written(self, repository: Repository) -> bool:
        """Return whether no ref has to be written."""
        if self.last:
            return not self.refs and repository.head() == self.head
        return repository.is_named(self.exported, self.head, self.peeled)

    def note(self, store: GitStore, docket: Docket, state: FilesState) -> None:
        """Let the next export compute only changed names, if it can.

        ``state``: of the repository's files when they were read.
        """
        source, record, tags = self.source, None, self.tags
        if self.tips:
            self.tips.write(source.directory, source.dialect, store.placement)
        else:
            branchtips.forget(source.directory, source.dialect)
        is_sure = self.is_whole and (tags is None or tags.is_final)
        if is_sure and selection.state_of(store.repo) == state:
            record = source.record(
                store.repository,
                self.found,
                self.branches,
                self.last,
                metadata_oid(docket),
                tags.awaited if tags else (),
            )
        if record is not None:
            record.write(source.directory, source.dialect, store.placement)
        else:
            lastnames.forget(source.directory, source.dialect)


def _changed(
    store: GitStore,
    docket: Docket,
    source: NamesSource,
    tips: Mapping[bytes, bytes] | None,
) -> Names | None:
    """Return the refs that differ; ``None`` if all have to be computed."""
    repository = store.repository
    if source.follows and tips is None:
        return None
    last = LastNames.read(source.directory, source.dialect)
    if last is None or last.named != store.docket().named:
        return None
    repository.know_digest(last.packed, last.packed_digest)
    if repository.names_digest() != last.named:
        return None
    changed = last.changed(source, tips or {}, repository)
    if changed is None:
        return None
    names = _with_oids(store, docket, source, changed.refs, changed.head, changed, last)
    return names if names.is_whole else None


def _with_oids(
    store: GitStore,
    docket: Docket,
    source: NamesSource,
    nodes: Mapping[bytes, bytes | None],
    head: bytes,
    found: NamedNodes | Changed,
    last: LastNames | None,
) -> Names:
    wanted = [node for node in nodes.values() if node is not None]
    with contextlib.closing(store.open_map(docket)) as oidmap:
        oids = oidmap.oids(wanted)
        is_whole = None not in oids or all(oidmap.has(wanted))
    of_nodes = iter(oids)
    refs: dict[bytes, bytes | None] = {
        name: None if node is None else next(of_nodes) for name, node in nodes.items()
    }
    metadata = metadata_oid(docket)
    if last is None or last.metadata != metadata:
        refs[refsmod.METADATA] = bytes.fromhex(metadata) or None
    if isinstance(found, NamedNodes):
        too_long = tuple(found.too_long(nodes))
    else:
        too_long = found.too_long
    return Names(
        refs=refs,
        head=head,
        nodes={node for name, node in nodes.items() if node and refs[name]},
        too_long=too_long,
        is_whole=is_whole,
        tips=None,
        source=source,
        found=found,
        branches={},
        tags=None,
        last=last,
    )
