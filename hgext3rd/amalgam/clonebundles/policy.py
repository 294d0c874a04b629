"""Missing and outdated bundles: the rules of Mercurial's extension, and git's.

Each function wraps its counterpart in Mercurial's clonebundles extension, and asks that
first. Knows nothing of making and deleting bundles. ``show_summary`` describes a
refresh, format by format, by the bundles that were live before and after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import util
from mercurial.i18n import _

from ..configitems import CINNABAR_V1, GIT_V2
from ..terminal import counted, one_line
from . import formats, generator, validity
from .register import Register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set as AbstractSet

    from mercurial.interfaces.types import RepoT, UiT


def needed_bundles(
    orig: Callable[..., tuple[list[Any], list[Any]]],
    repo: RepoT,
    bundles: list[Any],
    op_id: bytes,
) -> tuple[list[Any], list[Any]]:
    """Return the bundles to make and to delete, for git, too."""
    formats.check_formats(repo)
    create, delete = orig(repo, bundles, op_id)
    nodes = validity.public_heads(repo)
    if not formats.takes_part(repo):
        # without public changesets, Mercurial bundles everything
        if not nodes and repo.revs(b"secret()"):
            create = []
        return create, delete
    heads = validity.heads_name(nodes)
    if not nodes:
        return [], delete  # there would be nothing in it
    wanted = [request.bundle_type for request in create]
    create = [
        request
        for request in create
        if not _has(repo, bundles, request.bundle_type, heads)
    ]
    public = repo.filtered(b"immutable")
    changelog = public.changelog
    common = {
        "revs": len(changelog),
        "head_revs": changelog.headrevs(),
        "tip_rev": changelog.tiprev(),
        "tip_node": changelog.tip().hex().encode(),
    }
    trigger = formats.Trigger.from_ui(repo.ui)
    revs = len(changelog)
    git_formats = formats.git_formats(repo.ui)
    if CINNABAR_V1 in git_formats and CINNABAR_V1 not in wanted:
        kind = CINNABAR_V1
        needed = clonebundles.new_bundle_needed(
            public, bundles, trigger.below_ratio, trigger.revs, kind, revs
        )
        if needed and not _has(repo, bundles, kind, heads):
            create.append(_request(kind, op_id, common))
    if GIT_V2 in git_formats:
        create += _wanted_of_chain(repo, bundles, heads, op_id, common, trigger)
    return create, delete


def _wanted_of_chain(
    repo: RepoT,
    bundles: list[Any],
    heads: str,
    op_id: bytes,
    common: dict[str, Any],
    trigger: formats.Trigger,
) -> list[Any]:
    chain = formats.chain_of(bundles, lambda bundle: bundle.valid_for(repo))
    register = Register.read(repo)
    revs = common["revs"]
    threshold = max(revs * trigger.below_ratio, revs - trigger.revs)
    requests = []
    for wanted in formats.wanted_links(chain, heads, register.last_token, threshold):
        upto = wanted.upto
        if upto is None:
            requests.append(_request(wanted.type, op_id, common))
            continue
        rev = repo.changelog.rev
        older = {
            "revs": upto.revs,
            "head_revs": [rev(node) for node in validity.read_heads(repo, upto.heads)],
            "tip_rev": upto.tip_rev,
            "tip_node": upto.tip_node.encode(),
        }
        requests.append(_request(wanted.type, op_id, older))
    return requests


def _request(bundle_type: bytes, op_id: bytes, data: dict[str, Any]) -> Any:
    return clonebundles.RequestedBundle(bundle_type=bundle_type, op_id=op_id, **data)


def _has(repo: RepoT, bundles: Iterable[Any], bundle_type: bytes, heads: str) -> bool:
    """Return whether a new bundle would be the same again."""
    return any(
        bundle.ready
        and bundle.bundle_type == bundle_type
        and bundle.entry is not None
        and bundle.entry.heads == heads
        and bundle.valid_for(repo)
        for bundle in bundles
    )


def is_new_needed(
    orig: Callable[..., bool], repo: RepoT, bundles: list[Any], *args: Any
) -> bool:
    """Return whether the bundles of a type lack too many changesets."""
    alive = [b for b in bundles if b.ready or not generator.is_dead(b)]
    return orig(repo, alive, *args)


def outdated_bundles(
    orig: Callable[[RepoT, list[Any]], list[Any]], repo: RepoT, bundles: list[Any]
) -> list[Any]:
    """Return bundles to delete; also unfinished and no longer configured ones."""
    dead = [b for b in bundles if not b.ready and generator.is_dead(b)]
    ready = [b for b in bundles if b.ready]
    chain = [b for b in ready if formats.kind_of(b.bundle_type) == GIT_V2]
    others = [b for b in ready if b not in chain]
    olds = [*dead, *orig(repo, others)]
    configured = formats.git_formats(repo.ui)
    if GIT_V2 in configured:
        links = formats.chain_of(chain, lambda bundle: bundle.valid_for(repo))
        olds += formats.outdated_links(chain, links)
    else:
        olds += chain
    if CINNABAR_V1 not in configured:
        olds += [b for b in others if b.bundle_type == CINNABAR_V1]
    return [b for number, b in enumerate(olds) if b not in olds[:number]]


def live_names(repo: RepoT) -> frozenset[bytes]:
    """Return the names of the bundles that clients are told of."""
    return frozenset(bundle.basename for bundle in _live(repo))


def missing_names(repo: RepoT, bundle: Any) -> int:
    """Return how many public changesets are newer than a bundle that is live.

    Those that an increment builds upon are not missing in it, nor are those without a
    name, which git is not shown. Takes time in proportion to the number of heads.
    """
    unfiltered = repo.unfiltered()
    if bundle.entry is None:
        newest = len(unfiltered) - 1
        if bundle.tip_rev >= newest:
            return 0
        return len(unfiltered.revs(b"public() and %d:", bundle.tip_rev + 1))
    nodes = validity.read_heads(repo, bundle.entry.heads)
    return len(unfiltered.revs(b"only(public(), %ln)", nodes))


def show_summary(ui: UiT, repo: RepoT, before: AbstractSet[bytes]) -> None:
    """Describe new bundles, current ones, and the reason for missing ones.

    ``before``: ``live_names`` before the refresh.
    """
    if not formats.git_formats(ui) and not formats.hg_formats(ui):
        ui.status(_(b"no bundles: no formats are configured\n"))
        ui.status(_(b"(set clone-bundles.git.formats, or auto-generate.formats)\n"))
        return
    if not formats.takes_part(repo):
        return  # Mercurial's extension does this one, and is silent
    if not repo.revs(b"first(public())"):
        ui.status(_(b"no bundles: no changeset is public\n"))
        return
    found = sorted(_live(repo), key=lambda b: (_kind(b), b.revs, b.bundle_type))
    for bundle in found:
        if bundle.basename not in before and bundle.entry is not None:
            size = util.bytecount(bundle.entry.bytes)
            line = _(b"made %s: %s, %s")
            line %= (
                bundle.bundle_type,
                counted(bundle.entry.changesets, b"changeset"),
                size,
            )
            ui.status(one_line(line))
    newest = {_kind(bundle): bundle for bundle in found}
    lacking = False
    for kind, bundle in newest.items():
        if bundle.basename in before:
            count = missing_names(repo, bundle)
            lacking |= bool(count)
            _show_unchanged(ui, kind, count)
    if lacking:
        ui.status(_(b"(see clone-bundles.trigger.revs and .below-bundled-ratio)\n"))
    for kind in formats.git_formats(ui):
        if kind not in newest:
            line = _(b"no bundle of %s could be made: the repository was changed")
            ui.status(one_line(line % kind))
            ui.status(_(b"(try again)\n"))


def _show_unchanged(ui: UiT, kind: bytes, count: int) -> None:
    if count:
        line = _(b"%s lacks %d newer changesets, too few for a new bundle")
        ui.status(one_line(line % (kind, count)))
    else:
        ui.status(one_line(_(b"%s is up to date") % kind))


def _kind(bundle: Any) -> bytes:
    """Return the format that is configured for ``bundle``."""
    return formats.kind_of(bundle.bundle_type) or bytes(bundle.bundle_type)


def _live(repo: RepoT) -> list[Any]:
    """Return the bundles that clients are told of, the newest of each format."""
    bundles = [b for b in clonebundles.read_auto_gen(repo) if b.ready]
    found = [
        link.bundle for link in formats.chain_of(bundles, lambda b: b.valid_for(repo))
    ]
    others: dict[bytes, Any] = {}
    for bundle in bundles:
        if _kind(bundle) != GIT_V2 and bundle.valid_for(repo):
            known = others.get(bundle.bundle_type)
            if known is None or known.revs < bundle.revs:
                others[bundle.bundle_type] = bundle
    return [*found, *others.values()]
