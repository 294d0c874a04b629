"""Write the tables of docs/configuration.rst from the table of items.

``make config-page`` runs it; a test compares the page. The page marks each table: the
comment ``.. items: GROUP`` before it, ``.. end of items`` after it.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from hgext3rd.amalgam.commands.configtopic import shown_default
from hgext3rd.amalgam.config import ITEMS, Item

_TABLE = re.compile(r"(?<=^\.\. items: )(\w+)\n.*?(?=^\.\. end of items$)", re.M | re.S)
_HEAD = """\
.. list-table::
   :class: items
   :header-rows: 1
   :widths: 25 15 20 40

   * - item
     - default
     - value
     - meaning
"""
_COLUMNS = 118
_PLAIN = ("yes", "no", "unset", "none")


def with_tables(page: str) -> str:
    """Return the page with its tables written again."""
    return _TABLE.sub(lambda table: f"{table[1]}\n\n{_table(table[1])}\n", page)


def _table(group: str) -> str:
    rows = (_row(item) for item in ITEMS if item.group.decode() == group)
    return _HEAD + "".join(rows)


def _row(item: Item) -> str:
    default = shown_default(item).decode()
    if default not in _PLAIN or isinstance(item.default, bytes):
        default = f"``{default}``"
    meaning = item.help.decode()
    if item.is_untrusted:
        meaning += " The repository's own configuration counts."
    lines = textwrap.wrap(
        meaning, _COLUMNS - 7, break_long_words=False, break_on_hyphens=False
    )
    name = f"{item.section.decode()}.{item.name.decode()}"
    value = item.kind.expected.decode()
    meaning = "\n       ".join(lines)
    return f"   * - ``{name}``\n     - {default}\n     - {value}\n     - {meaning}\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text()))
