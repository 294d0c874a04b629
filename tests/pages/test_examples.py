"""Commands on the pages and in the help: each is run, or there is a reason why not."""

from __future__ import annotations

import collections
import functools
import grp
import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from page import blocks, ended, free_port
from testlib.bundled import Bundled
from testlib.environment import ENVIRONMENT, HG, ROOT, add_config
from testlib.hgserver import HgServer

#: Pages that somebody follows from the first literal block to the last.
FOLLOWED = {
    "docs/adopting.rst": "contrib/hosting/migration.py",
    "docs/bundle-files.rst": "tests/pages/test_tutorial.py",
    "docs/hosting.rst": "contrib/hosting/bundlehosting.py",
    "docs/public-servers.rst": "contrib/hosting/publicserver.py",
    "docs/serving-git.rst": "contrib/hosting/gitservers.py",
    "docs/tutorial.rst": "tests/pages/test_tutorial.py",
}
#: Blocks that nobody runs, by page and first line.
NOT_RUN = {
    ("README.rst", "make demo"): "test_tests_and_targets_that_pages_name_exist",
    ("CONTRIBUTING.rst", "make"): "test_tests_and_targets_that_pages_name_exist",
    ("CONTRIBUTING.rst", "make oracle"): "test_tests_and_targets_that_pages_name_exist",
    (
        "contrib/perf/README.rst",
        "cd contrib/perf",
    ): "minutes; tests/perf has each",
    ("contrib/perf/README.rst", "bench keep"): "minutes; tests/perf has each",
    ("docs/decisions/compression.rst", "hg git::export"): "on repositories of hours",
    ("docs/decisions/git-push.rst", "cd contrib/perf"): "minutes, with 100,000 commits",
    ("docs/git-view.rst", "core.protectNTFS"): "gitstore/test_refusednames.py",
    ("docs/hosting.rst", "apt install"): "contrib/container/newcomer.py",
    ("docs/hosting.rst", "git config lfs.url"): "serve/test_lfs.py, with git-lfs",
    ("docs/hosting.rst", "git lfs install"): "serve/test_lfs.py, with git-lfs",
    ("docs/installing.rst", "python3 -m venv"): "tests/pages/test_newcomer.py",
    ("docs/serving-git.rst", "apt install"): "contrib/container/newcomer.py",
    ("docs/git-remotes.rst", "hg clone"): "tests/gitpeer, on a host of its own",
    ("docs/git-remotes.rst", "hg push"): "tests/gitpeer, on a host of its own",
    ("docs/following.rst", "hg"): "gitpeer/test_follow.py, on a host of its own",
    ("docs/mirroring.rst", "git ls-remote"): "needs a host with ssh",
    ("docs/mirroring.rst", "hg git::push"): "tests/remote, on a host of its own",
    ("docs/mirroring.rst", "ssh-keygen"): "needs a host with ssh",
    ("docs/mirroring.rst", "git config --global"): "tests/remote, with a password",
    ("docs/mirroring.rst", "git lfs"): "needs a host with git-lfs",
    ("docs/mirroring.rst", "git -C /srv"): "git's own commands",
    ("docs/operations.rst", "cd /srv/hg"): "pages/test_operations.py, both",
    ("docs/serving-git.rst", "podman"): "no builder; contrib/container/inroot.py",
    ("docs/operations.rst", "install -m 644"): "needs a system that systemd runs",
    ("docs/releasing.rst", "debootstrap"): "minutes; contrib/wheel needs its result",
    (
        "docs/releasing.rst",
        "make wheel",
    ): "test_tests_and_targets_that_pages_name_exist",
}
#: What a command on a page may begin with, where it has no prompt.
PROGRAM = re.compile(
    r"(?:hg|git|make|pip|cd|chgrp|chmod|find|debootstrap|bench|python3)\b"
)
BLOCK = re.compile(
    r"(?m)^ *(?:(?!\.\.).*::|\.\. code-block:: \w+)\n\n((?: {3,}.*\n|\n)+)"
)
PAGES = sorted(
    str(page.relative_to(ROOT))
    for pattern in ("*.rst", "docs/**/*.rst", "contrib/**/*.rst")
    for page in ROOT.glob(pattern)
)
#: Blocks that tests of this module take: page, and words of the first line.
HERE = [
    ("README.rst", "hg serve"),
    ("README.rst", "hg clone git+https"),
    ("README.rst", "hg admin::amalgam"),
    ("contrib/perf/README.rst", "generate.py"),
    ("contrib/perf/README.rst", "perf::amalgam-"),
    ("docs/git-view.rst", "git::push"),
    ("docs/hosting.rst", "--data"),
    ("docs/hosting.rst", "amalgam/id/"),
    ("docs/operations.rst", "--estimate"),
    ("docs/operations.rst", "--metrics"),
    ("docs/operations.rst", "generate.py"),
    ("docs/performance.rst", "perf::amalgam-"),
    ("docs/pushing.rst", "git clone"),
    ("docs/shared-servers.rst", "chgrp"),
    ("docs/shared-servers.rst", "git config --global"),
    ("docs/survey.rst", "hg git::survey"),
]
#: The printed survey: so many commits, of which these are signed, with descendants.
SURVEYED, SIGNED = 30, {"main": 2, "other": 3}


def examples(module: str) -> list[str]:
    """Return what the help of the commands in a module begins with."""
    return sorted(
        re.sub(r" {2,}#.*", "", line.strip())
        for found in re.finditer(
            r"(?m)^ *Examples::\n\n((?: {6}.*\n)+)",
            (ROOT / "hgext3rd" / "amalgam" / module).read_text(),
        )
        for line in found[1].splitlines()
    )


class Place:
    """A directory in which the commands of a page are typed; what they print."""

    def __init__(self, root: Path, server: HgServer) -> None:
        self.root = root
        (root / "srv" / "hg").mkdir(parents=True)
        self.project = Bundled.init(root / "srv/hg/project", server, git=(), hg=())
        self.project.hg("tag", "1.0", "-d", "9 0")
        self.project.hg("git::export")
        (root / "hgrc").write_text(
            "[extensions]\namalgam =\n[perf]\nrun-limits = 0.01-1\n"
        )
        self.environment = ENVIRONMENT | {
            "PATH": f"{HG.parent}:{os.environ['PATH']}",
            "HOME": str(root),
            "HGRCPATH": str(root / "hgrc"),
            "GIT_CONFIG_GLOBAL": str(root / "gitconfig"),
        }

    def run(self, command: str, cwd: Path | None = None, code: int = 0) -> str:
        """Run a command of a page, with the directories of this place."""
        command = re.sub(r"(?<![\w.])/(srv|etc)/", rf"{self.root}/\1/", command)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=cwd or self.project.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def place(tmp_path: Path, server: HgServer) -> Place:
    return Place(tmp_path, server)


def test_every_block_is_run_or_has_a_reason() -> None:
    unused = {*NOT_RUN}
    for page in PAGES:
        followed = [*blocks((ROOT / page).read_text())] if page in FOLLOWED else []
        for block in command_blocks(page):
            if block in followed:
                continue
            first = typed(block)[0]
            reasons = {key for key in NOT_RUN if page == key[0] and key[1] in first}
            unused -= reasons
            assert reasons or is_run_here(page, first), (page, first)
    assert not unused
    for script in FOLLOWED.values():
        assert (ROOT / script).exists()


def test_tests_and_targets_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set()
    for page in PAGES:
        text = (ROOT / page).read_text()
        named |= set(re.findall(r"``make (?:\w+=\S+ )*([a-z][\w-]*)", text))
        for block in command_blocks(page):
            for command in typed(block):
                named |= set(re.findall(r"^make (?:\w+=\S+ )*([a-z][\w-]*)", command))
        for script in re.findall(r"``((?:contrib|tests)/[a-z\d_/]+\.(?:py|t))\b", text):
            assert (ROOT / script).exists(), (page, script)
    assert len(named) > 20
    for target in named:
        pattern = target.replace("test-hg-rust", "test-hg-%").partition("test-hg-")
        wanted = "test-hg-%" if pattern[1] else target
        assert re.search(rf"(?m)^(?:[\w %-]* )?{wanted}(?: [\w -]*)?:", makefile), (
            target
        )


@pytest.mark.slow
def test_readme_shows_what_works(place: Place) -> None:
    first, serve, push, bundles, maintenance = (
        block_of("README.rst", *start)
        for start in (
            ("# .hg/hgrc", "git.serve"),
            ("hg serve",),
            ("# .hg/hgrc", "git.push"),
            ("[extensions]", "git.formats"),
            ("hg admin::amalgam",),
        )
    )
    for block in (first, push):
        add_config(place.project.root, "\n".join(block) + "\n")
    port, pid_file = str(free_port()), place.project.root.parent / "hg.pid"
    with ended(pid_file):
        for command in typed(serve):
            place.run(command.replace("8000", port))
        clone = place.project.root.parent / "my-clone"
        place.run("git commit -q --allow-empty -m pushed && git push -q", clone)
    assert place.run("hg log -r tip -T '{desc}'") == "pushed"
    add_config(place.project.root, "\n".join(bundles) + "\n")
    said = place.run("hg admin::clone-bundles-refresh")
    assert place.run("hg admin::amalgam -T '{bundles % \"{type} \"}'"), said
    node = place.run("hg log -r . -T '{node}'")
    gitnode = place.run("hg log -r . -T '{gitnode}'")
    for command in typed(maintenance):
        side = gitnode if "gitnode(" in command else node
        assert place.run(re.sub(r"\bID\b", side, command)), command


@pytest.mark.slow
def test_mercurial_users_work_with_a_git_host(place: Place) -> None:
    host, clone = place.root / "hosted" / "project", place.root / "project"
    place.run(f"git init -q --bare -b main {host}")
    place.run(f"git push -q {host} HEAD:main", made_by_git(place))
    get, pull, push = typed(block_of("README.rst", "hg clone git+https"))
    url = f"git+file://{host}"
    place.run(get.replace("git+https://git.example.org/project", url), place.root)
    place.run(pull, place.root)
    place.run("hg commit -q --config ui.allowemptycommit=yes -m theirs", clone)
    place.run(push, place.root)
    pushed = place.run("git rev-parse main", host).strip()
    assert place.run("hg log -r . -T '{gitnode} {desc}'", clone) == f"{pushed} theirs"


@pytest.mark.slow
def test_git_host_gets_what_is_exported(place: Place) -> None:
    host = place.root / "host.git"
    place.run(f"git init -q --bare {host}")
    for command in typed(block_of("docs/git-view.rst", "git::push")):
        place.run(command.replace("git@git.example.org:project.git", str(host)))
    listing = "git for-each-ref refs/heads refs/tags"
    store = place.project.dot_hg / "amalgam" / "git" / "cinnabar.git"
    assert place.run(listing, host) == place.run(listing, store) != ""


@pytest.mark.slow
def test_git_store_follows_a_group(place: Place) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    for command in typed(block_of("docs/shared-servers.rst", "chgrp")):
        place.run(command.replace("developers", group))
    place.project.commit("more")
    place.run("hg git::export")
    store = place.project.root / ".hg" / "amalgam" / "git" / "cinnabar.git"
    assert place.run(f"git -C {store} config core.sharedRepository").strip()
    assert (store / "objects").stat().st_mode & 0o2070 == 0o2070
    for command in typed(block_of("docs/shared-servers.rst", "git config --global")):
        place.run(command)


@pytest.mark.slow
def test_survey_answers_as_it_is_printed(place: Place, tmp_path: Path) -> None:
    make_surveyed(tmp_path / "project", place)
    command, *expected = block_of("docs/survey.rst", "hg git::survey")
    here = tmp_path / "elsewhere"
    here.mkdir()
    said = place.run(command.removeprefix("$ "), here, code=1)
    hidden = functools.partial(re.sub, r"\b[0-9a-f]{40}\b", "ID")
    assert hidden(said).splitlines() == [hidden(line) for line in expected]


@pytest.mark.slow
def test_commits_are_pushed_as_the_pages_have_it(place: Place) -> None:
    settings = block_of("docs/taking-pushes.rst", "[amalgam]")
    add_config(place.project.root, "\n".join(settings) + "\n")
    clone, _into, commit, push = typed(block_of("docs/pushing.rst", "git clone"))
    with place.project.served() as served:
        url = served.url.rstrip("/")
        address = "https://hg.example.org/project"
        place.run(clone.replace(address, url) + " project", place.root)
        developer = place.root / "project"
        (developer / "file0").write_text("mended")
        place.run(commit, developer)
        place.run(push, developer)
    pushed = place.run("git rev-parse HEAD", developer).strip()
    said = place.run("hg log -r tip -T '{gitnode} {desc}'")
    assert said == f"{pushed} fix the parser"


@pytest.mark.slow
def test_operators_see_what_the_page_has(place: Place) -> None:
    for first in ("--estimate", "--metrics"):
        for command in typed(block_of("docs/operations.rst", first)):
            assert place.run(command)
    made, measured = typed(block_of("docs/operations.rst", "generate.py"))
    place.run(made.replace("100000", "100").replace("contrib/", f"'{ROOT}'/contrib/"))
    assert "100 changesets" in place.run(measured)
    with (place.root / "hgrc").open("a") as hgrc:
        for first in ("# /etc/mercurial/hgrc", "# ~/.hgrc"):
            hgrc.write("\n".join(block_of("docs/operations.rst", first)) + "\n")
    place.project.commit("logged")
    place.run("hg git::export")
    log = (place.project.root / ".hg" / "blackbox.log").read_text()
    assert "exported 1 changesets" in log


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.needs("maps")
@pytest.mark.parametrize("page", ["docs/performance.rst", "contrib/perf/README.rst"])
def test_measuring_your_own_repository_needs_no_more(place: Place, page: str) -> None:
    for command in typed(block_of(page, "perf::amalgam-")):
        assert "!" in place.run(command) or "ms" in place.run(command), command


@pytest.mark.slow
def test_generated_repositories_are_as_asked_for(place: Place) -> None:
    for command in typed(block_of("contrib/perf/README.rst", "generate.py")):
        small = re.sub(r"\b\d{4,}\b", "200", command).replace("/tmp/", f"{place.root}/")
        place.run(small, ROOT / "contrib" / "perf")


@pytest.mark.slow
@pytest.mark.needs("curl")
def test_ids_are_answered_as_they_are_printed(place: Place) -> None:
    place.project.configure("amalgam", git__serve="yes")
    ids = place.run("hg log -T '{node} {gitnode} '").split()
    ambiguous = collections.Counter(one[0] for one in ids).most_common(1)[0][0]
    with place.project.served() as served:
        for first in ("amalgam/id/", "--data"):
            command, expected = block_of("docs/hosting.rst", first)
            command = command.removeprefix("$ ").replace("1ea73414a91b", ids[0][:12])
            url = served.url.rstrip("/")
            command = command.replace("https://hg.example.org/project", url)
            command = command.replace('"c"', f'"{ambiguous}"')
            said = place.run(command.replace("curl", "curl -s", 1))
            assert re.sub(r"[0-9a-f]{8,}", "ID", said).strip() == re.sub(
                r"[0-9a-f]{8,}|[0-9a-f]{4}\.\.\.", "ID", expected
            )


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("example", examples("commands/table.py"))
def test_example_of_the_help_works(place: Place, example: str) -> None:
    store = place.project.dot_hg / "amalgam" / "git" / "cinnabar.git"
    place.project.configure("amalgam", git__serve="yes")
    place.run(f"hg git::export --metadata && cp -R {store} ../mirror")
    (place.root / "etc" / "mercurial").mkdir(parents=True)
    (place.root / "etc" / "mercurial" / "hgweb.conf").write_text(
        f"[paths]\nproject = {place.project.root}\n"
        "[web]\nbaseurl = https://example.org/\n"
    )
    if example.startswith("git log"):
        place.environment["GIT_DIR"] = str(store)
    if "--base" in example:
        place.project.commit("newer")
    if example.startswith("hg git::push"):
        place.run("git init -q --bare ../host.git")
        host = str(place.project.root.parent / "host.git")
        place.project.configure("amalgam", replicate__mirror=host)
        example = example.replace("git@example.org:project.git", host)
    if example.startswith("hg git::follow"):
        place.run("git init -q --bare ../host.git")
        host = str(place.project.root.parent / "host.git")
        place.project.configure("amalgam", follow__upstream=host)
    if "--check" in example:
        place.run("hg git::push mirror")
    node = place.run("hg log -r . -T '{node|short}'")
    assert place.run(example.replace("1ea73414a91b", node))


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.needs("maps")
@pytest.mark.parametrize("example", examples("perf/commands.py"))
def test_example_of_measuring_works(place: Place, example: str) -> None:
    with (place.root / "hgrc").open("a") as file:
        file.write("[extensions]\nhgext3rd.amalgam.perf =\n")
    assert "!" in place.run(example)


def command_blocks(page: str) -> Iterator[list[str]]:
    """Yield the blocks of a page that have commands."""
    for found in BLOCK.finditer((ROOT / page).read_text()):
        block = textwrap.dedent(found[1]).strip("\n").split("\n")
        if any(line.startswith("$ ") for line in block) or PROGRAM.match(block[0]):
            yield block


def typed(block: list[str]) -> list[str]:
    """Return the commands of a block, without prompts and comments."""
    prompted = [line[2:] for line in block if line.startswith("$ ")]
    lines = prompted or [line for line in block if line]
    return [re.sub(r" {2,}#.*", "", line) for line in lines]


def block_of(page: str, start: str, has: str = "") -> list[str]:
    """Return the block of a page whose first line has ``start``; ``has`` is in it."""
    for found in BLOCK.finditer((ROOT / page).read_text()):
        block = textwrap.dedent(found[1]).strip("\n").split("\n")
        if start in block[0] and has in found[1]:
            return block
    raise AssertionError(f"{page} has no block that begins with {start}")


def is_run_here(page: str, first: str) -> bool:
    """Tell whether a test of this module takes a block."""
    return any(page == name and start in first for name, start in HERE)


def made_by_git(place: Place) -> Path:
    """Return a new git repository with a commit."""
    root = place.root / "by-git"
    place.run(f"git init -q -b main {root}", place.root)
    place.run("git commit -q --allow-empty -m first", root)
    return root


def make_surveyed(root: Path, place: Place) -> None:
    """Make a git repository with as many commits as the printed survey has."""
    place.run(f"git init -q -b main {root}")
    (root / "file").write_text("content\n")
    place.run("git add file && git commit -q -m first", root)
    for number in range(SURVEYED - sum(SIGNED.values()) - 2):
        place.run(f"git commit -q --allow-empty -m {number}", root)
    place.run("git branch other", root)
    for branch, later in SIGNED.items():
        place.run(f"git checkout -q {branch}", root)
        commit = place.run("git cat-file commit HEAD", root)
        head, _blank, message = commit.partition("\n\n")
        signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n\n{branch}\n{message}"
        (root / ".git" / "signed").write_text(signed)
        oid = place.run("git hash-object -t commit -w .git/signed", root).strip()
        place.run(f"git reset -q --hard {oid}", root)
        for number in range(later):
            place.run(f"git commit -q --allow-empty -m {number}", root)
