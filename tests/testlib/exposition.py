"""A strict reader of the text format of Prometheus, in place of promtool.

Stricter than the format: each family has HELP, TYPE and samples, in this order and
once, and no sample is there twice.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Labels: TypeAlias = "tuple[tuple[str, str], ...]"

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_HELP = re.compile(rf"# HELP ({_NAME}) ([^\n]+)")
_TYPE = re.compile(rf"# TYPE ({_NAME}) (counter|gauge|histogram|summary|untyped)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|(?=\}))')
_SAMPLE = re.compile(rf"({_NAME})\{{(.*)\}} (-?[0-9]+(?:\.[0-9]+)?)")
_ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parsed(content: bytes) -> dict[str, dict[Labels, float]]:
    """Return the samples by metric and labels; ``ValueError`` if it is not valid."""
    text = content.decode()  # UnicodeDecodeError is a ValueError
    if not text.endswith("\n"):
        raise ValueError("the last line is cut")
    found: dict[str, dict[Labels, float]] = {}
    helped = typed = ""
    for line in text.removesuffix("\n").split("\n"):
        if match := _HELP.fullmatch(line):
            helped = match[1]
            if helped in found or (typed and not found.get(typed)):
                raise ValueError(f"out of order: {line}")
        elif match := _TYPE.fullmatch(line):
            typed = match[1]
            if typed != helped or typed in found:
                raise ValueError(f"out of order: {line}")
            found[typed] = {}
        elif match := _SAMPLE.fullmatch(line):
            labels = _labels(match[2] + "}")
            if match[1] != typed or labels in found[typed]:
                raise ValueError(f"out of order, or twice: {line}")
            found[typed][labels] = float(match[3])
        else:
            raise ValueError(f"not a line: {line!r}")
    return found


def _labels(text: str) -> Labels:
    labels, at = [], 0
    while text[at:] != "}":
        match = _LABEL.match(text, at)
        if not match:
            raise ValueError(f"not labels: {text!r}")
        value = re.sub(r"\\.", lambda it: _ESCAPED[it[0]], match[2])
        labels.append((match[1], value))
        at = match.end()
    if len(dict(labels)) != len(labels):
        raise ValueError(f"a label is there twice: {text!r}")
    return tuple(sorted(labels))
