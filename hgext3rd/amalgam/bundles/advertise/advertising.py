"""What the wire protocol of Mercurial tells of bundles: capabilities and commands."""

from __future__ import annotations

from mercurial import extensions, wireprotov1server

from . import cinnabarclone, hgmanifest


def install() -> None:
    """Add to the protocol, after the extensions that may know the same names."""
    cinnabarclone.register_command()
    hgmanifest.wrap_commands()
    name = "_capabilities"
    extensions.wrapfunction(wireprotov1server, name, cinnabarclone.capabilities)
