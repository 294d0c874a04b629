"""Rules for the Rust crates: dependencies of crates and rooms, unique names."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from testlib.environment import ROOT

RUST = ROOT / "rust"
#: Rooms of hg2git, lower first: a room knows those before it.
ROOMS = ["map", "read", "objects", "out", "metadata"]
#: Modules of hg2git that every room may use.
BASE = {"context", "error", "progress", "request"}
#: Crates, and which of ours each may use, tests apart.
CRATES = {
    "parallel": set(),
    "sha1lanes": set(),
    "revlog": {"sha1lanes", "parallel"},
    "gitpack": {"parallel"},
    "changegroup": {"revlog", "parallel"},
    "dialect": {"gitpack", "revlog", "parallel"},
    "hg2git": {"dialect", "gitpack", "revlog", "sha1lanes", "parallel"},
    "git2hg": {
        "changegroup",
        "dialect",
        "gitpack",
        "revlog",
        "sha1lanes",
        "parallel",
    },
}

SOURCES = sorted(RUST.glob("*/src/**/*.rs"))
IN_ROOMS = [
    path
    for room in ROOMS
    for path in (
        RUST / "hg2git/src" / f"{room}.rs",
        *(RUST / "hg2git/src" / room).rglob("*.rs"),
    )
    if path.name != "tests.rs"
]


def code(path: Path) -> str:
    """Return what is at ``path``, without comments and tests."""
    text = path.read_text().split("#[cfg(test)]\nmod tests {")[0]
    text = text.split("#[cfg(test)]\npub(crate) mod tests {")[0]
    return re.sub(r"//.*", "", text)


def test_rooms_know_only_those_below() -> None:
    wrong = {}
    for path in IN_ROOMS:
        room = path.relative_to(RUST / "hg2git/src").parts[0].removesuffix(".rs")
        below = {*BASE, *ROOMS[: ROOMS.index(room) + 1]}
        if above := set(re.findall(r"\bcrate::(\w+)", code(path))) - below:
            wrong[str(path.relative_to(RUST))] = above
    assert wrong == {}


def test_crates_know_only_those_below() -> None:
    wrong = {}
    for crate, below in CRATES.items():
        manifest = (RUST / crate / "Cargo.toml").read_text()
        used = manifest.split("[dev-dependencies]")[0].split("[dependencies]")[1]
        ours = {name for name in CRATES if re.search(rf"^{name}\.", used, re.MULTILINE)}
        if ours - below:
            wrong[crate] = ours - below
    assert wrong == {}


def test_public_type_names_are_unique() -> None:
    # those that a crate has by convention
    places = defaultdict(list)
    for path in SOURCES:
        for name in re.findall(
            r"^pub(?:\([^)]*\))? (?:struct|enum|trait|type|union) (\w+)",
            code(path),
            re.MULTILINE,
        ):
            places[name].append(str(path.relative_to(RUST)))
    assert not {
        name: paths
        for name, paths in places.items()
        if len(paths) > 1 and name not in {"Error", "Result"}
    }
