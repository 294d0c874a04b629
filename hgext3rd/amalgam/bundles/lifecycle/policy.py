"""Which bundles are to be made, and which are to go: the extension's rules, and git's.

Each function stands for one of the same job in Mercurial's clonebundles extension, and
asks that one first. Knows nothing of how bundles are made or deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hgext import clonebundles

from ...config import CINNABAR_V1, GIT_V2
from . import chain as chains, formats, generator, headset
from .register import Register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT


def needed(
    orig: Callable[..., tuple[list[Any], list[Any]]],
    repo: RepoT,
    bundles: list[Any],
    op_id: bytes,
) -> tuple[list[Any], list[Any]]:
    """Say what is to be made, and what is to go; for git, too."""
    formats.check(repo)
    create, delete = orig(repo, bundles, op_id)
    nodes = headset.public_heads(repo)
    if not formats.takes_part(repo):
        # where nothing is public, Mercurial bundles all there is
        if not nodes and repo.revs(b"secret()"):
            create = []
        return create, delete
    heads = headset.name_of(nodes)
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
    chain = chains.chain_of(bundles, lambda bundle: bundle.valid_for(repo))
    register = Register.read(repo)
    revs = common["revs"]
    threshold = max(revs * trigger.below_ratio, revs - trigger.revs)
    requests = []
    for wanted in chains.wanted(chain, heads, register.last_token, threshold):
        upto = wanted.upto
        if upto is None:
            requests.append(_request(wanted.type, op_id, common))
            continue
        rev = repo.changelog.rev
        older = {
            "revs": upto.revs,
            "head_revs": [rev(node) for node in headset.read(repo, upto.heads)],
            "tip_rev": upto.tip_rev,
            "tip_node": upto.tip_node.encode(),
        }
        requests.append(_request(wanted.type, op_id, older))
    return requests


def _request(bundle_type: bytes, op_id: bytes, data: dict[str, Any]) -> Any:
    return clonebundles.RequestedBundle(bundle_type=bundle_type, op_id=op_id, **data)


def _has(repo: RepoT, bundles: Iterable[Any], bundle_type: bytes, heads: str) -> bool:
    """Tell whether a bundle would be made once more as it is."""
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
    """Tell whether the bundles of a type lack too much; one that died has nothing."""
    alive = [b for b in bundles if b.ready or not generator.is_dead(b)]
    return orig(repo, alive, *args)


def outdated(
    orig: Callable[[RepoT, list[Any]], list[Any]], repo: RepoT, bundles: list[Any]
) -> list[Any]:
    """Find what is to go; also what died, and what is for git and not wanted."""
    dead = [b for b in bundles if not b.ready and generator.is_dead(b)]
    ready = [b for b in bundles if b.ready]
    chain = [b for b in ready if formats.kind_of(b.bundle_type) == GIT_V2]
    others = [b for b in ready if b not in chain]
    olds = [*dead, *orig(repo, others)]
    configured = formats.git_formats(repo.ui)
    if GIT_V2 in configured:
        links = chains.chain_of(chain, lambda bundle: bundle.valid_for(repo))
        olds += chains.outdated(chain, links)
    else:
        olds += chain
    if CINNABAR_V1 not in configured:
        olds += [b for b in others if b.bundle_type == CINNABAR_V1]
    return [b for number, b in enumerate(olds) if b not in olds[:number]]
