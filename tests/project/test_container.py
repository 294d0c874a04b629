"""Scripts of contrib/container: steps, settings, and what they take from pages."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import inroot
import newcomer
import pytest
from page import blocks
from testlib.environment import ROOT

FILES = ROOT / "contrib" / "container" / "files"
PAGE = [*blocks((ROOT / "docs" / "serving-git.rst").read_text())]
STEPS = [*inroot.instructions(inroot.CONTAINERFILE.read_text())]


def on_page(name: str) -> str:
    """Return a file of docs/serving-git.rst."""
    (found,) = (block for block in PAGE if block[0] == f"# {name}")
    return "\n".join(found[1:])


def test_each_step_is_taken_in_a_root() -> None:
    names = [name for name, _rest in STEPS]
    assert names[0] == "FROM"
    assert names[-1] == "CMD"
    assert set(names) == {"FROM", "RUN", "COPY", "CMD", *inroot.DECLARATIONS}


def test_step_that_is_not_known_ends_the_script(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="unknown instruction: USER"):
        inroot.take(tmp_path, "USER", "hg")


def test_root_of_another_debian_is_refused(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text("VERSION_CODENAME=bookworm\n")
    with pytest.raises(SystemExit, match="is not the Debian of"):
        inroot.take(tmp_path, *STEPS[0])


def test_files_are_copied_as_they_are(tmp_path: Path) -> None:
    (copied,) = (rest for name, rest in STEPS if name == "COPY" and "files" in rest)
    inroot.take(tmp_path, "COPY", copied)
    script = tmp_path / "usr/local/bin/serve-hg"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_gunicorn_has_the_numbers_of_the_page() -> None:
    def settings(text: str) -> dict[str, object]:
        lines = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
        return {ast.unparse(it.targets[0]): ast.literal_eval(it.value) for it in lines}

    own = settings((FILES / "etc/hg/gunicorn.conf.py").read_text())
    assert own == settings(on_page("/srv/hg/gunicorn.conf.py")) | {"chdir": "/etc/hg"}


def test_nginx_has_the_limits_of_the_page() -> None:
    own = (FILES / "etc/nginx/conf.d/hg.conf").read_text()
    page = on_page("/etc/nginx/conf.d/git.conf")
    for name in ("limit_conn", "client_max_body_size", "proxy_read_timeout", "return"):
        found = re.findall(rf"(?m)^ *{name} .*;$", own)
        assert found
        assert found == re.findall(rf"(?m)^ *{name} .*;$", page)


def test_newcomer_types_what_the_pages_have() -> None:
    packages, pip = newcomer.installing()
    assert "python3-cffi" in packages
    assert newcomer.WHEELS in pip
    needs, *trial = newcomer.section("docs/hosting.rst", "What you need")
    assert needs.startswith("apt install nginx")
    assert trial[-1] == "update-ca-certificates"
    assert newcomer.trial() == trial
    tutorial = newcomer.section("docs/tutorial.rst")
    assert tutorial[0] == "hg init project"
    (file, _later) = (line for line in tutorial if line.endswith(" > .hg/hgrc"))
    assert "'[extensions]\namalgam ='" in file
    assert "$ " not in "".join(line[:2] for line in tutorial)
