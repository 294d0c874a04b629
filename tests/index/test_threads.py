"""Several threads that are the first to open a repository, as in a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, hg

pytestmark = pytest.mark.slow

#: Loads of Mercurial what is used, so that threads are the first in our modules only.
RUN = """
import sys, threading
import hgdemandimport
hgdemandimport.enable()
from mercurial import extensions, ui as uimod
try:
    from mercurial.repo import factory
except ImportError:  # hg <= 7.1
    from mercurial import hg as factory

path, node = sys.argv[1].encode(), bytes.fromhex(sys.argv[2])
ui = uimod.ui.load()
factory.repository(ui, path).changelog.rev(node)
ui.setconfig(b"extensions", b"amalgam", b"")
ui.setconfig(b"experimental", b"mmapindexthreshold", b"0")
extensions.loadall(ui)
start, found = threading.Barrier(8, timeout=60), []

def ask():
    repo = factory.repository(ui.copy(), path)
    start.wait()
    found.append(repo.changelog.rev(node))

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found == [5] * 8, found
"""

#: The same for ``gitnode()`` and ``{gitnode}``.
ASK = """
import sys, threading
import hgdemandimport
hgdemandimport.enable()
from mercurial import extensions, formatter, templatekw, ui as uimod
try:
    from mercurial import initialization
    from mercurial.repo import factory
    initialization.init()
except ImportError:  # hg <= 7.1
    from mercurial import hg as factory

path, gitnode = (argument.encode() for argument in sys.argv[1:])
ui = uimod.ui.load()
extensions.loadall(ui)

def shown(repo, keyword):
    resources = formatter.templateresources(repo.ui, repo)
    template = formatter.maketemplater(
        repo.ui, keyword, defaults=templatekw.keywords, resources=resources
    )
    return template.renderdefault({b"ctx": repo[b"tip"]})

repo = factory.repository(ui, path)
list(repo.revs(b"heads(all())")), shown(repo, b"{node}")
ui.setconfig(b"extensions", b"amalgam", b"")
extensions.loadall(ui)
start, found = threading.Barrier(8, timeout=60), []

def ask(number):
    repo = factory.repository(ui.copy(), path)
    start.wait()
    if number % 2:
        found.append(shown(repo, b"{gitnode}"))
    else:
        found.append(list(repo.revs(b"gitnode(%s)", gitnode)))

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(found, key=repr) == [[9]] * 4 + [gitnode] * 4, found
"""


def test_no_thread_finds_a_module_half_loaded(tmp_path: Path) -> None:
    hg(tmp_path, "init", "repo")
    repo = tmp_path / "repo"
    hg(repo, "debugbuilddag", "+9")
    node = hg(repo, "log", "-r", "5", "-T", "{node}").decode()
    for _turn in range(5):
        subprocess.run(
            [sys.executable, "-c", RUN, str(repo), node], env=ENVIRONMENT, check=True
        )


def test_no_thread_finds_a_module_of_ids_half_loaded(tmp_path: Path) -> None:
    hg(tmp_path, "init", "repo")
    repo = tmp_path / "repo"
    hg(repo, "debugbuilddag", "+10")
    hg(repo, "git::export")
    gitnode = hg(repo, "log", "-r", "9", "-T", "{gitnode}").decode()
    for _turn in range(3):
        subprocess.run(
            [sys.executable, "-c", ASK, str(repo), gitnode],
            env=ENVIRONMENT,
            check=True,
        )
