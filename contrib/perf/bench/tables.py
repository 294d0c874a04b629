"""Tables of hg's own perf commands, on generated repositories of several sizes."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

from .benchmark import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from .repository import Repository

#: Names of commands, after ``perf::amalgam-``.
COMMANDS = ("index", "node-lookup", "startup", "export", "bundle")

Rows = list[dict[str, Any]]


def measure(
    hg: Path,
    repositories: Sequence[Repository],
    limits: str,
    say: Callable[[str], None],
    commands: Sequence[str],
) -> Rows:
    """Run the commands on each repository and return their rows."""
    found: Rows = []
    for repository in repositories:
        for name in commands:
            say(f"table: {name} {repository.name}")
            items = ["extensions.hgext3rd.amalgam.perf=", f"perf.run-limits={limits}"]
            config = [word for item in items for word in ("--config", item)]
            command = [str(hg), *config, "-R", str(repository.path)]
            command.append(f"perf::amalgam-{name}")
            rows: Rows = json.loads(Command([*command, "-T", "json"]).output())
            for row in rows:
                row["repository"] = repository.name
                row["changesets"] = repository.changesets
            found += rows
    return found


def grids(rows: Rows) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield a table for each operation: title, head and lines.

    It has a column for each size and state of the cache. Cells have milliseconds; cold
    ones the megabytes that were read from disk, too.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    columns: dict[str, None] = {}
    for row in rows:
        operation = row["title"].replace(_place(row["title"]), "the changelog")
        column = f"{row['changesets']:,}, {row['cache']}"
        columns[column] = None
        line = found.setdefault(operation, {}).setdefault(row["subject"], {})
        line[column] = _cell(row)
    for operation, by_subject in found.items():
        lines = [[s, *(by_subject[s].get(c, "") for c in columns)] for s in by_subject]
        yield operation, ["", *columns], lines


def as_rst(rows: Rows) -> str:
    """Return the tables for a page of docs."""
    return "".join(csv_table(*grid) for grid in grids(rows))


def csv_table(title: str, head: list[str], lines: Iterable[list[str]]) -> str:
    """Return a table for a page of docs."""
    output = io.StringIO()
    output.write(f"\n.. csv-table:: {title}\n   :header-rows: 1\n\n   ")
    writer = csv.writer(output, quoting=csv.QUOTE_ALL, lineterminator="\n   ")
    writer.writerows([head, *lines])
    return "\n".join(line.rstrip() for line in output.getvalue().split("\n"))


def _place(title: str) -> str:
    """Return the part of a title that names the index and its size."""
    match = re.search(r"00\w+ \(.*?\)", title)
    return match[0] if match else title


def _cell(row: dict[str, Any]) -> str:
    if "reason" in row:
        return str(row["reason"])
    read = f" ({row['read_bytes'] / 1e6:.1f} MB)" if row["cache"] == "cold" else ""
    milliseconds = 1e3 * row["median.wall"]
    return f"{milliseconds:.{1 if milliseconds >= 10 else 2}f}{read}"
