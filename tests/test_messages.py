"""docs/messages.rst lists every abort, warning and refusal, as the source has it."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from mercurial import error
from testlib.environment import ROOT

PACKAGE = ROOT / "hgext3rd" / "amalgam"
PAGE = (ROOT / "docs" / "messages.rst").read_text()
#: A message, and where it is met; its explanation is indented.
ENTRY = re.compile(r"^``(.+)`` : (.+)\n(   \S.*)?", re.MULTILINE)
#: A message of the core; what is said of its group comes before.
CORE = re.compile(r"^- ``(.+)``$", re.MULTILINE)
#: Calls that hold a message, and which of their arguments it is.
SINKS = {
    "Problem": 0,
    "PushRefusedError": 0,
    "RefusedError": 1,
    "Unusable": 1,
    "_refuse": 1,
    "_report": 0,
    "_say": 0,
    "_wrong": 0,
    "explain": 0,
    "getargs": 3,
    "getstring": 1,
    "held": 3,
    "later": 0,
    "unavailable": 0,
    "warn": 0,
    "warn_once": 1,
}
#: Sinks that raise, and amalgam's own errors: what Mercurial takes them for.
ERRORS = {
    "ConversionUnsupported": "StateError",
    "NothingToBundleError": "InputError",
    "TransactionAbandoned": "StateError",
    "UnfitError": "StorageError",
    "Unsupported": "StorageError",
    "Unusable": "StorageError",
    "_CutError": "StorageError",
    "_wrong": "StorageError",
    "getargs": "ParseError",
    "getstring": "ParseError",
    "held": "LockHeld",
}
#: Tables of texts that become part of a message, and the kind of their texts.
TABLES = {"_DIFFERENT": "warning", "_LEFT_OUT": "reason", "_MISFITS": "reason"}
#: Errors that are always caught: users see what is raised instead.
CAUGHT = {"Moved", "ProgrammingError", "UnsupportedBundleSpecification"}
#: Errors that are not an ``Abort``; ``mercurial/scmutil.py`` has their codes.
OTHER_CODES = {"LockHeld": 20, "RepoLookupError": 10}
#: Errors of the core: those with a type, and what is said of damaged files.
RUST = re.compile(
    r"(?:#\[error\(|\bwrite!\(f,|\bwhat = format(?:_args)?!\("
    r"|\b(?:corrupt|unsupported|damaged|malformed|blame|Damaged)\()"
    r'\s*(?:[\w.*]+,\s*|format!\(\s*)?"((?:[^"\\]|\\.)*)"'
)
#: Other prose of the core is a message, too, unless what comes before it says that it
#: is for a programmer, or a hint.
LITERAL = re.compile(r"""'\\?"'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
PROSE = re.compile(r"[a-z{][^\\]* \S+ [^\\]*[a-z]{3}[^\\]*")
NO_MESSAGE = re.compile(
    r"(?:\b(?:expect|panic!|unreachable!|unwrap_or|hint|bug)\((?:format!\()?"
    r"|\b(?:debug_)?assert(?:_eq|_ne)?!\([^;]*,|\breason =|\bb|\bMoved\()\s*$"
)
#: Prose that nobody sees, or that becomes a part of a message.
NOT_SHOWN = {
    "bytes follow its end",  # in "zstd data is damaged ({0})"
    "Destination buffer is too small",  # of zstd: to be compared with
}
#: What stays of a message that only passes on another one.
PASSED_ON = re.compile(r"(?:warning|%[a-z]|\{[^}]*\}|[^a-z])*")


def test_page_lists_every_message_and_no_other() -> None:
    found = {text: ", ".join(sorted(kinds)) for text, kinds in in_source().items()}
    assert len(found) > 250
    listed = {text: kinds for text, kinds, _explanation in ENTRY.findall(PAGE)}
    listed |= dict.fromkeys(of_core(), "core")
    assert listed == found


def test_each_message_is_explained_once() -> None:
    entries = ENTRY.findall(PAGE)
    texts = [text for text, _kinds, _explanation in entries] + of_core()
    assert sorted(texts) == sorted(set(texts))
    assert not [text for text, _kinds, explanation in entries if not explanation]


def test_every_message_can_be_found_in_the_source() -> None:
    """A message that is put together elsewhere would be overlooked."""
    assert set(unresolved()) == UNRESOLVED


#: Where messages are passed on, and how the source calls them there.
UNRESOLVED = {
    ("bundles/status.py", "exc.message"),
    ("commands/admin.py", "*it"),
    ("config.py", "mistake.message"),
    ("gitstore/adoption/mappings.py", "exc.message"),
    ("gitstore/exporting/conversion.py", "Unfit(_id(done.unfit), int(done.misfit))"),
    ("gitstore/exporting/exportlock.py", "errno.EAGAIN"),
    ("gitstore/git/gitprocess.py", "said(done)"),
    ("gitstore/state/adopted.py", "exc.message"),
    ("gitstore/state/adopted.py", "text"),
    ("gitstore/status.py", "exc.message"),
    ("gitstore/status.py", "ref.line().rstrip()"),
    ("gitstore/status.py", "text"),
    ("gitstore/verify/mapping.py", "*kinds[table]"),
    ("serve/exchange.py", "sentence"),
    ("serve/ids/routes.py", "found"),
    ("push/accepting.py", "RACED"),
    ("push/applying.py", "utf8_of(message + hint)"),
    ("serve/permissions.py", "utf8_of(stringutil.forcebytestr(exc))"),
    ("serve/receive/policy.py", "utf8_of(config.message)"),
    ("serve/ssh/program.py", "exc.sentence"),
    ("serve/ssh/program.py", "sentence"),
    ("serve/ssh/program.py", "utf8_of(stringutil.forcebytestr(exc))"),
}


def of_core() -> list[str]:
    """Return the messages of the core that the page lists."""
    return CORE.findall(PAGE.partition(".. _core:")[2])


def test_messages_of_the_build_are_listed() -> None:
    tree = ast.parse((ROOT / "setup.py").read_text())
    found = [
        "".join(
            str(part.value) if isinstance(part, ast.Constant) else "%s"
            for part in getattr(node.args[0], "values", node.args)
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "stop"
    ]
    _before, begin, rest = PAGE.partition("\nBuilding\n=")
    listed = re.findall(r"(?m)^``(.+)``\n   \S", rest.partition(".. _core:")[0])
    assert begin
    assert sorted(listed) == sorted(found)


def in_source() -> dict[str, set[str]]:
    """Return the messages, each with the kinds of its uses."""
    found = defaultdict(set)
    for _module, text, kind, _where in in_python():
        if text and not PASSED_ON.fullmatch(text):
            found[text].add(kind)
    for path in sorted((ROOT / "rust").glob("*/src/**/*.rs")):
        if path.stem == "tests":
            continue
        code = path.read_text().partition("mod tests {")[0]
        code = re.sub(r"(?m)^\s*//.*|\s//[^\"\n]*$", "", code)
        for text in (*RUST.findall(code), *prose(code)):
            if not PASSED_ON.fullmatch(text):
                found[text].add("core")
    return found


def prose(code: str) -> Iterator[str]:
    """Yield what looks like a sentence to users in a file of the core."""
    for literal in LITERAL.finditer(code):
        before, text = code[: literal.start()][-200:], literal[1] or ""
        if PROSE.fullmatch(text) and not NO_MESSAGE.search(before):
            yield from {text} - NOT_SHOWN


def unresolved() -> Iterator[tuple[str, str]]:
    """Yield the module and the expression of each message that is no literal."""
    for module, text, _kind, where in in_python():
        if not text:
            yield module, where


@functools.cache
def in_python() -> list[tuple[str, str, str, str]]:
    """Return the messages of the package, as ``Module.messages`` has them."""
    return [
        (path.relative_to(PACKAGE).as_posix(), *message)
        for path in sorted(PACKAGE.rglob("*.py"))
        for message in Module(path).messages()
    ]


class Module:
    """A module, and the messages that it makes."""

    def __init__(self, path: Path) -> None:
        self._tree = ast.parse(path.read_text())
        self._is_ssh = path.parent.name == "ssh"
        self._above = {
            child: node
            for node in ast.walk(self._tree)
            for child in ast.iter_child_nodes(node)
        }

    def messages(self) -> Iterator[tuple[str, str, str]]:
        """Yield messages with their kind.

        Where a message is no literal, it is empty, and its expression comes third.
        """
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                kind = TABLES.get(ast.unparse(node.targets[0]), "")
                for value in node.value.values if kind else ():
                    first = value.elts[0] if isinstance(value, ast.Tuple) else value
                    for text in self._literals(first, node):
                        yield text, kind, ""

    def _of_call(self, node: ast.Call) -> Iterator[tuple[str, str, str]]:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        kind, at = self._kind(node, name)
        if not kind or len(node.args) <= at:
            return
        found = list(self._literals(node.args[at], node))
        if not found:
            yield "", kind, ast.unparse(node.args[at])
        for text in filter(None, found):
            yield from shown(name, kind, text)
        for keyword in node.keywords:
            if keyword.arg == "logged":
                for text in filter(None, self._literals(keyword.value, node)):
                    yield text, "log", ""

    def _kind(self, node: ast.Call, name: str) -> tuple[str, int]:
        """Return what a call makes, and the place of its message."""
        if name == "__init__":
            name = self._class_around(node)
            if name not in ERRORS:
                return "", 0
            return f"exit {exit_code(name)}", 0
        at = SINKS.get(name, 0)
        if is_of_mercurial(node.func) or name in ERRORS:
            return ("", 0) if name in CAUGHT else (f"exit {exit_code(name)}", at)
        if name not in SINKS or not node.args:
            return "", 0
        if self._is_ssh and name != "warn":
            return "ssh", at
        if name in ("RefusedError", "later"):
            code = ast.unparse(node.args[0]) if name == "RefusedError" else "503"
            return f"HTTP {code}", at
        kinds = {
            "Problem": "problem",
            "PushRefusedError": "push",
            "explain": "problem",
            "unavailable": "log",
        }
        return kinds.get(name, "warning"), at

    def _class_around(self, node: ast.AST) -> str:
        while node in self._above:
            node = self._above[node]
            if isinstance(node, ast.ClassDef):
                return node.name
        return ""

    def _literals(self, node: ast.expr, use: ast.AST) -> Iterator[str]:
        """Yield what an expression may be, but for what is put in or after it."""
        if isinstance(node, ast.Constant):
            yield node.value.decode() if isinstance(node.value, bytes) else ""
        elif isinstance(node, ast.Call) and is_wrapper(node.func):
            yield from self._literals(node.args[0], use)
        elif isinstance(node, ast.BinOp):
            yield from self._literals(node.left, use)
        elif isinstance(node, ast.IfExp):
            yield from self._literals(node.body, use)
            yield from self._literals(node.orelse, use)
        elif isinstance(node, ast.Name):
            yield from self._values(node.id, use)

    def _values(self, name: str, use: ast.AST) -> Iterator[str]:
        """Yield what a name may stand for, in the function of ``use`` or the module."""
        scope = use
        while not isinstance(scope, ast.FunctionDef | ast.Module):
            scope = self._above[scope]
        is_module = isinstance(scope, ast.Module)
        for node in scope.body if is_module else ast.walk(scope):
            if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets):
                yield from self._literals(node.value, node)
        if not is_module:
            yield from self._values(name, self._tree)


def is_wrapper(func: ast.expr) -> bool:
    """Tell whether a call returns the message that it is given."""
    return getattr(func, "id", "") in ("_", "one_line")


def is_of_mercurial(func: ast.expr) -> bool:
    """Tell whether a call makes one of ``mercurial.error``."""
    return getattr(getattr(func, "value", None), "id", "") == "error"


def shown(name: str, kind: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield a message as it is shown, unless it is the hint of another one."""
    text = text.rstrip()
    if name == "Unusable":
        text = f"'%s' {text}"
    if name == "warn_once":
        text = f"warning: {text}"
    if not text.startswith("("):
        yield text, kind, ""


def exit_code(name: str) -> int:
    """Return the status of hg with ``ui.detailed-exit-code``."""
    name = ERRORS.get(name, name)
    if name in OTHER_CODES:
        return OTHER_CODES[name]
    code = getattr(error, name).detailed_exit_code
    return 255 if code is None else int(code)
