"""Fingerprints of two builds: the same repositories, files, answers and pushes.

    python3 -m oracle.fingerprints --base DIR [--odd N] [--given DIR]... [--json DIR]

``DIR`` is a built checkout. Each build runs as a program: nothing of the package is
imported, so that the base may be of any age. Both work at the same path, and every
part is a SHA-256 of sorted or sequential output, or a transcript. Ends with 1 if any
part differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from pathlib import Path

from testlib.environment import ENVIRONMENT, HG, ROOT, add_config, publish_commits
from testlib.webserver import WebServer, started

from . import subjects

#: Part of a build, to its digest or transcript.
Prints = dict[str, str]

THREADS = (1, 2, 8)
INCREMENTS = 20
_STORE = Path(".hg/amalgam/git/cinnabar.git")
#: Random or dated: the time of an export, the identity of a map, that of bundles.
_VOLATILE = re.compile(r"(last-export|\.docket|\.tips|\.removals|register)$")
#: One thread takes 16 MB of an export's memory.
_MEMORY = "amalgam.git.memory={}MB"
_SPECS = ("none-v2", "gzip-v2", "zstd-v2", "none-v2;cg.version=03")
_SERVED = (
    "--config=amalgam.git.serve=yes",
    "--config=amalgam.git.push=yes",
    "--config=web.allow-push=*",
    "--config=web.push_ssl=no",
)
#: Each rule of normalisation: its name, the pattern, and the replacement.
_RULES = (
    ("port", re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
    (
        "date of an answer",
        re.compile(r"(?im)^(date|last-modified|expires): .*"),
        "DATE",
    ),
    ("time of a page", re.compile(r"(?i)(etag: W/)\"\d+\""), r"\1TIME"),
    ("age", re.compile(r"\d+ (second|minute|hour)s? ago"), "AGE"),
    ("duration", re.compile(r"\d+\.\d+ ?s(econds)?\b"), "DURATION"),
    ("agent", re.compile(r"agent=\S+"), "AGENT"),
    ("session", re.compile(r"session-id=\S+"), "SESSION"),
)
#: Packs that are merged have their objects in an order that depends on the time.
_PACKS = re.compile(r".*/pack-\w+\.\w+ \w+\n?")
_ID = re.compile(r"\b[0-9a-f]{7,40}\b")
_UPLOAD = "info/refs?service=git-upload-pack"
_RECEIVE = "info/refs?service=git-receive-pack"
_PAGES = ("", "log", "rev/tip", "file/tip", "branches", "raw-rev/0", "tags")


class Build:
    """A checkout with its program, and the directory that both builds work in."""

    def __init__(self, tree: Path, place: Path) -> None:
        self.tree = tree
        self.program = str(tree / HG.relative_to(ROOT))
        self.python = str(Path(self.program).with_name("python3"))
        self.place = place

    def run(self, repo: Path, *args: str) -> str:
        """Exit code and output of a command, normalised."""
        command = [self.program, "--config=extensions.amalgam=", *args]
        return self._said(command, repo)

    def verified(self, repo: Path) -> str:
        """What ``git::verify`` says, sorted: git checks objects by their place."""
        said = self.run(repo, "git::verify", "--full", "-q")
        return "\n".join(sorted(said.splitlines()))

    def git(self, cwd: Path, *args: str, **variables: str) -> str:
        """Exit code and output of git, normalised."""
        return self._said(["git", *args], cwd, **variables)

    def serving(self, repo: Path, *options: str) -> AbstractContextManager[WebServer]:
        """A server of the build."""
        command = [self.program, "--config=extensions.amalgam=", *_SERVED, *options]
        serve = ("serve", "-p", "0", "-a", "127.0.0.1", "-A", os.devnull)
        return started([*command, *serve], repo)

    def ssh_program(self) -> str:
        """A line of Python that is ``hg-amalgam-ssh``, wherever its module is."""
        project = (self.tree / "pyproject.toml").read_text()
        entry = re.search(r'hg-amalgam-ssh = "([\w.]+):(\w+)"', project)
        assert entry, project
        return (
            f"import sys; from {entry[1]} import {entry[2]} as main; sys.exit(main())"
        )

    def _said(self, command: list[str], cwd: Path, **variables: str) -> str:
        environment = {**ENVIRONMENT, **variables}
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True)
        said = (done.stdout + done.stderr).decode(errors="backslashreplace")
        return normalised(f"exit {done.returncode}\n{said}")


def normalised(text: str) -> str:
    """The text without its ports, dates and durations."""
    for _name, pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def digest(data: str | bytes) -> str:
    """The SHA-256, in hex."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def files(directory: Path) -> str:
    """Names and digests of all files below a directory that are not volatile."""
    found = (path for path in sorted(directory.rglob("*")) if path.is_file())
    lines = (
        f"{path.relative_to(directory)} {digest(path.read_bytes())}" for path in found
    )
    return "\n".join(
        line for line in lines if not _VOLATILE.search(line.partition(" ")[0])
    )


def prints_of(build: Build, origin: Path) -> Prints:
    """All fingerprints of a repository."""
    repo = _fresh(build.place / "repo")
    shutil.copytree(origin / ".hg", repo / ".hg", symlinks=True)
    found: Prints = {}
    for threads in THREADS:
        memory = ("--config", _MEMORY.format(16 * threads))
        said = build.run(repo, "git::export", "--rebuild", "--metadata", *memory)
        found[f"export by {threads}"] = said.partition("\n")[0]
        found[f"files by {threads}"] = files(repo / ".hg" / "amalgam")
    objects = build.git(repo / _STORE, "rev-list", "--all", "--objects")
    found["objects"] = digest("\n".join(sorted(objects.splitlines())))
    found["refs"] = build.git(repo / _STORE, "for-each-ref")
    ids = build.run(repo, "log", "--hidden", "-r", "all()", "-T", "{node} {gitnode}\n")
    found["ids"] = digest(ids)
    found["verify"] = build.verified(repo)
    found |= _bundles(build, repo)
    found |= _clone_bundles(build, repo)
    found |= _served(build, repo)
    found |= _in_increments(build, origin)
    return found


def _bundles(build: Build, repo: Path) -> Prints:
    found: Prints = {}
    target = build.place / "bundle.hg"
    half = ("--base", "first(all(), 1) or limit(all(), 10, 5)")
    for spec in _SPECS:
        for name, revs in (("all", ("--all",)), ("half", half)):
            more = ("threads=2", "threads=8") if "zstd" in spec else ()
            for how in ("threads=1", "native=no", *more):
                target.unlink(missing_ok=True)
                config = ("--config", f"amalgam.bundles.{how}")
                said = build.run(
                    repo, "bundle", *revs, "-t", spec, *config, str(target)
                )
                data = target.read_bytes() if target.exists() else b""
                found[f"bundle {spec} {name} {how}"] = f"{digest(data)} {said}"
    return found


def _clone_bundles(build: Build, repo: Path) -> Prints:
    settings = (
        "extensions.clonebundles=",
        "clone-bundles.auto-generate.formats=zstd-v2 gzip-v2",
        "clone-bundles.git.formats=git-v2 cinnabar-v1",
    )
    config = [f"--config={setting}" for setting in settings]
    said = build.run(repo, *config, "admin::clone-bundles-refresh")
    written = files(repo / ".hg" / "amalgam" / "bundles").splitlines()
    # their names have a random part
    digests = sorted(line.rpartition(" ")[2] for line in written)
    return {"clone bundles": "\n".join([said, *digests])}


def _in_increments(build: Build, origin: Path) -> Prints:
    """The repository by pulls, with an export after each."""
    repo = _fresh(build.place / "pulled")
    build.run(repo, "init", ".")
    count = build.run(origin, "log", "-r", "all()", "-T", "x").count("x") - 1
    found: Prints = {}
    steps = sorted({count * step // INCREMENTS for step in range(1, INCREMENTS + 1)})
    for step in steps:
        if step:
            heads = build.run(
                origin, "log", "-r", f"heads(:{step - 1})", "-T", "{node} "
            )
            revs = [f"--rev={node}" for node in heads.split()[2:]]
            build.run(repo, "pull", "-q", *revs, str(origin))
            build.run(repo, "git::export", "--metadata")
            listed = files(repo / ".hg" / "amalgam")
            counted = f"{len(_PACKS.findall(listed))} files of packs"
            found[f"files at {step}"] = _PACKS.sub("", listed) + counted
    objects = build.git(repo / _STORE, "rev-list", "--all", "--objects")
    found["objects of increments"] = digest("\n".join(sorted(objects.splitlines())))
    found["verify of increments"] = build.verified(repo)
    return found


def _served(build: Build, repo: Path) -> Prints:
    found: Prints = {}
    with build.serving(repo) as web:
        for path in (_UPLOAD, _RECEIVE):
            for version in (0, 1, 2):
                answer = web.ask(path, Git_Protocol=f"version={version}")
                found[f"{path} v{version}"] = _shown(answer)
        for command in ("ls-refs", "bundle-uri"):
            body = _packet(f"command={command}\n") + "0001" + "0000"
            answer = web.ask(
                "git-upload-pack", "POST", body.encode(), Git_Protocol="version=2"
            )
            found[f"v2 {command}"] = _shown(answer)
        for page in _PAGES:
            found[f"page {page}"] = _shown(web.ask(page))
        target = build.place / "incoming.hg"
        empty = _fresh(build.place / "empty")
        build.run(empty, "init", ".")
        for stock in ("=", "=!"):
            target.unlink(missing_ok=True)
            options = (f"--config=extensions.amalgam{stock}", "-q", "--bundle")
            build.run(empty, "incoming", *options, str(target), web.url)
            data = target.read_bytes() if target.exists() else b""
            found[f"changegroup amalgam{stock}"] = digest(data)
        found["clone"] = _clone(build, web.url)
    found["clone by ssh"] = _clone(build, f"ssh://host{repo}", _ssh(build, repo))
    return found


def _clone(build: Build, url: str, ssh: str = "") -> str:
    """Objects and refs of clones by each version of the protocol."""
    found = []
    for version in (0, 1, 2):
        clone = _fresh(build.place / "clone")
        command = ("-c", f"protocol.version={version}", "clone", "-q", "--mirror")
        said = build.git(build.place, *command, url, str(clone), GIT_SSH_COMMAND=ssh)
        objects = build.git(clone, "cat-file", "--batch-check", "--batch-all-objects")
        found += [said, build.git(clone, "for-each-ref"), digest(objects)]
    return "\n".join(found)


def _ssh(build: Build, repo: Path) -> str:
    """A program in place of ssh and sshd, with the command of a key."""
    script, config = build.place / "ssh", build.place / "hgrc"
    config.write_text("[extensions]\namalgam =\n[amalgam]\ngit.serve = yes\n")
    script.write_text(
        "#!/bin/sh\n"
        'for last; do :; done\nSSH_ORIGINAL_COMMAND="$last"\n'
        f"export SSH_ORIGINAL_COMMAND HGRCPATH='{config}'\n"
        f"exec '{build.python}' -c '{build.ssh_program()}' '{repo}'\n"
    )
    script.chmod(0o755)
    return str(script)


#: Servers of pushes: a name, and the hgrc.
_SERVERS = {
    "pushes": "",
    "pushes, all allowed": "[amalgam]\ngit.push-branches = yes\ngit.push-tags = yes\n",
    "pushes to drafts": "[phases]\npublish = no\nnew-commit = draft\n",
    "pushes to a hook": "[hooks]\npretxnchangegroup = false\n",
}
_MAIN = "HEAD:refs/heads/default"
#: Arguments of git push, one after another; ``commit`` makes a commit before.
_PUSHES = (
    "commit " + _MAIN,
    _MAIN,
    "commit HEAD:refs/heads/work",
    "-o branch=next HEAD:refs/heads/next",
    "commit -o branch=next HEAD:refs/heads/next",
    "commit -o branch=next HEAD:refs/heads/other",
    "commit -o topic=x HEAD:refs/heads/topic",
    "commit -o unknown=x HEAD:refs/heads/unknown",
    "commit -o branch=a -o branch=b HEAD:refs/heads/twice",
    "+HEAD~2:refs/heads/default",
    "HEAD~1:refs/heads/work",
    "+HEAD~1:refs/heads/work",
    ":refs/heads/work",
    ":refs/heads/default",
    ":refs/heads/absent",
    "HEAD~1:refs/tags/v1",
    "HEAD~2:refs/tags/v1",
    "+HEAD~2:refs/tags/v1",
    ":refs/tags/v1",
    "commit HEAD:refs/tags/new",
    "HEAD:refs/tags/tip",
    "HEAD:refs/tags/null",
    "HEAD:refs/notes/commits",
    "HEAD:refs/heads/a:b",
    "HEAD:refs/heads/12",
    "HEAD:refs/heads/tip",
    "HEAD:refs/hg/heads/x",
    "HEAD:refs/cinnabar/metadata",
    "HEAD:refs/heads/one HEAD~1:refs/heads/two",
    "commit HEAD:refs/heads/one HEAD:refs/tags/tip",
    "--atomic HEAD:refs/heads/three HEAD:refs/tags/tip",
    "--atomic HEAD:refs/heads/three HEAD~1:refs/heads/four",
    "--force-with-lease=one:HEAD~3 HEAD~3:refs/heads/one",
    "--dry-run HEAD:refs/heads/dry",
    "commit --signed=if-asked " + _MAIN,
    "--all",
    "--tags",
    "--prune refs/heads/*:refs/heads/*",
    "submodule HEAD:refs/heads/submodule",
    "case HEAD:refs/heads/case",
    "hgdir HEAD:refs/heads/hgdir",
    "merge HEAD:refs/heads/merged",
    "empty HEAD:refs/heads/empty",
    "symlink HEAD:refs/heads/symlink",
)


def pushes(build: Build, settings: str) -> Prints:
    """Transcripts of pushes to a server with settings, and what they leave there."""
    repo, clone = _fresh(build.place / "server"), _fresh(build.place / "pusher")
    build.run(repo, "init", ".")
    publish_commits(repo)
    add_config(repo, settings)
    for number in range(2):
        (repo / f"file{number}").write_text(f"text {number}\n")
        build.run(repo, "commit", "-qAm", f"number {number}", "-d", f"{number} 0")
    found: Prints = {}
    with build.serving(repo) as web:
        build.git(build.place, "clone", "-q", web.url, str(clone))
        for number, line in enumerate(_PUSHES):
            first, *rest = line.split()
            if first in _COMMITS:
                _commit(build, clone, number, first)
            args = rest if first in _COMMITS else [first, *rest]
            said = build.git(clone, "push", "--porcelain", "origin", *args)
            found[f"push {number} {line}"] = said
            if first in _ODD:
                build.git(clone, "reset", "-q", "--hard", "HEAD~1")
    template = "{node} {gitnode} {branch} {bookmarks} {tags} {phase}\n"
    found["pushed"] = build.run(repo, "log", "-r", "all()", "-T", template)
    found["pushed refs"] = build.git(repo / _STORE, "for-each-ref")
    found["pushed files"] = files(repo / ".hg" / "amalgam")
    found["pushed verify"] = build.verified(repo)
    found["pushed hg verify"] = build.run(repo, "verify", "-q")
    if "push-tags" in settings:
        # changesets with tags have the present date
        del found["pushed files"]
        found = {part: _ID.sub("ID", text) for part, text in found.items()}
    return found


#: Commits that Mercurial cannot have, or that are odd; taken back after the push.
_ODD = ("submodule", "case", "hgdir", "merge", "empty", "symlink")
_COMMITS = ("commit", *_ODD)


def _commit(build: Build, clone: Path, number: int, kind: str) -> None:
    names = {"case": "FILE0", "hgdir": "hg/.hg/hgrc"}
    path = clone / names.get(kind, f"file-{number}")
    if kind == "submodule":
        entry = f"160000,{'1' * 40},sub"
        build.git(clone, "update-index", "--add", "--cacheinfo", entry)
    elif kind == "symlink":
        path.symlink_to("file0")
    elif kind not in ("empty", "merge"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{kind} {number}\n")
    if kind != "submodule":
        build.git(clone, "add", "-A")
    when = f"2026-01-01T00:{number:02}:00+0100"
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    if kind == "merge":
        merge = ("merge", "-q", "-s", "ours", "--no-ff", "-m", "merge", "HEAD~3^0")
        build.git(clone, *merge, **dates)
    build.git(clone, "commit", "-q", "--allow-empty", "-m", f"{kind} {number}", **dates)


def _packet(text: str) -> str:
    return f"{len(text) + 4:04x}{text}"


def _shown(answer: tuple[int, dict[str, str], bytes]) -> str:
    status, headers, body = answer
    lines = [f"{name}: {value}" for name, value in sorted(headers.items())]
    text = body.decode(errors="backslashreplace")
    return normalised("\n".join([str(status), *lines, "", text]))


def _fresh(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def different(base: Prints, ours: Prints) -> Iterator[str]:
    """One line for each part that differs."""
    for part in sorted(base.keys() | ours.keys()):
        one, other = base.get(part, "absent"), ours.get(part, "absent")
        if one != other:
            pairs = zip(one.splitlines(), other.splitlines(), strict=False)
            first = next((pair for pair in pairs if pair[0] != pair[1]), ("longer", ""))
            yield f"{part}: {first[0]!r} is now {first[1]!r}"


def main() -> int:
    """Compare two builds; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", type=Path, required=True, help="a built checkout")
    parser.add_argument("--ours", type=Path, default=ROOT, help="the other one")
    parser.add_argument("--odd", type=int, default=30, help="odd repositories")
    parser.add_argument("--given", type=Path, action="append", default=[])
    parser.add_argument("--corpora", type=Path, metavar="DIR", help="*.hg bundles")
    parser.add_argument("--json", type=Path, metavar="DIR")
    options = parser.parse_args()
    wanted = chain(
        subjects.generated(),
        subjects.odd_ones(1, options.odd),
        subjects.corpora(options.corpora) if options.corpora else (),
        map(subjects.given, options.given),
    )
    wrong = 0
    kept: dict[str, dict[str, Prints]] = {"base": {}, "ours": {}}
    trees = {"base": options.base.absolute(), "ours": options.ours.absolute()}

    def compare(name: str, prints: Callable[[Build], Prints]) -> int:
        for side, tree in trees.items():
            kept[side][name] = prints(Build(tree, place))
        found = list(different(kept["base"][name], kept["ours"][name]))
        print(
            f"{name}: {len(kept['ours'][name])} parts, {len(found)} differ", flush=True
        )
        print("".join(f"  {line}\n" for line in found), end="", flush=True)
        return len(found)

    with tempfile.TemporaryDirectory(prefix="amalgam-oracle-") as name:
        place = Path(name)
        for kind, settings in _SERVERS.items():
            wrong += compare(kind, partial(pushes, settings=settings))
        for subject in wanted:
            origin = place / "origin"
            shutil.rmtree(origin, ignore_errors=True)
            subject.make(origin)
            wrong += compare(subject.name, partial(prints_of, origin=origin))
    if options.json:
        options.json.mkdir(parents=True, exist_ok=True)
        for side, prints in kept.items():
            text = json.dumps(prints, indent=1) + "\n"
            (options.json / f"fingerprints-{side}.json").write_text(text)
    print(
        json.dumps(
            {"repositories": len(kept["ours"]) - len(_SERVERS), "differences": wrong}
        )
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
