"""Aborts of the package: lower case, no full stop, a hint; and refusals of pushes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from mercurial import error
from testlib.environment import ROOT

from hgext3rd.amalgam.receive.convert import REASONS

PACKAGE = ROOT / "hgext3rd" / "amalgam"
#: Beginnings or parts of messages that need no hint.
WITHOUT_HINT = (
    # the message says what to write
    "(expected ",
    "expected %s, found",
    "cannot specify both ",
    # another message follows, which says why
    "cannot read '%s': %s",
    "cannot survey '%s': %s",
    "git cannot read '%s': %s",
    "measured process failed: %s",
    # words of hg-git, which scripts of its users may look for
    "git.similarity must be between 0 and 100",
    "git.renamelimit must be non-negative",
    "git.findcopiesharder is not a boolean",
    "git.%s is not a valid integer",
    "please pull and merge before pushing",
    "pushing %s overwrites %s",
    "cannot be pushed since it doesn't have a bookmark",
    "potentially unsafe hostname: '%s'",
    "git repository is corrupt!",
    "git equivalent %s for rev %s ",
    "ambiguous reference %s: %s",
    "the -B/--bookmarks option is not supported when",
    "tag names must be unique",
    "the name '%s' already exists",
    "the name '%s' is not a valid git tag",
    # nothing can be done
    "has ids of %s, and Mercurial's are of SHA-1",
)
#: Calls without a literal message: it is passed on, or Mercurial's own.
PASSED_ON = {
    ("gitstore/adopt/mappings.py", "exc.message"),
    ("gitstore/git/process.py", "said(done)"),
    ("receive/convert.py", "text"),
    ("commands/export.py", "text % name.encode()"),
    ("commands/metrics.py", "text % name.encode()"),
    ("index/nodemap.py", "None"),
    # as hg-git: the name, the file, and the words
    ("commands/ids.py", "id_"),
}


def aborts() -> Iterator[tuple[str, ast.Call]]:
    """Yield the module and the call of each error of Mercurial that users may see."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(
                node.func, ast.Attribute
            ):
                continue
            kind = getattr(error, node.func.attr, None)
            if (
                getattr(node.func.value, "id", "") == "error"
                and isinstance(kind, type)
                and issubclass(kind, error.Hint)
                and not issubclass(kind, error.ProgrammingError)
            ):
                yield path.relative_to(PACKAGE).as_posix(), node


def literals(node: ast.expr) -> list[str]:
    """Return the bytes in an expression, without those that are filled in."""
    if isinstance(node, ast.BinOp):
        return literals(node.left)
    found = [it.value for it in ast.walk(node) if isinstance(it, ast.Constant)]
    return [value.decode() for value in found if isinstance(value, bytes)]


def text_of(call: ast.Call) -> str:
    """Return the message of a call, empty if it has no literal."""
    return "".join(literals(call.args[0])) if call.args else ""


ABORTS = list(aborts())


def test_every_abort_has_a_hint() -> None:
    assert len(ABORTS) > 100
    without = []
    for module, call in ABORTS:
        has_hint = any(keyword.arg == "hint" for keyword in call.keywords)
        if has_hint:
            continue
        if (module, ast.unparse(call.args[0])) in PASSED_ON:
            continue
        if not any(part in text_of(call) for part in WITHOUT_HINT):
            without.append((module, text_of(call) or ast.unparse(call)))
    assert without == []


@pytest.mark.parametrize("reason", WITHOUT_HINT)
def test_no_reason_is_left_over(reason: str) -> None:
    assert any(reason in text_of(call) for _module, call in ABORTS)


def test_messages_are_lower_case_without_full_stop() -> None:
    for module, call in ABORTS:
        for text in literals(call.args[0]) if call.args else ():
            first = text.split(" ")[0]
            assert not (first[:1].isupper() and first[1:].islower()), (module, text)
            assert not text.endswith("."), (module, text)


#: Beginnings of the next thing to type.
NEXT_STEPS = ("; ", "(expected ", "(did you mean ")
#: Refusals that another place has the sentence of, or git the words.
SAID_ELSEWHERE = {"RACED", "_HISTORY_CHANGED", "sentence", "utf8_of(message + hint)"}


def refusals() -> Iterator[tuple[str, ast.expr]]:
    """Yield the module and the sentence of each refusal of a push."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", "")
            if isinstance(node, ast.Call) and name == "PushRefusedError":
                yield path.name, node.args[0]


def test_every_refusal_of_a_push_has_a_next_step() -> None:
    found = list(refusals())
    assert len(found) > 40
    without = []
    for module, sentence in found:
        if ast.unparse(sentence) in SAID_ELSEWHERE:
            continue
        text = "".join(literals(sentence))
        if not any(it in text for it in NEXT_STEPS):
            without.append((module, text))
    assert without == []
    assert all(reason.remedy for reason in REASONS.values())
