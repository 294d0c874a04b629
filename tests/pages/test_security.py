"""docs/security.rst names a test for each of its rules, and that test exists."""

from __future__ import annotations

import re

from testlib.environment import ROOT

PAGE = (ROOT / "docs/security.rst").read_text()
RULES = PAGE.split(".. _rules:")[1]
NAMED = re.compile(r"``([\w/.-]+\.(?:py|t|rs))(?:::(\w+))?``")


def test_every_rule_names_a_test() -> None:
    rules = re.split(r"^(?=\d+\. )", RULES, flags=re.MULTILINE)[1:]
    assert len(rules) > 5
    for rule in rules:
        assert "[``" in rule, rule


def test_every_test_that_is_named_exists() -> None:
    found = NAMED.findall(RULES)
    assert found
    for file, function in found:
        path = next(it for it in (ROOT / "tests" / file, ROOT / file) if it.exists())
        text = path.read_text()
        assert not function or f"def {function}(" in text or f"fn {function}(" in text


def test_rules_are_numbered_without_gaps() -> None:
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", RULES, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
