"""What the documents say is what is there: items, defaults, links and lengths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import docutils.core
import pytest
from mercurial import extensions, ui as uimod
from testlib.environment import ROOT

from hgext3rd.amalgam import configitems


def is_for_sphinx(page: Path) -> bool:
    """Tell whether only ``make docs`` can read the page."""
    text = page.read_text()
    return ".. toctree::" in text or ".. amalgam-commands::" in text


README = ROOT / "README.rst"
CONFIGURATION = ROOT / "docs" / "configuration.rst"
HELP = ROOT / "hgext3rd" / "amalgam" / "__init__.py"
PAGES = sorted(
    page
    for page in (
        *ROOT.glob("*.rst"),
        *ROOT.glob("docs/**/*.rst"),
        *ROOT.glob("contrib/**/*.rst"),
    )
    if not is_for_sphinx(page)
)
ITEMS = {
    f"{section.decode()}.{name.decode()}": (section, name)
    for section, names in configitems.configtable.items()
    for name in names
}
ROW = re.compile(r"^   \* - (.*(?:\n     - .*|\n       .*)*)", re.MULTILINE)
#: What no item takes.
NONSENSE = b"nothing-like-it"


def rows() -> Iterator[list[str]]:
    """Yield the rows of the tables: item, default, value, meaning."""
    for row in ROW.findall(CONFIGURATION.read_text()):
        cells = [" ".join(cell.split()) for cell in row.split("\n     - ")]
        if cells[0] != "item":
            assert len(cells) == 4, cells
            yield cells


EXPLAINED = {cells[0].strip("`"): cells for cells in rows()}


def test_every_config_item_is_explained_and_no_other() -> None:
    assert EXPLAINED.keys() == ITEMS.keys()
    help_text = ast.get_docstring(ast.parse(HELP.read_text()))
    assert help_text
    for _section, name in ITEMS.values():
        assert f"\n  {name.decode()} =" in help_text


@pytest.mark.parametrize("item", ITEMS)
def test_default_is_the_one_that_is_explained(item: str) -> None:
    section, name = ITEMS[item]
    default = configitems.configtable[section][name].default
    if callable(default):
        default = default()
    if isinstance(default, list):
        default = b", ".join(default)
    if isinstance(default, bytes):
        default = default.decode()
    shown = {"": "none", "None": "unset", "True": "yes", "False": "no"}
    assert EXPLAINED[item][1] == shown.get(str(default), f"``{default}``")


@pytest.mark.parametrize("item", ITEMS)
def test_value_is_the_one_that_messages_ask_for(item: str) -> None:
    section, name = ITEMS[item]
    ui = uimod.ui.load()
    ui.setconfig(b"extensions", b"amalgam", b"")
    extensions.loadall(ui)
    ui.setconfig(section, name, b"" if item.endswith(".program") else NONSENSE)
    found = [mistake.message.decode() for mistake in configitems.mistakes(ui)]
    value = EXPLAINED[item][2]
    if value in ("a path", "a text"):
        assert not found
    else:
        assert [text.partition(item)[2] for text in found] == [f" (expected {value})"]


def test_readme_is_short_and_begins_with_what_to_type() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    screen = "\n".join(lines[:40])
    for command in ("make demo", "make test", "hg git::export", "git clone "):
        assert f"\n    {command}" in screen


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"<([^<>\s:]+)>`__?", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_is_valid(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {
        "report_level": 2,
        "file_insertion_enabled": False,
        "raw_enabled": False,
    }
    text = page.read_text()
    docutils.core.publish_doctree(text, str(page), settings_overrides=settings)
    assert capsys.readouterr().err == ""


ARCHITECTURE = (ROOT / "docs" / "architecture.rst").read_text()


def test_architecture_names_files_that_exist() -> None:
    named = re.findall(r"``((?:hgext3rd|rust|tests|contrib)/[^`]*)``", ARCHITECTURE)
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).exists(), path


def test_architecture_has_the_tree_as_it_is() -> None:
    tree = ARCHITECTURE.partition("Layers\n======")[2].partition("In Python")[0]
    above: list[tuple[int, Path]] = [(-1, ROOT)]
    shown = 0
    for line in tree.splitlines():
        entry = re.match(r"    ( *)([\w./]+(?:/|\.py))(?:  |$)", line)
        if not entry:
            continue
        depth = len(entry[1])
        above = [step for step in above if step[0] < depth]
        path = above[-1][1] / entry[2]
        if not path.exists():
            path = above[-1][1] / "src" / entry[2]  # of a crate
        assert path.exists(), path
        above.append((depth, path))
        shown += 1
    assert shown > 30
    package = ROOT / "hgext3rd" / "amalgam"
    for path in package.iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            assert f"{path.name}" in tree, path
    for path in (ROOT / "rust").glob("*/Cargo.toml"):
        if path.parent.name not in ("fuzz", "fuzztargets"):
            assert f"{path.parent.name}/" in tree, path


def test_glossary_names_types_that_exist() -> None:
    text = (ROOT / "docs" / "glossary.rst").read_text()
    table = text.partition("Types that share a noun")[2].partition("Words with two")[0]
    sources = "".join(path.read_text() for path in ROOT.glob("rust/*/src/**/*.rs"))
    sources += "".join(path.read_text() for path in ROOT.glob("hgext3rd/**/*.py"))
    named = re.findall(r"``([A-Z]\w+)``", table)
    assert named
    for name in named:
        assert re.search(rf"\b(struct|enum|trait|type|class) {name}\b", sources), name
