"""Formats of bundles, the chain for git, and whether amalgam publishes bundles.

Owns the names of types in the state file of Mercurial's clonebundles extension: a
format of ``hg bundle``, ``git-v2``, ``cinnabar-v1``, or ``git-v2+N``, the increment of
``git-v2`` with token N. Clients of Mercurial take none of the last three for their own.

A chain is the base and the increments of a git client. Each has a creation token
(git-bundle-uri(5), "creationToken"). Clients take bundles above their largest token, so
tokens only grow, from 1. An increment needs all bundles below it. A new base takes over
the largest token of the bundles that it replaces: with a fresh token, every client
would download it.

REQUIREDRAM is read from the header of a bundle (``hg help internals.bundle2``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mercurial import bundlecaches, error, extensions
from mercurial.i18n import _

from .. import configitems
from ..config import BundlesConfig, CompressionConfig, GitConfig, warn_once
from ..configitems import GIT_FORMATS, GIT_V2
from ..files import Directory
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import BinaryIO

    from mercurial.interfaces.types import RepoT, TransactionT, UiT

    from .register import Entry


_INCREMENT = re.compile(re.escape(GIT_V2) + rb"\+(\d+)")
_STATE = b"clonebundles.auto-gen"
_LIMIT_BYTES = 1 << 20
LONGEST_LINK_SECONDS = 7 * 24 * 3600
"""S3 and Google's store sign nothing for longer."""


def increment(token: int) -> bytes:
    """Return the type of the increment of ``git-v2`` that has ``token``."""
    return b"%s+%d" % (GIT_V2, token)


def kind_of(bundle_type: bytes) -> bytes:
    """Return one of ``GIT_FORMATS``; empty for a format of Mercurial."""
    if _INCREMENT.fullmatch(bundle_type):
        return GIT_V2
    return bundle_type if bundle_type in GIT_FORMATS else b""


def suffix_of(bundle_type: bytes) -> bytes:
    """Return the suffix of file names of such bundles."""
    return b".bundle" if kind_of(bundle_type) else b".hg"


def is_increment(bundle_type: bytes) -> bool:
    """Whether this is an increment of ``git-v2``."""
    return _INCREMENT.fullmatch(bundle_type) is not None


def is_enabled(ui: UiT) -> bool:
    """Return whether Mercurial's extension clonebundles is enabled."""
    return any(name == b"clonebundles" for name, _module in extensions.extensions(ui))


def git_formats(ui: UiT) -> list[bytes]:
    """Return the formats for git that are wanted, without those that are unknown."""
    return list(BundlesConfig.from_ui(ui).formats)


def hg_formats(ui: UiT) -> list[bytes]:
    """Return the formats for Mercurial that are wanted, as they are configured."""
    if not is_enabled(ui):
        return []  # nor is the item known
    return list(ui.configlist(b"clone-bundles", b"auto-generate.formats"))


def transaction(
    orig: Callable[..., TransactionT], repo: RepoT, *args: Any, **kwargs: Any
) -> TransactionT:
    """Warn before the first change that bundles are wanted which nobody makes."""
    ui = repo.ui
    wanted = ui.configlist(b"clone-bundles", b"git.formats")
    if wanted and configitems.is_enabled(ui) and not is_enabled(ui):
        is_right(repo)
    return orig(repo, *args, **kwargs)


def is_right(repo: RepoT) -> bool:
    """Return whether ``check`` passes; warn once if not.

    A transaction does not fail because its bundles could not be renewed.
    """
    try:
        check_formats(repo)
    except error.ConfigError as exc:
        text = _(b"bundles are not renewed: %s") % exc.message
        warn_once(repo.ui, text, exc.hint)
        return False
    return True


def check_formats(repo: RepoT) -> None:
    """Raise ``ConfigError`` for mistakes that would only fail later, after much
    work."""
    ui = repo.ui
    BundlesConfig.check(ui)
    CompressionConfig.check(ui)
    if git_formats(ui):
        GitConfig.from_ui(ui)
        require_enabled(ui)
    for name in hg_formats(ui):
        _check_spec(repo, name)
    _check_store(ui)
    if not is_uploaded(ui) or not takes_part(repo):
        return
    template = ui.config(b"clone-bundles", b"url-template")
    if not template or b"{basename}" not in template:
        raise error.ConfigError(
            _(
                b"invalid value '%s' for clone-bundles.url-template "
                b"(expected a URL with '{basename}')"
            )
            % (template or b""),
            hint=_(b"it is the URL of what clone-bundles.upload-command uploads"),
        )


def _check_store(ui: UiT) -> None:
    config = BundlesConfig.from_ui(ui)
    if not config.store:
        return
    if is_uploaded(ui):
        raise error.ConfigError(
            _(b"bundles cannot be uploaded by a command and to %s") % config.store,
            hint=_(b"unset clone-bundles.upload-command or amalgam.bundles.url"),
        )
    if bool(config.public_url) == bool(config.link_seconds):
        raise error.ConfigError(
            _(b"it is not known how clients read from %s") % config.store,
            hint=_(
                b"set amalgam.bundles.public-url, or amalgam.bundles.link-seconds "
                b"if the bucket is private"
            ),
        )
    if config.link_seconds > LONGEST_LINK_SECONDS:
        raise error.ConfigError(
            _(
                b"invalid value '%d' for amalgam.bundles.link-seconds "
                b"(expected at most %d, one week)"
            )
            % (config.link_seconds, LONGEST_LINK_SECONDS)
        )


def require_enabled(ui: UiT) -> None:
    """Raise ``ConfigError`` if formats for git are wanted and nobody makes them."""
    if not is_enabled(ui):
        raise error.ConfigError(
            _(b"clone-bundles.git.formats needs the extension clonebundles"),
            hint=_(b"enable it with '[extensions] clonebundles ='"),
        )


def _check_spec(repo: RepoT, name: bytes) -> None:
    try:
        if name in GIT_FORMATS:
            raise error.UnsupportedBundleSpecification(_(b"it is a format for git"))
        bundlecaches.parsebundlespec(repo, name, strict=False)
    except (
        error.InvalidBundleSpecification,
        error.UnsupportedBundleSpecification,
    ) as exc:
        if name in GIT_FORMATS:
            hint = _(b"it belongs in clone-bundles.git.formats")
        else:
            hint = _(b"%s; see 'hg help bundlespec'") % bytes(exc)
        raise error.ConfigError(
            _(b"invalid value '%s' for clone-bundles.auto-generate.formats") % name,
            hint=hint,
        ) from None


def is_uploaded(ui: UiT) -> bool:
    """Return whether a command of the operator uploads bundles."""
    return is_enabled(ui) and bool(ui.config(b"clone-bundles", b"upload-command"))


def takes_part(repo: RepoT) -> bool:
    """Return whether amalgam publishes the bundles of this repository.

    It does if bundles for git exist or are configured, and if Mercurial's extension has
    neither a command to upload bundles nor permission to send them itself. Elsewhere,
    only mistakes are reported.
    """
    ui = repo.ui
    if not is_enabled(ui):
        return False
    config = BundlesConfig.from_ui(ui)
    if config.formats or config.directory or config.url or config.store:
        return True
    if any(kind_of(line.split(b" ")[1]) for line in _lines(repo)):
        return True
    inline = ui.configbool(b"clone-bundles", b"auto-generate.serve-inline")
    return bool(hg_formats(ui)) and not inline and not is_uploaded(ui)


def _lines(repo: RepoT) -> list[bytes]:
    try:
        lines = Directory(repo.path).tryread(_STATE, _LIMIT_BYTES).splitlines()
    except (OSError, error.StorageError):
        return []
    return [line for line in lines if line.count(b" ") > 1]


class Trigger(Record):
    """Number of changesets that bundles may lack before they are renewed."""

    below_ratio: float
    revs: int

    @classmethod
    def from_ui(cls, ui: UiT) -> Trigger:
        """Read Mercurial's items ``clone-bundles.trigger.*``."""
        name = b"trigger.below-bundled-ratio"
        try:
            ratio = float(ui.config(b"clone-bundles", name))
        except ValueError:
            raise error.ConfigError(
                _(b"invalid value '%s' for clone-bundles.%s (expected a number)")
                % (ui.config(b"clone-bundles", name), name),
                hint=_(b"0.95 renews bundles when one changeset in 20 is missing"),
            ) from None
        return cls(ratio, ui.configint(b"clone-bundles", b"trigger.revs"))


MOST_INCREMENTS = 7
KEPT_INCREMENTS = 4
"""Those that remain when the older ones become part of a new base. A client that is
behind by no more than these never takes the base again."""


class Link(Record):
    """A bundle in the chain."""

    bundle: Any
    """As in the state of Mercurial's extension."""
    entry: Entry


def chain_of(bundles: Iterable[Any], is_valid: Callable[[Any], bool]) -> list[Link]:
    """Return the base and its increments, oldest first; empty without a base."""
    links = [
        Link(bundle, bundle.entry)
        for bundle in bundles
        if bundle.ready and bundle.entry is not None
        if kind_of(bundle.bundle_type) == GIT_V2 and is_valid(bundle)
    ]
    bases = [link for link in links if not is_increment(link.bundle.bundle_type)]
    if not bases:
        return []
    found = [max(bases, key=lambda link: (link.entry.token, link.entry.revs))]
    increments = {
        link.entry.token: link
        for link in links
        if is_increment(link.bundle.bundle_type)
    }
    for token in sorted(increments):
        if increments[token].entry.follows == found[-1].entry.token < token:
            found.append(increments[token])
    return found


def outdated_links(bundles: Iterable[Any], chain: Sequence[Link]) -> list[Any]:
    """Return the bundles for git-v2 that are ready and not in ``chain``."""
    kept = [link.bundle for link in chain]
    return [
        bundle
        for bundle in bundles
        if bundle.ready and kind_of(bundle.bundle_type) == GIT_V2
        if not any(bundle is other for other in kept)
    ]


class BundleRequest(Record):
    """A bundle of git-v2 that is to be made."""

    type: bytes
    upto: Entry | None = None
    """Bundle whose changesets it must contain; ``None``: all of today's."""


def wanted_links(
    chain: Sequence[Link], heads: str, last_token: int, threshold: float
) -> list[BundleRequest]:
    """Return the bundles to make, in this order.

    ``heads``: the digest of today's heads. ``threshold``: the chain must have more
    revisions than that.
    """
    if not chain:
        return [BundleRequest(GIT_V2)]
    top = chain[-1].entry
    due = top.revs <= threshold and heads != top.heads
    found = [BundleRequest(increment(last_token + 1))] if due else []
    increments = chain[1:]
    if len(increments) + len(found) > MOST_INCREMENTS:
        swallowed = len(increments) + len(found) - KEPT_INCREMENTS
        found.append(BundleRequest(GIT_V2, increments[swallowed - 1].entry))
    return found


_BUNDLE2 = b"HG20"
_ZSTD = b"\x28\xb5\x2f\xfd"


def window_bytes(file: BinaryIO) -> int:
    """Return how much of its past zstd has to keep to read the bundle ``file``.

    0 if it is not compressed so, or does not say (RFC 8878, section 3.1.1.1).
    ``StorageError`` if it ends before that.
    """
    if file.read(4) != _BUNDLE2:
        return 0
    length = int.from_bytes(_whole(file, 4), "big", signed=True)
    if length < 0:
        raise error.StorageError(
            _(b"bundle has parameters of %d bytes") % length,
            hint=_(b"run 'hg admin::clone-bundles-refresh'"),
        )
    if b"Compression=ZS" not in _whole(file, length):
        return 0
    if _whole(file, 4) != _ZSTD:
        return 0
    descriptor = _whole(file, 1)[0]
    single_segment = descriptor & 0x20
    if single_segment:  # then the window is all of the content
        _whole(file, (0, 1, 2, 4)[descriptor & 3])
        size = (1, 2, 4, 8)[descriptor >> 6]
        return int.from_bytes(_whole(file, size), "little")
    window = _whole(file, 1)[0]
    base = 1 << (10 + (window >> 3))
    return base + (base >> 3) * (window & 7)


def _whole(file: BinaryIO, length: int) -> bytes:
    found = file.read(length)
    if len(found) < length:
        raise error.StorageError(
            _(b"bundle is cut"), hint=_(b"run 'hg admin::clone-bundles-refresh'")
        )
    return found
