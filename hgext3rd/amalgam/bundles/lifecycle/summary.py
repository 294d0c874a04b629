"""What a refresh of bundles did, format by format, in words.

Only looks: at the bundles that were live before, and at those that are live now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import util
from mercurial.i18n import _

from ...config import GIT_V2
from ...terminal import one_line
from . import chain as chains, formats, headset

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from mercurial.interfaces.types import RepoT, UiT


def live_names(repo: RepoT) -> frozenset[bytes]:
    """Return the names of the bundles that clients are told of."""
    return frozenset(bundle.basename for bundle in _live(repo))


def missing(repo: RepoT, bundle: Any) -> int:
    """Return how many public changesets are newer than a bundle that is live.

    Those that an increment builds upon are not missing in it, nor are those without a
    name, which git is not shown. Takes time in proportion to the number of heads.
    """
    unfiltered = repo.unfiltered()
    if bundle.entry is None:
        return len(unfiltered.revs(b"public() and %d:", bundle.tip_rev + 1))
    nodes = headset.read(repo, bundle.entry.heads)
    return len(unfiltered.revs(b"only(public(), %ln)", nodes))


def show(ui: UiT, repo: RepoT, before: AbstractSet[bytes]) -> None:
    """Say what was made, what is up to date, or why there is nothing to make.

    ``before``: ``live_names`` of before.
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
            line = _(b"made %s: %d changesets, %s")
            line %= (bundle.bundle_type, bundle.entry.changesets, size)
            ui.status(one_line(line))
    newest = {_kind(bundle): bundle for bundle in found}
    lacking = False
    for kind, bundle in newest.items():
        if bundle.basename in before:
            count = missing(repo, bundle)
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
        link.bundle for link in chains.chain_of(bundles, lambda b: b.valid_for(repo))
    ]
    others: dict[bytes, Any] = {}
    for bundle in bundles:
        if _kind(bundle) != GIT_V2 and bundle.valid_for(repo):
            known = others.get(bundle.bundle_type)
            if known is None or known.revs < bundle.revs:
                others[bundle.bundle_type] = bundle
    return [*found, *others.values()]
