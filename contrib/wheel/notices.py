"""Licence notices of the crates that are linked into the native core.

Owns the set of crates: what ``capi`` needs at run time, on each platform with wheels.
Build scripts and procedural macros are not linked, and our own crates are in COPYING.
The notices are those that the crates carry, with the C sources that they bundle.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

PLATFORMS = [
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-gnu",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
]
_NOTICE = re.compile(r"(?i)(licen[cs]e|copying|copyright|notice|unlicense)")
_RULE = "=" * 72


class MissingNoticeError(Exception):
    """A crate has no file with its licence."""


def metadata(rust: Path, *options: str) -> dict[str, Any]:
    """Return what cargo says of the workspace in ``rust``."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", *options]
    answer: dict[str, Any] = json.loads(subprocess.check_output(command, cwd=rust))
    return answer


def linked(rust: Path) -> list[dict[str, Any]]:
    """Return the packages that are linked on any platform, by name and version."""
    found: dict[str, dict[str, Any]] = {}
    for platform in PLATFORMS:
        answer = metadata(rust, "--filter-platform", platform)
        packages = {package["id"]: package for package in answer["packages"]}
        nodes = {node["id"]: node for node in answer["resolve"]["nodes"]}
        pending = [key for key in packages if packages[key]["name"] == "capi"]
        seen = set(pending)
        while pending:
            for dependency in nodes[pending.pop()]["deps"]:
                key = dependency["pkg"]
                kinds = [kind["kind"] for kind in dependency["dep_kinds"]]
                if None in kinds and key not in seen and not _is_macro(packages[key]):
                    seen.add(key)
                    pending.append(key)
        found |= {key: packages[key] for key in seen if packages[key]["source"]}
    return sorted(found.values(), key=lambda one: (one["name"], one["version"]))


def text(rust: Path) -> str:
    """Return the notices of all that is linked; the same text is there once."""
    packages = linked(rust)
    crates_with: dict[str, list[str]] = {}
    for package in packages:
        crate = Path(package["manifest_path"]).parent
        files = [*sorted(crate.glob("*")), *sorted(crate.glob("*/*"))]
        files = [file for file in files if file.is_file() and _is_notice(file)]
        if not files:
            raise MissingNoticeError(f"{package['name']} {package['version']}")
        for file in files:
            notice = file.read_text(encoding="utf-8", errors="replace").strip()
            name = f"{package['name']} {package['version']}: {file.relative_to(crate)}"
            crates_with.setdefault(notice, []).append(name)
    lines = [
        "The native core of hg-amalgam, _core.abi3.so, contains these packages:",
        "",
    ]
    lines += [
        f"- {package['name']} {package['version']}, {package['license']}"
        for package in packages
    ]
    for notice, names in crates_with.items():
        lines += ["", _RULE, *names, _RULE, "", notice]
    return "\n".join(lines) + "\n"


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def _is_notice(file: Path) -> bool:
    return bool(_NOTICE.match(file.stem)) and file.suffix not in (".rs", ".c", ".h")
