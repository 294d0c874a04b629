"""``hg help config.amalgam``: our section in Mercurial's help on configuration.

Made from the table of items. ``hg help config.amalgam.git.memory`` shows one of them.
Loaded with Mercurial's help only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config import ITEMS, Item

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

_INTRODUCTION = b"""
``amalgam``
-----------

:hg:`admin::amalgam` names every unknown item and every invalid value. Mistakes in
``git.*`` stop exports, and mistakes about bundles stop their generation. Commit,
push, pull and log go on.

"""
_GROUPS = {
    b"git": b"The git repository, and whether hgweb serves it",
    b"replicate": b"Git repositories elsewhere that follow this one",
    b"follow": b"Git repositories elsewhere that this one follows",
    b"serve": b"Limits of serving git",
    b"bundles": b"Bundles",
    b"index": b"Memory mapping of the indexes of changelog and manifest",
}


def with_section(_ui: UiT, _topic: bytes, text: bytes) -> bytes:
    """Return the text of the topic with our section."""
    parts = [text, _INTRODUCTION]
    for group, heading in _GROUPS.items():
        parts.append(b"%s:\n\n" % heading)
        parts += (_definition(item) for item in ITEMS if item.group == group)
    return b"".join(parts)


def _definition(item: Item) -> bytes:
    name = item.name
    if item.section != b"amalgam":
        name = b"%s.%s" % (item.section, name)
    value = b"(%s; default: %s)" % (item.kind.expected, shown_default(item))
    return b"``%s``\n    %s %s\n\n" % (name, item.help, value)


def shown_default(item: Item) -> bytes:
    """Return the default of an item as users write it; "unset" if it has none."""
    default = item.default
    if isinstance(default, tuple):
        return b", ".join(default) or b"none"
    if isinstance(default, bool):
        return b"yes" if default else b"no"
    if default is None:
        return b"unset"
    return default if isinstance(default, bytes) else b"%d" % default
