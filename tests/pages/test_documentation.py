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


#: An item of hg-git that the package reads.
OF_HGGIT = re.compile(r'setting\(\S+ b"(git|hggit|experimental)", b"([^"]+)"\)')


def test_items_of_hggit_are_in_its_page_and_read() -> None:
    page = (ROOT / "docs" / "from-hg-git.rst").read_text()
    rows = re.findall(r"\n   \* - (.*)\n     - (.*)", page)
    listed = {
        item: answer
        for items, answer in rows
        for item in re.findall("``((?:git|hggit|experimental)\\.[^`]+)``", items)
    }
    read = {
        f"{section}.{name}"
        for path in (ROOT / "hgext3rd").rglob("*.py")
        for section, name in OF_HGGIT.findall(path.read_text())
    }
    read |= {"git.similarity", "git.renamelimit"}  # by one function
    the_same = {
        item for item, answer in listed.items() if answer.startswith("The same")
    }
    assert read == the_same


def test_readme_is_short_and_begins_with_what_to_type() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    screen = "\n".join(lines[:40])
    for command in ("hg serve ", "git clone ", "make demo"):
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


def test_architecture_has_every_room() -> None:
    rooms = ARCHITECTURE.partition("Rooms in Python\n=====")[2]
    named = set(re.findall(r"``([\w.]+)``", rooms))
    package = ROOT / "hgext3rd" / "amalgam"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.name for path in package.glob("*.py")} - {"__init__.py"}
    crates = {path.parent.name for path in (ROOT / "rust").glob("*/Cargo.toml")}
    assert not (folders | modules | crates) - named


def test_glossary_has_few_words_of_ours() -> None:
    text = (ROOT / "docs" / "glossary.rst").read_text()
    words = re.findall(r"^- \*\*", text.partition("amalgam's words")[2], re.MULTILINE)
    assert 20 < len(words) <= 30
