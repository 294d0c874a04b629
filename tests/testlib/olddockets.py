"""Dockets as versions before the common form wrote them: JSON."""

from __future__ import annotations

import json
from typing import Any

from hgext3rd.amalgam import docketfile
from hgext3rd.amalgam.clonebundles.register import Entry, Register
from hgext3rd.amalgam.gitstore.docket import Docket, Layer, MetadataCommit


def git_docket(docket: Docket) -> bytes:
    """Return a git store's docket of version 4."""
    data = {
        "version": 4,
        "base": _layer(docket.base, docket.base_commit),
        "drafts": _layer(docket.drafts, docket.drafts_commit),
        "held": [(public.hex(), draft.hex()) for public, draft in docket.held],
        "refused": docket.refused,
        "dropped": docket.dropped,
        "named": docket.named,
        "censored": docket.censored,
        "summaries": docket.summaries,
    }
    return json.dumps(data, indent=1).encode() + b"\n"


def register(register: Register) -> bytes:
    """Return a bundle register of version 1."""
    known = _values(register)
    known["entries"] = [_values(entry) for entry in register.entries.values()]
    text = json.dumps({"version": 1, **known}, indent=1, sort_keys=True)
    return text.encode() + b"\n"


def _values(record: Register | Entry) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__annotations__}


def git_docket_5(docket: Docket) -> bytes:
    """Return a git store's docket of version 5: version 4 as lines."""
    lines = docketfile.parsed(git_docket(docket), b"", old=4)
    return docketfile.formatted(b"amalgam git store 5", lines)


def _layer(layer: Layer, commit: MetadataCommit) -> dict[str, Any]:
    return {
        "segments": layer.segments,
        "packs": (*layer.packs, *commit.packs),
        "complete": layer.complete,
        "metadata": {
            "commit": commit.oid,
            "segments": layer.metadata_segments,
            "state": "cinnabar-metadata-0123456789abcdef.state",
            "packs": commit.packs,
        },
        "seen": [seen._asdict() for seen in layer.seen],
    }
