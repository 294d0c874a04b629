"""The source distribution, with the sources of all crates: sdist.py TREE OUTPUT.

It builds without a network. Crates for other platforms are emptied: cargo wants to see
them, and compiles none of them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import notices

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"""


def main(tree: Path, output: Path) -> None:
    """Copy what is committed to ``tree``, complete it, and pack it into ``output``."""
    shutil.rmtree(tree, ignore_errors=True)
    copy_sources(tree)
    rust = tree / "rust"
    vendor(rust)
    (tree / "COPYING.third-party.txt").write_text(notices.text(rust), encoding="utf-8")
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation"]
    subprocess.run([*command, "-o", output, tree], check=True)


def copy_sources(tree: Path) -> None:
    """Copy the files that git knows, as they are now."""
    if not (ROOT / ".git").exists():
        raise SystemExit(
            "error: not a checkout of git; a source distribution is complete"
        )
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
    )
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    # as in setup.py, which has no git there
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12"]
    commit = subprocess.check_output([*command, "--dirty=+"], cwd=ROOT)
    (tree / "hgext3rd" / "amalgam" / "COMMIT").write_bytes(commit)


def vendor(rust: Path) -> None:
    """Put the crates of Cargo.lock below ``rust``, and make cargo use them."""
    command = ["cargo", "vendor", "--locked", "--quiet", "vendor"]
    subprocess.run(command, cwd=rust, check=True)
    (rust / ".cargo").mkdir()
    (rust / ".cargo" / "config.toml").write_text(CONFIG, encoding="utf-8")
    needed = {
        Path(package["manifest_path"]).parent.name
        for platform in notices.PLATFORMS
        for package in notices.metadata(
            rust, "--offline", "--filter-platform", platform
        )["packages"]
    }
    for crate in (rust / "vendor").iterdir():
        if crate.name not in needed:
            empty(crate)


def empty(crate: Path) -> None:
    """Keep the manifest of ``crate``, and its Rust files as empty files."""
    for file in [path for path in crate.rglob("*") if path.is_file()]:
        if file.suffix == ".rs":
            file.write_bytes(b"")
        elif file.name not in ("Cargo.toml", ".cargo-checksum.json"):
            file.unlink()
    checksum = crate / ".cargo-checksum.json"
    known = json.loads(checksum.read_bytes())
    checksum.write_text(json.dumps({"files": {}, "package": known["package"]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
