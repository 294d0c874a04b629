"""Rules for the Python package: imports, names, and the seams to other programs.

Each test goes over all files, and its message lists every violation.
"""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator, Mapping, Set as AbstractSet
from pathlib import Path

import pytest
from testlib.environment import ROOT

PACKAGE = ROOT / "hgext3rd" / "amalgam"
#: Lower first; a module may import from its own room and those before it.
LAYERS = [
    "",
    "core",
    "index",
    "gitstore.records",
    "gitstore.git",
    "gitstore.store",
    "gitstore.imported",
    "gitstore.fetchedrefs",
    "gitstore.remotenotes",
    "gitstore.remotetags",
    "hggit",
    "gitstore.export",
    "gitstore.adopt",
    "gitstore.verify",
    "gitstore",
    "remote",
    "receive",
    "gitpeer",
    "changegroup",
    "clonebundles",
    "serve",
    "commands",
    "hooks",
    "perf",
]
#: Modules of the lowest layer, which every other may import.
BASE = {
    *("__version__", "buglink", "testedwith"),  # of the package itself
    *("config", "configitems", "compat", "loading"),
    *("locking", "files", "records", "scratch", "terminal", "trust", "docketfile"),
    *("background", "damage"),
}
#: The recorded state of a git store, and the repository that it comes from.
RECORDS = {
    *("adopted", "authors", "censorship", "checkpoint", "docket", "failures", "ids"),
    *("oidmap", "packgroups", "plan", "refusednames", "requirements", "selection"),
    "source",
}

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer_of(module: str) -> str:
    """Return the layer of ``module``, a dotted name below the package."""
    parts = module.split(".")
    if parts[0] in BASE:
        return ""
    if parts[0] == "gitstore" and parts[1:2] and parts[1] in RECORDS:
        return "gitstore.records"
    return ".".join(parts[:2]) if ".".join(parts[:2]) in LAYERS else parts[0]


def imports_of(path: Path) -> Iterator[str]:
    """Yield what the module at ``path`` imports of the package, below the package."""
    parents = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = parents[: len(parents) - (node.level - 1)]
            prefix = [*start, *filter(None, [node.module])]
            for alias in node.names:
                yield ".".join([*prefix, alias.name])
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not any(name.startswith("hgext3rd") for name in names), (
                f"{path} imports its own package by its full name"
            )


def name_of(path: Path) -> str:
    """Return the dotted name of the module at ``path``, below the package."""
    return path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")


def test_imports_go_downward() -> None:
    assert [
        f"{name} imports {imported}"
        for path in MODULES
        if (name := name_of(path)) != "__init__"  # it merges the tables of all
        for imported in imports_of(path)
        if LAYERS.index(layer_of(imported)) > LAYERS.index(layer_of(name))
    ] == []


def test_imports_have_no_circle() -> None:
    names = {name_of(path): path for path in MODULES}
    graph = {
        name: {_module_of(imported, names) for imported in imports_of(path)}
        for name, path in names.items()
    }
    graph = {name: needed - {name, ""} for name, needed in graph.items()}
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as exc:
        pytest.fail(" -> ".join(exc.args[1]))


def _module_of(imported: str, names: Mapping[str, Path]) -> str:
    """Return the module that an import needs; empty for a package's own files."""
    above = imported.rpartition(".")[0]
    found = (imported, f"{imported}.__init__", above, f"{above}.__init__")
    return next((name for name in found if name in names), "")


def test_hgext3rd_is_left_to_mercurial() -> None:
    assert not (ROOT / "hgext3rd" / "__init__.py").exists()


def test_values_are_records() -> None:
    """Others take more instructions: ``docs/decisions/own-parts.rst``."""
    other = re.compile(r"import dataclasses|\bNamedTuple\b|\(enum\.(?!IntEnum)|attr\.s")
    assert [
        name_of(path)
        for path in MODULES
        if path.name != "records.py" and path.parent.name != "perf"
        if other.search(path.read_text())
    ] == []


def test_version_differences_are_tagged_and_in_compat_only() -> None:
    tag = re.compile(r"# hg <= \d+\.\d+ \(.+\)$", re.MULTILINE)
    wrong = []
    for path in MODULES:
        text = path.read_text()
        if "util.version" in text:
            wrong.append(f"{path} asks for hg's version")
        if path.name != "compat.py":
            if tag.search(text):
                wrong.append(f"{path} is not the place for a tag")
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If):
                source = ast.get_source_segment(text, node) or ""
                if not tag.search(source):
                    wrong.append(f"untagged: {source.splitlines()[0]}")
    assert wrong == []


def test_only_the_git_process_module_starts_git() -> None:
    starts = re.compile(r"subprocess\.(?!PIPE|STDOUT|DEVNULL)|os\.(system|exec|spawn)")
    assert [
        name_of(path)
        for path in MODULES
        # benchmarks and the background start processes of hg
        if path.name not in ("process.py", "background.py")
        if path.parent.name != "perf" and starts.search(path.read_text())
    ] == []


#: What shows text to people.
SHOWS = {"warn", "status", "note", "debug", "write", "write_err", "error", "plain"}


def shown_by(path: Path) -> Iterator[ast.expr]:
    """Yield what the module at ``path`` gives to a terminal."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in SHOWS
            and re.search(r"(ui|fm|nested)$", ast.unparse(node.func.value))
        ):
            yield node.args[0]


def test_nothing_reaches_the_terminal_as_others_wrote_it() -> None:
    is_safe = re.compile(r"one_line\(|_\(b['\"][^%]*['\"]\)$|b['\"][^%]*['\"]$")
    assert [
        f"{name_of(path)}: {text}"
        for path in MODULES
        if layer_of(name_of(path)) != "perf"
        for shown in shown_by(path)
        if not is_safe.match(text := ast.unparse(shown))
        and "map(one_line, " not in text
    ] == []


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


#: What is stored on objects that are not ours, and why.
FOREIGN = {
    "repo.__class__": "a subclass of our own, as Mercurial's extensions do it",
    "dirstate.__class__": "the same, for a dirstate that was just made",
    "unpacker.__class__": "the same, for a changegroup that was just made",
    "self.index": "Mercurial's own attribute: index.opening puts a node map before it",
    "bundler._compengine": "Mercurial's own attribute: its compression engine",
    "data_config.mmap_index_threshold": "a setting, before Mercurial uses it",
    "quiet._reportuntrusted": "of a copy of ui that nobody else has",
    "spec.loader": "of a module: how importlib tells that it is loaded",
    "handler.close_connection": "of hg serve: the only way to end a connection there",
    "server._httprequesthandler.do_OPTIONS": "hg serve looks for a method by its name",
    "vars(wrapper)": "_origfunc, as extensions.wrapcommand: Mercurial asks for it",
    "res.status": "the answer of hgweb that is being written",
    "exc.filename": "what an OSError is about",
    "exc.args": "without control characters, before Mercurial shows them",
    "setattr(exc)": "the same",
    "process.returncode": "of a subprocess that os.wait4 has waited for",
    "libc.mmap.restype": "ctypes: the types of a function",
    "libc.mmap.argtypes": "the same",
    "libc.munmap.argtypes": "the same",
    "libc.mincore.argtypes": "the same",
    "op.trmanager": "of a pull operation, as exchange.pull sets it",
    "op.cgresult": "the same: what the caller of exchange.pull asks for",
    "op.bkresult": "of a push operation, the same",
    "self._op.remotebookmarks": "the same, before Mercurial updates bookmarks",
    "fncache.addls": "the same set, in order: Mercurial writes its lines",
    "ui.quiet": "for one call of Mercurial, and then as before",
    "vars(kind)": "only read",
    "vars(pending.pop())": "only read",
}
#: Objects of our own classes, where others than their methods fill them in.
OWN = {
    *("entry", "register", "status", "findings", "self._findings", "switch", "request"),
    *("cell", "table[subject, cache]", "member"),
}


def stored_in(node: ast.AST, own: AbstractSet[str] = frozenset()) -> Iterator[str]:
    """Yield what is stored in attributes: not by a class in itself, nor in ``OWN``."""
    if isinstance(node, ast.ClassDef):
        own = {"self", "cls"}
    if isinstance(node, ast.Attribute):
        whose, is_stored = ast.unparse(node.value), not isinstance(node.ctx, ast.Load)
        if node.attr == "__dict__" or (is_stored and whose not in own | OWN):
            yield ast.unparse(node)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in (
        *("setattr", "delattr", "vars", "object.__setattr__"),
    ):
        whose = ast.unparse(node.args[0]) if node.args else ""
        if whose not in own | OWN:
            yield f"{ast.unparse(node.func)}({whose})"
    for inner in ast.iter_child_nodes(node):
        yield from stored_in(inner, own)


def test_nothing_is_stored_on_objects_that_are_not_ours() -> None:
    """Readers do not find it. A wrapper, or a weak dictionary, has a name."""
    found = {it for path in MODULES for it in stored_in(ast.parse(path.read_text()))}
    assert found == set(FOREIGN)


def test_side_channels_are_found() -> None:
    for text in (
        "repo.amalgam = 1",
        "def f(self): self.amalgam = 1",
        "repo.amalgam, x = 1, 2",
        "del bundle.entry",
        "repo.count += 1",
        "setattr(repo, name, 1)",
        "repo.__dict__['amalgam'] = 1",
        "vars(repo)['amalgam'] = 1",
    ):
        assert list(stored_in(ast.parse(text))), text
