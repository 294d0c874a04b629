"""The table of wraps, against the Mercurial of this environment.

Give a checkout of another one, built in place, as ``HGDEFAULT``.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys

import pytest
from testlib.environment import ENVIRONMENT, ROOT

from hgext3rd.amalgam import hooks

#: Target with its module, replacement, and versions if not all.
WRAPS = [
    (
        target
        if target.startswith("mercurial.")
        else f"{module}{'.' if ':' in module else ':'}{target}",
        by,
        *versions,
    )
    for wraps in (hooks.WRAPS, hooks.WRAPS_AFTER_EXTENSIONS, hooks.WRAPS_FOR_REMOTES)
    for module, rows in wraps.items()
    for target, by, _why, *versions in rows
]
#: Targets and their signatures in Mercurial 6.9 to 7.2, without annotations.
RECORDED = (ROOT / "tests" / "vectors" / "wrapped.txt").read_text()
#: Prints the signatures of targets, in a process that has not loaded amalgam.
PRINT = """
import importlib, inspect, json, re, sys
sys.path.insert(0, sys.argv[1])
from hgext3rd.amalgam.hooks import resolved
found = {}
for target in sys.argv[2:]:
    name, _colon, path = target.partition(":")
    try:
        container, last = resolved(importlib.import_module(name), path)
        is_table = isinstance(container, dict)
        function = container[last][0] if is_table else getattr(container, last)
    except (AttributeError, ImportError, KeyError):
        found[target] = None
        continue
    signature = re.sub(" -> .*$", "", str(inspect.signature(function)))
    found[target] = re.sub(r": '[^']*'", "", signature).replace(" = ", "=")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, str | None]:
    """Signatures of all targets in the Mercurial that is tested."""
    environment = dict(ENVIRONMENT)
    if checkout := os.environ.get("HGDEFAULT"):
        environment["PYTHONPATH"] = checkout
    command = [sys.executable, "-c", PRINT, str(ROOT), *{wrap[0] for wrap in WRAPS}]
    done = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    )
    signatures: dict[str, str | None] = json.loads(done.stdout)
    return signatures


def test_wrapped_attributes_have_the_recorded_signatures(
    found: dict[str, str | None],
) -> None:
    wrong = {
        target: found[target]
        for target, _by, *versions in WRAPS
        if not (found[target] is None and versions)
        and f"{target} {found[target]}\n" not in RECORDED
    }
    assert wrong == {}


def test_one_of_the_attributes_of_some_versions_exists(
    found: dict[str, str | None],
) -> None:
    of_some = {by for _target, by, *versions in WRAPS if versions}
    there = {by for target, by, *versions in WRAPS if versions and found[target]}
    assert there == of_some


def test_all_is_wrapped_in_the_modules_that_a_server_loads() -> None:
    script = """
import sys
sys.path.insert(0, sys.argv[1])
import hgdemandimport
hgdemandimport.enable()
from mercurial import extensions, hgweb, ui as uimod
from hgext3rd.amalgam import loading
loading.HAS_RACE = False  # or all lazy modules are loaded
ui = uimod.ui.load()
ui.setconfig(b"extensions", b"amalgam", b"")
extensions.loadall(ui)
from mercurial import hg, wireprotoserver, wireprotov1server
for container, name in (
    (hgweb.hgwebdir_mod.hgwebdir, "_runwsgi"),
    (hgweb.hgwebdir_mod.hgweb_mod.requestcontext, "sendtemplate"),
    (wireprotoserver, "handlewsgirequest"),
    (wireprotov1server, "_capabilities"),
):
    assert hasattr(getattr(container, name), "_unboundwrapper"), name
assert ("sharedpath", b"amalgam/map/cinnabar.docket") in hg.foi
"""
    command = [sys.executable, "-c", script, str(ROOT)]
    subprocess.run(command, env=ENVIRONMENT, check=True)


def test_replacements_exist() -> None:
    for _target, by, *_versions in WRAPS:
        module, _colon, name = by.partition(":")
        function = getattr(importlib.import_module(f"hgext3rd.amalgam.{module}"), name)
        assert inspect.getdoc(function), by


def test_wraps_are_few() -> None:
    # an attribute with two places in two versions is one wrap
    of_remotes = {row[1] for rows in hooks.WRAPS_FOR_REMOTES.values() for row in rows}
    assert len({by for _target, by, *_versions in WRAPS} - of_remotes) <= 42
    assert len(of_remotes) <= 13


def test_nothing_is_wrapped_elsewhere() -> None:
    package = ROOT / "hgext3rd" / "amalgam"
    wrapping = re.compile(r"\bwrap(?:function|command|repo)\(|\.func = ")
    places = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if wrapping.search(path.read_text())
    ]
    assert places == ["hooks.py"]
