"""What the wire protocol of Mercurial tells of bundles: capabilities and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercurial import extensions, exthelper, wireprotov1server

from . import cinnabarclone, hgmanifest

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

eh = exthelper.exthelper()


@eh.extsetup
def install(_ui: UiT) -> None:
    """Add to the protocol, after the extensions that may know the same names."""
    cinnabarclone.register_command()
    hgmanifest.wrap_commands()
    name = "_capabilities"
    extensions.wrapfunction(wireprotov1server, name, cinnabarclone.capabilities)
