"""Names in pages and docstrings: files, folders, modules, and what is in them, exist.

A name in double backquotes is ours, or of Mercurial, git, a library or an example. The
sets below have the names of others, so a name of ours that was moved is found.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import io
import re
import subprocess
import tokenize
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
from testlib.environment import ROOT

from hgext3rd.amalgam.config import ITEMS

#: First folders of paths of Mercurial's sources.
MERCURIAL = {"mercurial", "hgext"}
#: First folders of other paths that are not in this tree.
ELSEWHERE = {
    *("refs", "info", "objects", "origin", "hooks"),  # of a git repository
    *("amalgam", "bundles", "exporter"),  # of a Mercurial repository
    *("build", "work", "dist-info", "a"),  # of a build, or an example
}
#: Files and folders that builds make, or that must not exist.
UNLISTED = {
    *("rust/target", "rust/vendor", "rust/.cargo"),
    *("hgext3rd/__init__.py", "hgext3rd/amalgam/core/_core.abi3.so"),
    "perf.py",  # of Mercurial's contrib
}
#: Words and dotted names that are in no source of ours.
FOREIGN = {
    *("malloc", "memfd", "strace", "zstdmt"),
    *("isal_create_hufftables", "read_ahead_kb"),
    *("changegroup.getbundler", "maintenance.strategy", "uploadpack.blobPackfileUri"),
    *("push.pushOption", "git.similarity", "git.commit", "git.tree"),
    *("git.renamelimit", "git.findcopiesharder"),
}
#: Words of docstrings that the package has in no code.
FOREIGN_IN_DOCSTRINGS = {
    *("HGUSER", "authorized_keys"),  # of ssh
    *("allowunstable", "highlight", "LockUnavailable"),  # of Mercurial
    *("mmap", "major", "read"),  # caches of hg perf
}
#: First words of other dotted names.
OWNERS = {
    *("devel", "experimental", "server", "storage", "trusted", "web"),  # sections of hg
    *("filter", "transfer"),  # sections of git
    *("bundle20", "cgpacker", "hgwebdir", "interfaces", "repo"),  # classes of Mercurial
    "call",  # the parameter of a job
}
#: Endings of files of a repository.
ENDINGS = {"list", "lock", "manifest", "pending"}

PAGES = sorted(
    page
    for pattern in ("*.rst", "docs/**/*.rst", "contrib/**/*.rst")
    for page in ROOT.glob(pattern)
)
#: Pages for contributors: each word in double backquotes is in some source.
INSIDE = [
    page
    for page in PAGES
    if page.parent.name in ("decisions", "formats")
    or page.stem in ("CONTRIBUTING", "architecture", "boundary", "glossary")
    or page.stem in ("security", "upstream")
]


@cache
def tree() -> frozenset[str]:
    """Return the files and folders of this tree, from its root."""
    command = ["git", "-C", str(ROOT), "ls-files"]
    listed = subprocess.run(command, check=False, capture_output=True, text=True)
    files = [Path(line) for line in listed.stdout.splitlines()]
    if not files:
        pytest.skip("a source archive has no list of its files")
    return frozenset(str(it) for file in files for it in (file, *file.parents))


@cache
def words(folder: str = "") -> frozenset[str]:
    """Return the words of sources below ``folder``, and the parts of their paths."""
    found: set[str] = set()
    for name in tree():
        if name.startswith(folder) and not Path(__file__).samefile(ROOT / name):
            found.update(re.split("[/.]", name))
            if name.endswith((".py", ".rs", ".toml", ".lock", ".h", ".sh", ".t")):
                found.update(re.findall(r"\w+", (ROOT / name).read_text()))
    return frozenset(found)


@cache
def definitions() -> dict[str, set[str]]:
    """Return the names that Python modules define, by module and by room."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "hgext3rd/amalgam").rglob("*.py"):
        names = {path.stem}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
        for module in (path.stem, path.parent.name):
            found.setdefault(module, set()).update(names)
    return found


def exists(path: str) -> bool:
    """Return whether ``path`` ends the path of a file, a folder or a module."""
    path = path.rstrip("/")
    return any(
        fnmatch(f"/{name}", f"*/{ending}")
        for name in tree()
        for ending in (path, f"{path}.py", f"{path}.rs")
    )


def literals(text: str) -> set[str]:
    """Return what stands in double backquotes, up to its first blank."""
    return {it.split()[0] for it in re.findall(r"``(.+?)``", text, re.DOTALL)}


def missing_paths(text: str) -> Iterator[str]:
    """Yield paths that are written like those of this tree, and are not in it."""
    tops = "|".join({name.split("/")[0] for name in tree() if "/" in name})
    rooted = set(re.findall(rf"(?<![\w/.-])(?:{tops})/[\w./*-]*\w", text))
    for path in rooted | {it.partition("::")[0] for it in literals(text)}:
        first = path.split("/")[0]
        if re.fullmatch(r"[\w./*-]+\.(py|rs)", path):
            is_ours = first not in MERCURIAL
        elif re.fullmatch(r"[a-z][\w-]*(/[a-z][\w*-]*)+/?", path):
            is_ours = first not in ELSEWHERE
        else:
            is_ours = path in rooted
        is_example = re.search("[A-Z]{4}", path)
        if is_ours and not is_example and path not in UNLISTED and not exists(path):
            yield path


def missing_names(text: str) -> Iterator[str]:
    """Yield words, dotted names and names of crates that no source has."""
    for name in literals(text) - FOREIGN:
        parts = re.findall(r"\w+", name)
        if re.fullmatch(r"[a-z][a-z_\d]+", name):
            is_known = name in words()
        elif item := re.match(r"amalgam\.([a-z.-]+)(=|$)", name):
            is_known = item[1].encode() in {it.name for it in ITEMS}
        elif re.fullmatch(r"[a-z]\w+\.[A-Za-z_][\w.]*(\(\))?", name):
            is_known = parts[-1] in ENDINGS or exists(name) or is_defined(*parts[:2])
        elif re.fullmatch(r"[a-z]\w+(::\w+)+(\(\))?", name):
            is_crate = (ROOT / "rust" / parts[0]).exists()
            is_known = words(f"rust/{parts[0]}" if is_crate else "").issuperset(parts)
        else:
            continue
        if not is_known:
            yield name
    kind = r"(?:module|room|crate)s?"
    for found in re.finditer(rf"\b{kind}\W+``(\w+)``|``(\w+)``\W+{kind}\b", text):
        name = found[1] or found[2]
        if not exists(name) and name not in words("rust/Cargo.lock"):
            yield name


def is_defined(first: str, second: str) -> bool:
    """Return whether a module ``first``, of ours or of others, has ``second``."""
    if first in definitions():
        return second in definitions()[first]
    others = (first, f"mercurial.{first}", f"hgext.{first}")
    return first in OWNERS or any(map(importlib.util.find_spec, others))


@cache
def code() -> tuple[dict[Path, str], frozenset[str]]:
    """Return docstrings and comments by module, and the words of all else."""
    notes: dict[Path, str] = {}
    found = {*dir(builtins), *re.findall(r"\w+", " ".join(tree()))}
    for path in (ROOT / "hgext3rd/amalgam").rglob("*.py"):
        text = path.read_text()
        lines = {
            node.lineno
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or token.start[0] in lines:
                notes[path] = notes.get(path, "") + token.string
            else:
                found.update(re.findall(r"\w+", token.string))
    return notes, frozenset(found)


def places(page: Path, names: Iterable[str]) -> list[str]:
    return [f"{page.relative_to(ROOT)}: {name}" for name in sorted(set(names))]


def test_paths_exist() -> None:
    assert [
        place
        for page in PAGES
        for place in places(page, missing_paths(page.read_text()))
    ] == []


def test_names_are_in_a_source() -> None:
    assert [
        place
        for page in INSIDE
        for place in places(page, missing_names(page.read_text()))
    ] == []


def test_rooms_have_what_the_architecture_names() -> None:
    page = (ROOT / "docs/architecture.rst").read_text()
    rooms = page.partition("Rooms in Python\n===")[2].partition("Beside the product")[0]
    for room, text in re.findall(r"^``(\w+)``\n((?:    .*\n)+)", rooms, re.MULTILINE):
        folders = ("hgext3rd/amalgam/" + room, f"rust/{room}/src")
        for name in re.findall("``([a-z_]+)``", text):
            assert any(exists(f"{folder}/{name}") for folder in folders), name


def test_words_of_docstrings_are_in_code() -> None:
    notes, known = code()
    assert [
        place
        for path, text in notes.items()
        for place in places(path, re.findall(r"``([A-Za-z_]\w+)(?:\(\))?``", text))
        if place.split()[1] not in known | FOREIGN_IN_DOCSTRINGS
    ] == []


def test_rooms_have_the_modules_that_their_docstrings_name() -> None:
    wrong = []
    for path in (ROOT / "hgext3rd/amalgam").glob("*/**/__init__.py"):
        module = ast.parse(path.read_text())
        named = re.findall("``([a-z_]+)``", ast.get_docstring(module) or "")
        own = {it.stem for it in path.parent.iterdir()} | FOREIGN_IN_DOCSTRINGS
        own |= {it.name for it in module.body if isinstance(it, ast.FunctionDef)}
        wrong += [f"{path.parent.name}: {name}" for name in named if name not in own]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        "``commands/git``",
        "``push/refs/branchtips.py``",
        "``rust/hg2git/src/gone.rs::a_test``",
        "::\n\n    contrib/gone/\n",
        "``bundles/lifecycle/window.py``",
        "``gone.py``",
    ],
)
def test_path_that_was_moved_is_found(text: str) -> None:
    assert list(missing_paths(text))


@pytest.mark.parametrize(
    "text",
    [
        "One module, ``scratches``,",
        "the room ``departure``",
        "``gitlocks`` makes",
        "``records.Recording``",
        "``gone.function``",
        "``parallel::gonepool``",
        "``gone_crate::revlog``",
    ],
)
def test_name_that_was_moved_is_found(text: str) -> None:
    assert list(missing_names(text))
