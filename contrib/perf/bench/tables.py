"""Tables of hg's own perf commands, on generated repositories of several sizes."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

from .benchmark import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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


def by_title(rows: Rows) -> dict[tuple[str, str], Rows]:
    """Return the rows of each table, by repository and title, in order."""
    found: dict[tuple[str, str], Rows] = {}
    for row in rows:
        found.setdefault((row["repository"], row["title"]), []).append(row)
    return found


def columns(rows: Rows) -> tuple[list[str], list[list[str]]]:
    """Return the head of one table, and its lines."""
    caches = list(dict.fromkeys(row["cache"] for row in rows))
    head = [""]
    for cache in caches:
        head += [f"{cache}, ms", "change", "MB read", "faults"]
    lines: dict[str, list[str]] = {}
    for row in rows:
        line = lines.setdefault(row["subject"], [row["subject"]])
        if "reason" in row:
            line += [row["reason"], "", "", ""]
            continue
        change = row.get("change_percent")
        line += [
            f"{1e3 * row['median.wall']:.2f}",
            "" if change is None else f"{change:+.0f} %",
            f"{row['read_bytes'] / 1e6:.1f}",
            f"{row['minor_faults'] + row['major_faults']:d}",
        ]
    return head, list(lines.values())


def as_rst(rows: Rows) -> str:
    """Return a table an operation, with a column a size and state of the cache.

    Cells have milliseconds; cold ones the megabytes that were read from disk, too.
    """
    found: dict[str, dict[str, dict[tuple[int, str], str]]] = {}
    columns: dict[tuple[int, str], None] = {}
    for row in rows:
        operation = row["title"].replace(_place(row["title"]), "the changelog")
        column = (row["changesets"], row["cache"])
        columns[column] = None
        line = found.setdefault(operation, {}).setdefault(row["subject"], {})
        line[column] = _cell(row)
    output = io.StringIO()
    writer = csv.writer(output, quoting=csv.QUOTE_ALL, lineterminator="\n   ")
    for operation, by_subject in found.items():
        output.write(f"\n.. csv-table:: {operation}\n   :header-rows: 1\n\n   ")
        writer.writerow(["", *(f"{size:,}, {cache}" for size, cache in columns)])
        for subject, cells in by_subject.items():
            writer.writerow([subject, *(cells.get(column, "") for column in columns)])
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
