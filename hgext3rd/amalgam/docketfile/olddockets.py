"""Dockets of git stores and bundle registers, as earlier versions wrote them.

Removed in 0.3.0: what is written anew has the form of ``docketfile``. Returns the lines
that a file would have in that form. Their values are checked there.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ..loading import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    Line: TypeAlias = "tuple[bytes, bytes]"

# those that are not the old keys with dashes
_KEYS = {"segments": "segment", "packs": "pack", "seen": "checkpoint"}
_KEYS |= {"cinnabar_manifests": "cinnabar-manifest", "others": "other"}
_KEYS |= {"name": "bundle"}


def lines_of(content: bytes, version: int) -> list[Line]:
    """Return the lines; ``ValueError`` if the file is not of this version."""
    load(json)  # perhaps in a thread of hgweb
    try:
        found = json.loads(content)
        if found.pop("version") != version:
            raise ValueError("of another version")
        entries = [_bundle(entry) for entry in found.pop("entries", [])]
        marks = found.get("others", {}).items()
        found["others"] = [named for named in marks if named[1]]
        return [line for part in (found, *entries) for line in _flat("", part)]
    except (AttributeError, KeyError, RecursionError, TypeError) as exc:
        raise ValueError("not what amalgam wrote") from exc


def with_commits(lines: Iterable[Line]) -> list[Line]:
    """Return the lines of a git store whose metadata commits were parts of its layers.

    Drafts' commit needed packs of the base, and there was a file for the next export.
    """
    lines = list(lines)
    packs = {
        (layer, value)
        for layer in (b"base", b"drafts")
        for key, value in lines
        if key == layer + b"-metadata-pack"
    }
    found = []
    for key, value in lines:
        layer, _dash, field = key.partition(b"-")
        if (field == b"pack" and (layer, value) in packs) or field == b"metadata-state":
            continue
        found.append((key, value))
        if key == b"drafts-metadata-commit":
            of_base = (value for layer, value in packs if layer == b"base")
            found += [(b"drafts-metadata-pack", value) for value in sorted(of_base)]
    return found


def _bundle(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a bundle of a register, its name first, without what it has no more."""
    entry.pop("left", None)
    if entry.pop("at_once", False):
        entry["retired"] = None
    return {"name": entry["name"], **entry}


def _flat(prefix: str, record: dict[str, Any]) -> Iterator[Line]:
    for name, value in record.items():
        key = prefix + _KEYS.get(name, name.replace("_", "-"))
        if isinstance(value, dict):
            yield from _flat(key + "-", value)
            continue
        items = value if isinstance(value, list) else [value]
        lines = ((os.fsencode(key), _text(item)) for item in items)
        # what was not there had a value, too
        yield from (line for line in lines if line[1])


def _text(value: Any) -> bytes:
    if isinstance(value, list | tuple | dict):
        values = value.values() if isinstance(value, dict) else value
        return b" ".join(map(_text, values))
    if value is None or isinstance(value, bool):
        return b"yes" if value else b""
    return b"%.6f" % value if isinstance(value, float) else os.fsencode(str(value))
