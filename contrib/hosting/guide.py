"""Take the steps of the guides, and check what clients got: guide.py --hg PATH.

The guides are docs/hosting.rst (``bundlehosting``), docs/serving-git.rst
(``gitservers``), docs/public-servers.rst (``publicserver``), and docs/adopting.rst
(``migration``). Every file and command is used as it is printed there; only addresses,
ports and directories become those of a scratch directory and of the loopback. Programs
that are not installed are left out, and that is said. Ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from bundlehosting import BundleHosting
from gitservers import GitServers
from migration import Migration
from page import PATHS
from publicserver import PublicServer
from walk import Walk

_KINDS: dict[str, type[Walk]] = {
    "hosting": BundleHosting,
    "serving-git": GitServers,
    "public-servers": PublicServer,
    "adopting": Migration,
}


def main() -> int:
    """Follow the guides, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--hg", type=Path, required=True)
    parser.add_argument("--nginx", default=shutil.which("nginx", path=PATHS))
    parser.add_argument("--only", choices=_KINDS)
    options = parser.parse_args()
    problems = []
    for page, kind in _KINDS.items():
        if options.only in (None, page):
            problems += followed(kind, options.hg.absolute(), options.nginx)
    print("wrong" if problems else "all is as the guides say")
    return 1 if problems else 0


def followed(kind: type[Walk], hg: Path, nginx: str | None) -> list[str]:
    """Follow one guide in a place of its own; return and print what is wrong."""
    with tempfile.TemporaryDirectory(prefix="hosting-") as directory:
        scratch = Path(directory)
        scratch.chmod(0o755)  # the web server runs as somebody else
        guide = kind(scratch, hg, nginx)
        try:
            guide.follow()
            guide.check()
        finally:
            guide.close()
        for problem in guide.problems:
            print(f"wrong: {problem}")
        return guide.problems


if __name__ == "__main__":
    sys.exit(main())
