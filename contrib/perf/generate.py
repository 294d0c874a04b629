"""Write a Mercurial repository: generate.py PROFILE DEST [--changesets N] [...].

Run it with a Python that has Mercurial. `generate.py --help` lists the profiles, and
`generate.py PROFILE --help` the sizes of one with their defaults.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import sys
import time

from repositories import branches, monorepo, shapes
from repositories.histories import History
from repositories.profile import Profile
from repositories.realistic import Realistic
from repositories.stores import COMPRESSIONS, Store

PROFILES: dict[str, type[Profile]] = {
    "realistic": Realistic,
    "linear": shapes.Linear,
    "merges": shapes.Merges,
    "topics": branches.Topics,
    "wide-topics": branches.WideTopics,
    "criss-cross": branches.CrissCross,
    "many-files": shapes.ManyFiles,
    "deep-directories": shapes.DeepDirectories,
    "many-heads": shapes.ManyHeads,
    "heads": shapes.Heads,
    "names": shapes.Names,
    "names-and-heads": shapes.NamesAndHeads,
    "large-files": shapes.LargeFiles,
    "monorepo": monorepo.Monorepo,
}


def main(arguments: list[str] | None = None) -> int:
    """Write the repository, print its tip, and return the exit status."""
    options = _parser().parse_args(arguments)
    kind = PROFILES[options.profile]
    sizes = {
        field.name: getattr(options, field.name) for field in dataclasses.fields(kind)
    }
    start = time.perf_counter()
    try:
        store = Store(
            options.dest, compression=options.compression, repeats=kind.repeats
        )
        history = History(store)
        kind(**sizes).build(history)
        store.close()
        if history.bookmarks:
            store.write_bookmarks(history.bookmarks.items())
        if options.draft:
            store.keep_draft(options.draft)
    except (OSError, ValueError) as err:
        print(f"generate.py: {err}", file=sys.stderr)
        return 1
    log, seconds = store.changelog, time.perf_counter() - start
    tip = log.node(len(log) - 1).hex()
    print(f"{options.profile}: {len(log)} changesets, tip {tip}, in {seconds:.1f} s")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    profiles = parser.add_subparsers(dest="profile", metavar="PROFILE", required=True)
    for name, kind in PROFILES.items():
        summary = (kind.__doc__ or "").partition("\n")[0]
        profile = profiles.add_parser(
            name,
            help=summary,
            description=summary,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        )
        profile.add_argument("dest", help="directory to create")
        for field in dataclasses.fields(kind):
            profile.add_argument(
                f"--{field.name}", type=int, default=field.default, help="number"
            )
        profile.add_argument(
            "--draft", type=int, default=0, help="changesets at the end to leave draft"
        )
        profile.add_argument(
            "--compression", choices=COMPRESSIONS, default="zstd", help="of the revlogs"
        )
    return parser


if __name__ == "__main__":
    gc.disable()  # objects by the million, and none in cycles
    sys.exit(main())
