"""Benchmarks of repositories with many names: what one change costs, here and there.

Before each run one changeset is committed on a bookmark, and moves it. Then the change
is exported, fetched, pushed, or replicated to bare repositories. Before the next run
the refs of these are compared with those of the store.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import ClassVar

from .benchmark import Answer, Benchmark, Command, CommandError, Job
from .server import Server

NAME = "rel/000/v000000"
_REF = f"refs/heads/{NAME}"
_STORE = Path(".hg", "amalgam", "git", "cinnabar.git")
_PUBLISHED = ("refs/heads", "refs/tags")
_SERVING = ("web.push_ssl=no", "web.allow-push=*", "phases.new-commit=public")
_SERVING_GIT = (*_SERVING, "amalgam.git.serve=yes", "amalgam.git.push=yes")
_MIRRORS = 7


class Start(Benchmark):
    """A command that does nothing, in the repository: what hg itself needs."""

    name = "start"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam", "hg")

    def run(self, job: Job) -> Command:
        """Print the root."""
        return job.subject.command("-R", str(job.copy()), "root")


class ExportOne(Benchmark):
    """An export of one changeset and one moved bookmark."""

    name = "export-one"
    title = "export of one change"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam",)

    def setup(self, job: Job) -> None:
        """Export everything, the first time; then change something."""
        _exported(job)
        _change(job)

    def run(self, job: Job) -> Command:
        """Export it."""
        return _export(job)

    def answer(self, job: Job) -> Answer:
        """The bookmark's commit is that of its changeset."""
        return {"is exported": _commit(job) == _git(_store(job), "rev-parse", _REF)}


class ExportDeletion(Benchmark):
    """An export of one bookmark that has gone."""

    name = "export-deletion"
    title = "export of a deleted bookmark"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam",)

    def setup(self, job: Job) -> None:
        """Export everything, the first time; then delete the next bookmark."""
        _exported(job)
        hg = [str(job.subject.hg), "-R", str(job.copy())]
        there = Command([*hg, "bookmarks", "-T", "{bookmark}\n"]).output().split()
        self._gone = next(name for name in there if name != NAME)
        Command([*hg, "bookmark", "-q", "-d", self._gone]).output()

    def run(self, job: Job) -> Command:
        """Export it."""
        return _export(job)

    def answer(self, job: Job) -> Answer:
        """Its ref has gone."""
        refs = _git(_store(job), "for-each-ref", f"refs/heads/{self._gone}")
        return {"is gone": not refs}


class FetchOne(Benchmark):
    """A server that is warm: one change, until a client has it."""

    name = "fetch-one"
    title = "fetch of one change from a warm server"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam",)

    def setup(self, job: Job) -> None:
        """Start a server, ask it once, and change something."""
        _exported(job)
        self._server = Server(job.subject, job.copy(), *_SERVING_GIT)
        client = job.work / "client"
        if not client.exists():
            _git(job.work, "init", "-q", "--bare", str(client))
        self._fetch(client).output()
        _change(job)

    def run(self, job: Job) -> Command:
        """Fetch one branch; the server's processor time counts."""
        return self._server.measuring(self._fetch(job.work / "client"))

    def answer(self, job: Job) -> Answer:
        """What the client has."""
        return {"has it": _commit(job) == _git(job.work / "client", "rev-parse", _REF)}

    def _fetch(self, client: Path) -> Command:
        words = ["fetch", "-q", "--no-tags", self._server.url, f"+{_REF}:{_REF}"]
        return Command(["git", "-C", str(client), *words])


class FetchFirst(FetchOne):
    """The first request after a server has started, with nothing new."""

    name = "fetch-first"
    title = "first request to a server"

    def setup(self, job: Job) -> None:
        """Start a server; the client has everything already."""
        _exported(job)
        super().setup(job)
        self._fetch(job.work / "client").output()
        self._server.stop()
        self._server = Server(job.subject, job.copy(), *_SERVING_GIT)


class PushOne(Benchmark):
    """A push of one commit and the bookmark on it: by git, and by hg to stock hg."""

    name = "push-one"
    title = "push of one change to a server"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam", "hg")

    def setup(self, job: Job) -> None:
        """Start a server that is asked once; commit in a clone of one branch."""
        client, is_git = job.work / "client", job.subject.kind == "amalgam"
        if is_git:
            _exported(job)
        settings = _SERVING_GIT if is_git else _SERVING
        self._server = Server(job.subject, job.copy(), *settings)
        if is_git:
            if not client.exists():
                words = ["clone", "-q", "--no-tags", "--single-branch", "-b", NAME]
                _git(job.work, *words, self._server.url, str(client))
            _git(client, "fetch", "-q", self._server.url, _REF)
            identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
            _git(client, *identity, "commit", "-q", "--allow-empty", "-m", "a change")
            return
        hg = job.subject.command
        if not client.exists():
            words = ["clone", "-q", "-r", NAME, self._server.url, str(client)]
            hg(*words).output()
            hg("-R", str(client), "bookmark", "-f", NAME).output()
        hg("-R", str(client), "incoming", "-q", self._server.url, "-r", NAME, "-l1")
        _commit_file(job, client)

    def run(self, job: Job) -> Command:
        """Push it; the server's processor time counts."""
        client = job.work / "client"
        if job.subject.kind == "amalgam":
            words = ["push", "-q", self._server.url, f"HEAD:{_REF}"]
            return self._server.measuring(Command(["git", "-C", str(client), *words]))
        words = ["push", "-q", "-f", "-r", ".", "-B", NAME, self._server.url]
        return self._server.measuring(job.subject.command("-R", str(client), *words))

    def answer(self, job: Job) -> Answer:
        """The description of the changeset that was pushed."""
        words = ["log", "-r", NAME, "-T", "{desc}"]
        hg = Command([str(job.subject.hg), "-R", str(job.copy()), *words])
        return {"description": hg.output()}


class Replicate(Benchmark):
    """One change, replicated to a bare repository on this machine."""

    name = "replicate-one"
    title = "replication of one change"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam", "git", "jgit")
    mirrors = 1
    is_hidden = False

    def setup(self, job: Job) -> None:
        """Make equal mirrors, the first time; compare them, and change something."""
        first = not (job.work / "mirror0").exists()
        _exported(job)
        if first:
            self._make_mirrors(job)
        self._compare(job)
        self.change(job)
        _export(job).output()

    def change(self, job: Job) -> None:
        """Change what is to be replicated."""
        _change(job)

    def run(self, job: Job) -> Command:
        """Replicate the change; amalgam finds out itself which refs it moves."""
        if job.subject.kind == "amalgam":
            names = ["--all"] if self.mirrors > 1 else ["mirror0"]
            return job.subject.command("-R", str(job.copy()), "git::push", *names)
        pushes = [self._push(job, f"file://{path}") for path in self._paths(job)]
        if len(pushes) == 1:
            return Command(pushes[0])
        lines = [f'{shlex.join(push)} & pids="$pids $!"' for push in pushes]
        script = "\n".join([*lines, "for pid in $pids; do wait $pid || exit 1; done"])
        return Command(["sh", "-c", script])

    def answer(self, job: Job) -> Answer:
        """The refs of all mirrors are those of the store."""
        self._compare(job)
        return {"refs": len(_refs(_store(job)).splitlines())}

    def _push(self, job: Job, url: str) -> list[str]:
        store, program = str(_store(job)), str(job.subject.program)
        if job.subject.kind == "jgit":
            return [program, store, url, f"+{_REF}:{_REF}"]
        return [program, "-C", store, "push", "-q", *self._options(), url, f"+{_REF}"]

    def _options(self) -> list[str]:
        return []

    def _paths(self, job: Job) -> list[Path]:
        return [job.work / f"mirror{number}" for number in range(self.mirrors)]

    def _make_mirrors(self, job: Job) -> None:
        store, (path, *others) = _store(job), self._paths(job)
        _write_graph(store)
        _git(job.work, "init", "-q", "--bare", str(path))
        specs = [f"+{prefix}/*:{prefix}/*" for prefix in _PUBLISHED]
        _git(path, "fetch", "-q", "--no-tags", "--no-auto-gc", str(store), *specs)
        _git(path, "pack-refs", "--all")
        _git(path, "config", "receive.autogc", "false")
        _write_graph(path)
        for other in others:
            # git replaces files, it does not write into them
            shutil.copytree(path, other, copy_function=os.link)
        if job.subject.kind == "amalgam":
            with (job.copy() / ".hg" / "hgrc").open("a") as file:
                file.write("[amalgam]\n")
                for mirror in (path, *others):
                    file.write(f"replicate.{mirror.name} = {mirror}\n")
                    if self.is_hidden:
                        file.write(f"replicate.{mirror.name}.hide-refs = yes\n")
            for mirror in (path, *others):
                words = ["-R", str(job.copy()), "git::push", "--adopt", mirror.name]
                job.subject.command(*words).output()

    def _compare(self, job: Job) -> None:
        expected = _refs(_store(job))
        for path in self._paths(job):
            if _refs(path) != expected:
                raise CommandError(f"the refs of {path} are not those of the store")


class ReplicateNothing(Replicate):
    """Nothing to replicate."""

    name = "replicate-nothing"
    title = "replication of nothing new"

    def change(self, job: Job) -> None:
        """Change nothing."""


class ReplicateSeven(Replicate):
    """One change, replicated to seven bare repositories at once."""

    name = "replicate-seven"
    title = "replication to seven mirrors"
    mirrors = _MIRRORS


class ReplicateMany(Replicate):
    """A tenth of all bookmarks, moved to one new changeset, and replicated."""

    name = "replicate-many"
    title = "replication of a tenth of the names"
    kinds: ClassVar[tuple[str, ...]] = ("amalgam", "git")

    def change(self, job: Job) -> None:
        """Commit, and move the first bookmarks there."""
        _change(job)
        hg = [str(job.subject.hg), "-R", str(job.copy())]
        names = Command([*hg, "bookmarks", "-T", "{bookmark}\n"]).output().split()
        moved = names[: len(names) // 10]
        Command([*hg, "bookmark", "-q", "-f", "-r", NAME, *moved]).output()

    def _push(self, job: Job, url: str) -> list[str]:
        """Push all branches: 10,000 refspecs did not end in a minute."""
        store, program = str(_store(job)), str(job.subject.program)
        return [program, "-C", store, "push", "-q", url, "+refs/heads/*:refs/heads/*"]


class ReplicateHidden(Replicate):
    """One change, to a mirror that is asked to advertise this ref only."""

    name = "replicate-hidden"
    title = "replication to a mirror that advertises little"
    is_hidden = True

    def _options(self) -> list[str]:
        words = ["-c", "receive.hideRefs=refs", "-c", f"receive.hideRefs=!{_REF}"]
        return [f"--receive-pack={shlex.join(['git', *words, 'receive-pack'])}"]


class ReplicateSevenHidden(ReplicateHidden):
    """One change, to seven mirrors that are asked to advertise this ref only."""

    name = "replicate-seven-hidden"
    title = "replication to seven mirrors that advertise little"
    mirrors = _MIRRORS


class ReplicatePulled(Replicate):
    """One change, which the mirror fetches when it is told so."""

    name = "replicate-pulled"
    title = "replication by a fetch of the mirror"
    kinds: ClassVar[tuple[str, ...]] = ("git",)
    config: ClassVar[tuple[str, ...]] = ()

    def _push(self, job: Job, url: str) -> list[str]:
        path, store = url.removeprefix("file://"), str(_store(job))
        words = ["fetch", "-q", "--no-tags", "--no-auto-gc", store, f"+{_REF}:{_REF}"]
        return [str(job.subject.program), "-C", path, *self.config, *words]


class ReplicatePulledHidden(ReplicatePulled):
    """The same, and the mirror does not check against its own refs."""

    name = "replicate-pulled-hidden"
    title = "replication by a fetch that looks at no other refs"
    config = ("-c", "fetch.hideRefs=refs", "-c", "fetch.writeCommitGraph=false")


def _exported(job: Job) -> None:
    """Have a copy that is exported and has a working copy on the bookmark."""
    if (job.copy() / _STORE).exists():
        return
    with (job.copy() / ".hg" / "hgrc").open("w") as file:
        # without branches: their tips would move, too
        file.write("[phases]\nnew-commit = public\n[amalgam]\ngit.refs = bookmarks\n")
    hg = str(job.subject.hg)
    Command([hg, "-R", str(job.copy()), "update", "-q", NAME]).output()
    _export(job).output()


def _export(job: Job) -> Command:
    words = ["--config", "extensions.amalgam=", "-R", str(job.copy()), "git::export"]
    return Command([str(job.subject.hg), *words])


def _change(job: Job) -> None:
    """Commit on the bookmark, as hg alone would."""
    _commit_file(job, job.copy())


def _commit_file(job: Job, repo: Path) -> None:
    with (repo / "changed").open("a") as file:
        file.write("a line\n")
    words = ["commit", "-q", "-A", "-m", "a change", str(repo / "changed")]
    Command([str(job.subject.hg), "-R", str(repo), *words]).output()


def _write_graph(store: Path) -> None:
    """Write a commit-graph without git-cinnabar's commits, which have many parents."""
    words = "for-each-ref --format='%(objectname)' refs/heads refs/tags"
    git = f"git -C {shlex.quote(str(store))}"
    graph = f"{git} {words} | {git} commit-graph write --stdin-commits"
    Command(["sh", "-c", graph]).output()


def _commit(job: Job) -> str:
    words = ["--config", "extensions.amalgam=", "-R", str(job.copy())]
    log = ["log", "-r", NAME, "-T", "{gitnode}"]
    return Command([str(job.subject.hg), *words, *log]).output()


def _store(job: Job) -> Path:
    return job.copy() / _STORE


def _refs(directory: Path) -> str:
    return _git(directory, "for-each-ref", *_PUBLISHED)


def _git(directory: Path, *words: str) -> str:
    return Command(["git", "-C", str(directory), *words]).output().strip()
