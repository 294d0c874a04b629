"""Write a Mercurial repository: generate.py PROFILE DEST [--changesets N] [...].

Run it with a Python that has Mercurial. `generate.py --help` lists the profiles, and
`generate.py PROFILE --help` the sizes of one with their defaults.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time

from repositories.histories import History
from repositories.profile import Profile
from repositories.profiles import PROFILES
from repositories.stores import COMPRESSIONS, Store


def main(arguments: list[str] | None = None) -> int:
    """Write the repository, print what it has, and return the exit status."""
    options = _parser().parse_args(arguments)
    kind = PROFILES[options.profile]
    sizes = {field.name: getattr(options, field.name) for field in _fields(kind)}
    start = time.perf_counter()
    try:
        store = Store(
            options.dest, compression=options.compression, repeats=kind.repeats
        )
        history = write(kind(**sizes), store, draft=options.draft)
    except (OSError, ValueError) as err:
        print(f"generate.py: {err}", file=sys.stderr)
        return 1
    seconds = time.perf_counter() - start
    log = store.changelog
    print(
        f"{options.profile}: {len(log)} changesets, {history.merges} merges, "
        f"{log.heads()} heads, {store.files()} files"
    )
    tip = log.node(len(log) - 1).hex()
    megabytes = _size_bytes(options.dest) / 1e6
    print(f"tip {tip}, {megabytes:.1f} MB in {seconds:.1f} s")
    return 0


def write(profile: Profile, store: Store, *, draft: int) -> History:
    """Write ``profile`` into an empty store and close it.

    The last ``draft`` changesets are draft, the others public.
    """
    history = History(store)
    profile.build(history)
    store.close()
    if history.bookmarks:
        store.write_bookmarks(history.bookmarks.items())
    if draft:
        store.keep_draft(draft)
    return history


def _fields(kind: type[Profile]) -> tuple[dataclasses.Field[int], ...]:
    return dataclasses.fields(kind)


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
        for field in _fields(kind):
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


def _size_bytes(path: str) -> int:
    return sum(
        os.path.getsize(os.path.join(directory, name))
        for directory, _directories, names in os.walk(path)
        for name in names
    )


if __name__ == "__main__":
    sys.exit(main())
