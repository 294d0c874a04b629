"""Dockets as versions before the common form wrote them: JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from hgext3rd.amalgam.bundles.lifecycle.register import Register
from hgext3rd.amalgam.gitstore.state.docket import Docket, Layer


def git_docket(docket: Docket) -> bytes:
    """Return a git store's docket of version 4."""
    data = {
        "version": 4,
        "base": _layer(docket.base),
        "drafts": _layer(docket.drafts),
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
    known: dict[str, Any] = dataclasses.asdict(register)
    known["entries"] = list(known["entries"].values())
    text = json.dumps({"version": 1, **known}, indent=1, sort_keys=True)
    return text.encode() + b"\n"


def _layer(layer: Layer) -> dict[str, Any]:
    return {
        "segments": layer.segments,
        "packs": layer.packs,
        "complete": layer.complete,
        "metadata": layer.metadata._asdict(),
        "seen": [seen._asdict() for seen in layer.seen],
    }
