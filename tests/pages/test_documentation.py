"""What the documents say is what is there: items, defaults, links and lengths."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import docutils.core
import pytest
from testlib.environment import ROOT

from hgext3rd.amalgam.config import ITEMS


def is_for_sphinx(page: Path) -> bool:
    """Tell whether only ``make docs`` can read the page."""
    text = page.read_text()
    return ".. toctree::" in text or ".. amalgam-commands::" in text


README = ROOT / "README.rst"
CONFIGURATION = ROOT / "docs" / "configuration.rst"
PAGES = sorted(
    page
    for page in (
        *ROOT.glob("*.rst"),
        *ROOT.glob("docs/**/*.rst"),
        *ROOT.glob("contrib/**/*.rst"),
    )
    if not is_for_sphinx(page)
)


def test_configuration_page_has_the_items_of_the_package(tmp_path: Path) -> None:
    page = CONFIGURATION.read_text()
    copy = tmp_path / "configuration.rst"
    copy.write_text(page)
    command = [sys.executable, str(ROOT / "contrib" / "configpage.py"), str(copy)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert copy.read_text() == page, "run 'make config-page'"
    for item in ITEMS:
        assert f"* - ``{item.section.decode()}.{item.name.decode()}``" in page


def test_readme_is_short_and_begins_with_what_to_type() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    screen = "\n".join(lines[:40])
    for command in ("make demo", "make test", "hg git::export", "git clone "):
        assert f"\n    {command}" in screen


def test_links_lead_to_files() -> None:
    assert [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"<([^<>\s:]+)>`__?", page.read_text())
        if not (page.parent / target).exists()
    ] == []


def test_pages_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {
        "report_level": 2,
        "file_insertion_enabled": False,
        "raw_enabled": False,
    }
    for page in PAGES:
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
