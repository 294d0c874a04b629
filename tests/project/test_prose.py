"""The prose of docstrings and doc comments: things are named.

The first line is a noun phrase or an imperative. A free relative clause in place of a
noun has to be decoded: "what is not converted since it is too much" is "limits of one
conversion". The word "what" measures it, for 1,000 lines; Mercurial has 3, gitoxide 8.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_WORD = re.compile(r"\bwhat\b", re.IGNORECASE)
_FIRST_LINE = re.compile(
    r"\b(what|who|whoever|so many|there is|there are)\b|\bthat of\b|^Tell whether",
    re.IGNORECASE,
)
#: The word "what" in 1,000 lines, by language. A number only falls.
MOST = {"Python": 6, "Rust": 2}


def python_texts() -> Iterator[tuple[str, str]]:
    """Yield the room and the text of each docstring of the package."""
    package = ROOT / "hgext3rd" / "amalgam"
    for path in sorted(package.rglob("*.py")):
        room = str(path.relative_to(package).parent)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield room, str(node.value.value).strip()


def rust_texts() -> Iterator[tuple[str, str]]:
    """Yield the crate and the text of each doc comment."""
    for path in sorted((ROOT / "rust").glob("*/src/**/*.rs")):
        crate = path.relative_to(ROOT / "rust").parts[0]
        block: list[str] = []
        for line in [*path.read_text().splitlines(), ""]:
            if comment := re.match(r"\s*//[/!] ?(.*)$", line):
                block.append(comment[1])
            elif block:
                yield crate, "\n".join(block).strip()
                block = []


def measure(texts: Iterator[tuple[str, str]]) -> tuple[float, Counter[str]]:
    """Return the word "what" in 1,000 lines, and bad first lines by room."""
    words, lines = 0, 0
    bad: Counter[str] = Counter()
    for room, text in texts:
        lines += len(text.splitlines())
        words += len(_WORD.findall(text))
        bad[room] += bool(_FIRST_LINE.search(text.partition("\n")[0]))
    return 1000 * words / lines, +bad


def test_first_lines_name_the_thing() -> None:
    assert measure(python_texts())[1] + measure(rust_texts())[1] == {}


def test_what_is_rare() -> None:
    found = {"Python": measure(python_texts())[0], "Rust": measure(rust_texts())[0]}
    assert {name: n for name, n in found.items() if n > MOST[name]} == {}


if __name__ == "__main__":
    for language, texts in (("Python", python_texts), ("Rust", rust_texts)):
        ratio, bad = measure(texts())
        sys.stdout.write(
            f"what in 1,000 lines of {language}: {ratio:.1f} {dict(bad)}\n"
        )
