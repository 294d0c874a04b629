"""Clones of git repositories, and pulls into them."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, ROOT, captured, git
from testlib.gitclone import Clone, cloned
from testlib.githost import Behaviour, GitHost, HostedRepository
from testlib.hggitcommits import Commits
from testlib.users import in_namespace

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitpeer import fetched
from hgext3rd.amalgam.gitstore.git.process import FetchLimits, Git
from hgext3rd.amalgam.remote.transport import (
    FailureKind,
    RemoteFailureError,
    Transport,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def project(host: GitHost) -> HostedRepository:
    """A repository with a branch, two kinds of tags, and a merge."""
    made = host.add("project.git")
    for name in ("one", "two", "three"):
        made.edit("refs/heads/default", name)
    made.git("tag", "light", "default~1")
    made.git("tag", "-a", "-m", "annotated", "heavy", "default")
    made.git("branch", "feature", "default~1")
    made.edit("refs/heads/feature", "aside")
    tree = made.git("rev-parse", "default^{tree}")
    parents = ("-p", "default", "-p", "default~1", "-p", "feature")
    merged = made.git("commit-tree", tree, *parents, "-m", "octopus")
    made.git("update-ref", "refs/heads/merged", merged)
    return made


def oids(project: HostedRepository) -> set[str]:
    return {*project.git("rev-list", "--all").split()}


def test_a_clone_has_all_commits_with_their_ids(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project)
    assert clone.hg("log", "-r", ".", "-T", "{activebookmark}") == "default"
    assert clone.hg("bookmarks", "-T", "{active}{bookmark} ").split() == [
        "Truedefault",
        "Falsefeature",
        "Falsemerged",
    ]
    found = clone.hg("log", "-r", "sort(all(), desc)", "-T", "{desc} {phase}\n")
    assert {"one public", "two public", "three public", "aside draft"} <= {
        *found.splitlines()
    }
    assert oids(project) <= clone.commits()
    assert "warning" not in clone.hg("verify", "-q")


def test_pulls_bring_what_is_new(tmp_path: Path, project: HostedRepository) -> None:
    clone = cloned(tmp_path, project)
    assert "no changes found" in clone.hg("pull")
    project.edit("refs/heads/default", "four")
    project.edit("refs/heads/feature", "five")
    project.edit("refs/heads/new", "six")
    assert "adding remote bookmark new" in clone.hg("pull", "-r", "new")
    assert "updating bookmark feature" in clone.hg("pull", "-B", "feature")
    output = clone.hg("pull", "-u", "--config", "hooks.incoming=echo $HG_SOURCE")
    assert "updating bookmark default" in output
    assert "pull\n" in output
    assert clone.hg("log", "-r", ".", "-T", "{desc} {phase}") == "four public"
    project.git("tag", "-a", "-m", "later", "later", "default~2")
    clone.hg("pull")
    assert oids(project) <= clone.commits()
    code, output = clone.run("pull", "-r", "missing")
    assert code == 255
    assert output.splitlines()[1:] == [
        "abort: unknown revision 'missing'",
        "(name a branch or tag of the remote, or 40 digits of a commit)",
    ]


def test_incoming_shows_changesets_and_writes_nothing(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project, "-r", "feature")
    before = {path: path.stat().st_mtime_ns for path in clone.root.rglob("*")}
    shown = clone.hg("incoming", "-q", "-T", "{node}\n", PYTHONDONTWRITEBYTECODE="1")
    marks = clone.hg("incoming", "-q", "-B")
    assert {line.split()[0] for line in marks.splitlines()} == {"default", "merged"}
    after = {path: path.stat().st_mtime_ns for path in clone.root.rglob("*")}
    amalgam = clone.root / ".hg" / "amalgam"  # the temporary directory was there
    assert {path for path in before | after if before.get(path) != after.get(path)} <= {
        amalgam
    }
    clone.hg("pull", "-q")
    there = clone.hg("log", "-T", "{node}\n", "-r", "all() - ::feature")
    assert shown == there
    assert clone.run("incoming")[0] == 1


def test_outgoing_is_what_the_remote_has_not(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project)
    assert clone.run("outgoing")[0] == 1
    (clone.root / "file").write_text("new")
    clone.hg("commit", "-A", "-q", "-m", "mine")
    assert clone.hg("outgoing", "-q", "-T", "{desc}\n") == "mine\n"
    assert "1 outgoing" in clone.hg("summary", "--remote")


def test_a_killed_pull_keeps_batches(tmp_path: Path, project: HostedRepository) -> None:
    """And the map and the changesets of each, with their phases."""
    (tmp_path / "kill.py").write_text(
        "import os\n"
        "from hgext3rd.amalgam.receive import importing\n"
        "sizes = {'batch': 2, 'first_batch': 2}\n"
        "importing.ImportSettings._field_defaults.update(sizes)\n"
        "def extsetup(ui):\n"
        "    add = importing._import\n"
        "    batches = []\n"
        "    def kill(*args):\n"
        "        made = add(*args)\n"
        "        batches.append(1)\n"
        "        if len(batches) == 2: os.kill(os.getpid(), 9)\n"
        "        return made\n"
        "    importing._import = kill\n"
    )
    clone = Clone(tmp_path / "clone")
    clone.hg("init", str(clone.root))
    kill = ("--config", f"extensions.kill={tmp_path / 'kill.py'}")
    assert clone.run("pull", *kill, f"git+{project.url}")[0] == -9
    kept = clone.hg("log", "-T", "{desc} {phase}\n").splitlines()
    assert len(kept) == 4
    public = {"one public", "two public", "three public"}
    assert {*kept} <= {*public, "aside draft", "octopus draft"}
    output = clone.hg("pull", f"git+{project.url}")
    assert "published" not in output
    assert "added 1 changesets" in output or "added 2 changesets" in output, output
    left = clone.root / ".hg/amalgam/tmp-scratch-0123456789abcdef"
    left.mkdir()
    assert "no changes found" in clone.hg("pull", f"git+{project.url}")
    assert not left.exists()
    assert oids(project) <= clone.commits()


def test_lost_files_are_made_again(tmp_path: Path, project: HostedRepository) -> None:
    clone = cloned(tmp_path, project)
    nodes = clone.hg("log", "-T", "{node}\n")
    strip = ("--config", "extensions.strip=")
    clone.hg("strip", *strip, "-q", "--no-backup", "merged")
    clone.hg("pull", "-q")
    assert {*clone.hg("log", "-T", "{node}\n").split()} == {*nodes.split()}
    for name in ("imported", "fetched"):
        for path in sorted((clone.root / ".hg/amalgam" / name).rglob("*"))[::-1]:
            path.rmdir() if path.is_dir() else path.unlink()
        project.edit("refs/heads/default", f"after {name}")
        clone.hg("pull", "-q")
        assert clone.hg("log", "-r", "default", "-T", "{desc}") == f"after {name}"
    assert len(clone.hg("log", "-T", ".")) == len(nodes.split()) + 2


def test_a_part_of_a_history_is_refused(
    tmp_path: Path, project: HostedRepository
) -> None:
    shallow = tmp_path / "shallow"
    url = project.path.as_uri()
    git(tmp_path, "clone", "-q", "--depth", "1", url, str(shallow))
    clone = Clone(tmp_path / "clone")
    clone.hg("init", str(clone.root))
    code, output = clone.run("pull", str(shallow))
    assert code == 255
    assert output.splitlines()[-2:] == [
        f"abort: '{shallow}' has only a part of its history",
        "(complete it there: git fetch --unshallow)",
    ]
    git(shallow, "fetch", "-q", "--unshallow")
    clone.hg("pull", str(shallow))
    assert {"one", "two", "three"} <= {*clone.hg("log", "-T", "{desc}\n").split()}


def test_only_a_pull_keeps_a_part(tmp_path: Path, project: HostedRepository) -> None:
    commit = project.git("rev-parse", "default~1").strip()
    (project.path / "objects" / commit[:2] / commit[2:]).unlink()
    clone = Clone(tmp_path / "clone")
    url = project.path.as_uri()
    hint = "clone again; 'hg init' and 'hg pull' would keep what was imported"
    code, output = clone.run("clone", f"git+{url}", str(clone.root))
    assert (code, output.splitlines()[-1]) == (255, f"({hint})")
    assert not clone.root.exists()
    clone.hg("init", str(clone.root))
    code, output = clone.run("pull", f"git+{url}")
    assert (code, output.splitlines()[-1]) == (
        255,
        "(pull again; what was imported is kept)",
    )


@pytest.mark.parametrize(
    "said",
    [
        "fatal: write error: No space left on device",
        "fatal: sha1 file 'tmp_idx' write error. Out of diskspace",
        "fatal: write error: Disk quota exceeded",
    ],
)
def test_a_full_disk_is_named_first(
    tmp_path: Path, project: HostedRepository, said: str
) -> None:
    program = tmp_path / "full-git"
    program.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" fetch "*)\n'
        f'  echo "{said}" >&2; exit 128\n'
        'esac\nexec git "$@"\n'
    )
    program.chmod(0o755)
    clone = Clone(tmp_path / "clone")
    with_it = f"--config=amalgam.git.program={program}"
    code, output = clone.run("clone", with_it, f"git+{project.url}", str(clone.root))
    hint = "(make room first; clone again; 'hg init' and 'hg pull' would keep"
    assert (code, output.splitlines()[-1][: len(hint)]) == (255, hint)


@pytest.mark.needs("mounts")
def test_a_disk_that_fills_up_is_named(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "host")
    (tmp_path / "host/large").write_bytes(os.urandom(1_500_000))
    git(tmp_path / "host", "add", "large")
    git(tmp_path / "host", "commit", "-q", "-m", "one")
    (room := tmp_path / "room").mkdir()
    # git's pack fits into it, and the store does not
    setup = f"mount -t tmpfs -o size=2500k tmpfs {room}"
    url = f"git+{(tmp_path / 'host').as_uri()}"
    command = [str(HG), "--config=extensions.amalgam=", "clone", "-U", url]
    script = (
        f"{shlex.join([*command, str(room / 'clone')])}; echo $? left: $(ls {room})"
    )
    done = in_namespace(setup, ["sh", "-c", script], tmp_path, ENVIRONMENT)
    assert done.stdout.decode().splitlines()[-1] == "255 left:"
    assert done.stderr.decode().splitlines() == [
        f"abort: No space left on device: '{room}/clone'",
        "(make room first; clone again; 'hg init' and 'hg pull' would keep what was "
        "imported)",
    ]


class Local:
    """A repository of this machine, and a clone of it in a dialect."""

    def __init__(self, tmp_path: Path, path: Path, dialect: str) -> None:
        self.path = path
        self.clone = Clone(tmp_path / f"clone-{dialect}")
        tmp_path.mkdir(exist_ok=True)
        self.clone.hg("init", str(self.clone.root))
        self.dialect = dialect

    def made(self, content: str, *args: str) -> str:
        """Make an object with git; return its id."""
        done = captured(["git", *args], self.path, input=content, text=True)
        return str(done.stdout).strip()

    def loose(self, oid: str) -> Path:
        return self.path / "objects" / oid[:2] / oid[2:]

    def spoil(self, oid: str, other: str) -> None:
        """Give an object the content of another one."""
        content = self.loose(other).read_bytes()
        self.loose(oid).unlink()
        self.loose(oid).write_bytes(content)

    def pull(self, *args: str, **environment: str) -> tuple[int, str]:
        return self.run("pull", *args, **environment)

    def run(self, name: str, *args: str, **environment: str) -> tuple[int, str]:
        items = (f"dialect={self.dialect}", "memory=8MB")
        config = [it for item in items for it in ("--config", f"amalgam.git.{item}")]
        url = f"git+{self.path.as_uri()}"
        return self.clone.run(name, *config, *args, url, **environment)

    def is_refused(self, words: str) -> bool:
        """Whether a pull fails with ``words``, and leaves neither objects nor names."""
        code, output = self.pull()
        fetched = self.clone.root / ".hg/amalgam/fetched"
        assert (code, not [*fetched.glob("objects.git/objects/pack/*")]) == (255, True)
        assert {it.name for it in fetched.iterdir()} == {"objects.git"}
        assert self.clone.hg("log", "-T", "{node}\n") == ""
        return words in output


_DIFFERS = "has another content than its id says"
_LARGE = 300_000  # bytes that are left to git, with the memory of the pulls above


@pytest.mark.parametrize("dialect", ["cinnabar", "hggit"])
def test_objects_of_a_local_repository_are_copied_and_verified(
    tmp_path: Path, project: HostedRepository, dialect: str
) -> None:
    """git receives none of them, so it does not hash their contents."""
    local, trace = Local(tmp_path, project.path, dialect), tmp_path / "trace"
    blob, other = (
        local.made(it, "hash-object", "-w", "--stdin") for it in ("right", "wrong")
    )
    tree = local.made(f"100644 blob {blob}\tfile\n", "mktree")
    commit = project.git("commit-tree", tree, "-p", "default", "-m", "file")
    project.git("update-ref", "refs/heads/default", commit)
    note, large = (
        local.made(it, "hash-object", "-w", "--stdin") for it in ("note", "x" * _LARGE)
    )
    entries = f"100644 blob {large}\tlarge\n100644 blob {note}\tsmall\n"
    tree = local.made(entries, "mktree")
    noted = project.git("commit-tree", tree, "-m", "notes")
    project.git("update-ref", "refs/notes/commits", noted)
    right = {it: local.loose(it).read_bytes() for it in (blob, note, large)}

    def mend(oid: str) -> None:
        local.loose(oid).unlink()
        local.loose(oid).write_bytes(right[oid])

    words = {oid: f"object {oid} {_DIFFERS}" for oid in right}
    if dialect == "cinnabar":
        words[blob] = f"cannot import commit {commit}: its changeset is not exported"
    for oid in right:
        local.spoil(oid, other)
        assert local.is_refused(words[oid])
        mend(oid)
    # so are those that a killed pull has copied
    local.spoil(blob, other)
    (tmp_path / "kill.py").write_text(
        "import os\n"
        "from hgext3rd.amalgam.receive import importing\n"
        "def import_commits(*args):\n"
        "    os.kill(os.getpid(), 9)\n"
        "importing.import_commits = import_commits\n"
    )
    fail = tmp_path / "fail.py"
    fail.write_text(
        "from mercurial import error\n"
        "from hgext3rd.amalgam.receive import importing\n"
        "sizes = {'batch': 2, 'first_batch': 2}\n"
        "importing.ImportSettings._field_defaults.update(sizes)\n"
        "add, batches = importing._import, []\n"
        "def failing(*args):\n"
        "    if batches: raise error.InputError(b'a commit is refused')\n"
        "    batches.append(1)\n"
        "    return add(*args)\n"
        "importing._import = failing\n"
    )
    kill = ("--config", f"extensions.kill={tmp_path / 'kill.py'}")
    assert local.pull(*kill)[0] == -9
    code, output = local.run("incoming", "-p")
    assert (code, "wrong" in output) == (255, False), output
    assert local.is_refused(words[blob])
    mend(blob)
    code, output = local.pull(GIT_TRACE=str(trace))
    assert code == 0, output
    assert "rev-list" in trace.read_text()
    assert "index-pack" not in trace.read_text()
    # those of a batch stay if a later one fails: an export may need them
    parts = Local(tmp_path / "parts", project.path, dialect)
    assert parts.pull("--config", f"extensions.fail={fail}")[0] == 255
    assert parts.clone.hg("log", "-T", "{rev} ").split() == ["1", "0"]
    fetched = parts.clone.root / ".hg/amalgam/fetched"
    assert [*fetched.glob("objects.git/objects/pack/*.pack")]
    assert {it.name for it in fetched.iterdir()} == {"objects.git"}
    fetched = local.clone.root / ".hg/amalgam/fetched/objects.git"
    listing = ("cat-file", "--batch-all-objects", "--batch-check")
    packed = git(fetched, *listing).decode()
    assert note in packed
    assert other not in packed


def test_hostile_packs_of_a_local_repository_are_refused(tmp_path: Path) -> None:
    """A wrong index, short packs, and notes alone, which git verifies."""
    path = tmp_path / "hostile"
    git(tmp_path, "init", "-q", "--bare", "-b", "default", str(path))
    local = Local(tmp_path, path, "hggit")
    # of one length, so that neither is a delta of the other
    blobs = [
        local.made(str(number) * 9, "hash-object", "-w", "--stdin") for number in (1, 2)
    ]
    entries = "".join(f"100644 blob {it}\t{it}\n" for it in blobs)
    tree = local.made(entries, "mktree")
    commit = git(path, "commit-tree", tree, "-m", "files").decode().strip()
    git(path, "update-ref", "refs/heads/default", commit)
    git(path, "repack", "-q", "-a", "-d")
    (pack,) = (path / "objects/pack").glob("*.pack")
    idx = pack.with_suffix(".idx")
    whole, right = pack.read_bytes(), bytearray(idx.read_bytes())
    count = int.from_bytes(right[1028:1032], "big")
    places = [right.index(bytes.fromhex(it), 1032) for it in blobs]
    wrong = bytearray(right)
    for table in (20, 24):  # checksums of entries, and their offsets
        one, two = (1032 + table * count + (place - 1032) // 20 * 4 for place in places)
        wrong[one : one + 4], wrong[two : two + 4] = (
            right[two : two + 4],
            right[one : one + 4],
        )
    wrong[-20:] = hashlib.sha1(wrong[:-20]).digest()
    for file, content in ((idx, wrong), (pack, whole[:-30]), (pack, whole[:60])):
        before = file.read_bytes()
        file.unlink()
        file.write_bytes(content)
        assert local.is_refused(_DIFFERS if file == idx else "pack")
        file.write_bytes(before)
    assert local.pull()[0] == 0
    # no commit is imported, so git verifies
    notes = Local(tmp_path, path, "cinnabar")
    note, other = (
        notes.made(it, "hash-object", "-w", "--stdin") for it in ("note", "other")
    )
    tree = notes.made(f"100644 blob {note}\t{commit}\n", "mktree")
    noted = git(path, "commit-tree", tree, "-m", "notes").decode().strip()
    git(path, "update-ref", "refs/notes/commits", noted)
    git(path, "update-ref", "-d", "refs/heads/default")
    notes.spoil(note, other)
    assert notes.is_refused("git verify-pack failed")


def test_git_asks_for_passwords(tmp_path: Path, project: HostedRepository) -> None:
    """The user's own helpers answer; without one, git fails at once."""
    project.behaviour = Behaviour(password="secret")
    clone = Clone(tmp_path / "clone")
    clone.hg("init", str(clone.root))
    code, output = clone.run("pull", f"git+{project.url}")
    assert code == 255
    assert (
        output.splitlines()[-1] == f"(see whether 'git ls-remote {project.url}' works)"
    )
    helper = tmp_path / "gitconfig"
    helper.write_text(
        '[credential]\n\thelper = "!f() { echo username=mirror; echo '
        'password=secret; }; f"\n'
    )
    clone.hg("pull", "-q", f"git+{project.url}", GIT_CONFIG_GLOBAL=str(helper))
    assert len(clone.hg("log", "-T", ".")) >= 5


def test_odd_refs_do_nothing(tmp_path: Path, project: HostedRepository) -> None:
    """Branches that are no bookmarks, and tags of no commits."""
    blob = project.git("hash-object", "-w", "HEAD")
    oid = project.git("rev-parse", "feature")
    project.git("update-ref", "refs/tags/blob", blob)
    project.git("tag", "-m", "of a blob", "blob-tag", blob)
    for name in ("123", "tip", "null", "a/-b", "é"):
        project.git("update-ref", f"refs/heads/{name}", oid)
    clone = cloned(tmp_path, project)
    names = clone.hg("bookmarks", "-T", "{bookmark} ", "--encoding", "utf-8").split()
    assert names == ["a/-b", "default", "feature", "merged", "é"]
    assert "no changes found" in clone.hg("pull")


def put_deep_branch(project: HostedRepository) -> str:
    """Make a branch whose name has more slashes than Python removes directories."""
    name = "d/" * 1100 + "deep"
    line = f"{project.git('rev-parse', 'feature')} refs/heads/{name}\n"
    (project.path / "packed-refs").write_text(line)
    return name


def test_names_are_as_deep_as_git_has_them(
    tmp_path: Path, project: HostedRepository
) -> None:
    name = put_deep_branch(project)
    clone = cloned(tmp_path, project)
    names = clone.hg("bookmarks", "-T", "{bookmark} ").split()
    assert names == [name, "default", "feature", "merged"]
    assert not [*(clone.root / ".hg/amalgam").glob("*scratch*")]


class _OldServer(Transport):
    """A repository that gives objects by the names of refs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fetch(
        self,
        into: Git,
        specs: Sequence[bytes],
        config: dict[str, str],
        limits: FetchLimits,
    ) -> list[bytes]:
        if not all(it.startswith(b"+") for it in specs):
            raise RemoteFailureError(FailureKind.RULE, b"not our ref")
        assert into.directory is not None
        repository = Path(os.fsdecode(into.directory.path))
        git(repository, "fetch", "-q", str(self.path), *map(os.fsdecode, specs))
        return []


def test_names_of_an_old_server_are_as_deep(
    tmp_path: Path, project: HostedRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched, "_FEW", 3)
    name = f"refs/heads/{put_deep_branch(project)}".encode()
    lines = git(project.path, "ls-remote", "--refs", ".").splitlines()
    wanted = {ref: oid for oid, ref in map(bytes.split, lines)}
    into = tmp_path / "into"
    git(tmp_path, "init", "-q", "--bare", str(into))
    here = Git(b"git", Directory(os.fsencode(into)))
    transport = _OldServer(project.path)
    limits = FetchLimits(1 << 20, 1 << 20)
    found = fetched._fetched(transport, here, wanted, limits)
    assert {it: oid for it, (oid, _behind) in found.items()} == wanted
    assert found[b"refs/tags/heavy"][1] == wanted[b"refs/heads/default"]
    assert name in found
    shutil.rmtree(into)


def test_bookmarks_follow_branches_that_go_back(
    tmp_path: Path, project: HostedRepository
) -> None:
    """If they did not move here; with evolution, rewritten drafts become obsolete."""
    evolution = ("--config", "experimental.evolution=all")
    for name in ("gone", "moved", "mine", "wip"):
        project.edit(f"refs/heads/{name}", name)
    clone = cloned(tmp_path, project)
    project.git("update-ref", "refs/heads/wip", "default")
    project.edit("refs/heads/wip", "rewritten")
    for name in ("gone", "moved"):
        project.git("update-ref", "-d", f"refs/heads/{name}")
    clone.hg("bookmark", "-q", "-f", "-r", "default", "moved")
    clone.hg("bookmark", "-q", "-f", "-r", "default", "mine")
    project.rewind("refs/heads/default")
    project.edit("refs/heads/default", "main")
    output = clone.hg("pull", *evolution)
    assert "deleting bookmark gone: the remote has deleted its branch" in output
    assert "keeping bookmark moved: the remote has deleted its branch" in output
    for name in ("wip", "default"):
        assert f"updating bookmark {name}: the remote has rewritten" in output
    shown = clone.hg("log", "-T", "{bookmarks} {desc}\n", *evolution).splitlines()
    assert {"wip rewritten", "default main", "mine moved three"} <= {*shown}
    hidden = ("log", "--hidden", "-r", "obsolete()", "-T", "{desc} ")
    assert clone.hg(*hidden, *evolution).split() == ["wip"]
    assert "bookmark moved" not in clone.hg("pull", *evolution)


def test_ids_of_the_remote_are_known_before_an_export(
    tmp_path: Path, project: HostedRepository
) -> None:
    clone = cloned(tmp_path, project)
    oid = project.git("rev-parse", "feature")
    assert clone.hg("log", "-r", "feature", "-T", "{gitnode}") == oid
    for id_ in (oid, oid[:12]):
        assert clone.hg("log", "-r", f"gitnode({id_})", "-T", "{desc}") == "aside"
    node = clone.hg("git::id", oid[:12]).strip()
    assert clone.hg("git::id", node).strip() == oid
    # those of exported changesets beside them
    (clone.root / "mine").write_text("mine")
    clone.hg("commit", "-A", "-q", "-m", "mine")
    assert clone.hg("log", "-r", ".", "-T", "{gitnode}") == ""
    clone.hg("git::export", "-q")
    mine = clone.hg("log", "-r", ".", "-T", "{gitnode}")
    assert clone.hg("git::id", mine, oid).split()[1:] == [node]


def test_tag_objects_and_notes_are_kept(
    tmp_path: Path, project: HostedRepository
) -> None:
    project.git("notes", "add", "-m", "reviewed", "feature")
    clone = cloned(tmp_path, project)
    assert "no changes found" in clone.hg("pull")
    assert "Notes" not in clone.hg("log", "-T", "{desc} ")
    fetched = clone.root / ".hg/amalgam/fetched"
    refs = (fetched / "cinnabar-default.refs").read_text()
    for ref in ("refs/notes/commits", "refs/tags/heavy"):
        oid = project.git("rev-parse", ref)
        assert f"{oid} " in refs
        git(fetched / "objects.git", "cat-file", "-e", oid)
    project.git("notes", "add", "-m", "again", "default")
    clone.hg("pull", "-q")
    git(
        fetched / "objects.git",
        "cat-file",
        "-e",
        project.git("rev-parse", "refs/notes/commits"),
    )


def test_paths_choose_bookmarks_and_public_branches(
    tmp_path: Path, project: HostedRepository
) -> None:
    """By a sub-option of amalgam's, and by the items of hg-git."""
    clone = cloned(
        *(tmp_path, project, "--config", "paths.*:amalgam.bookmarks=mer* other"),
        *("--config", "paths.default:hg-git.publish=feature heavy"),
    )
    shown = clone.hg(
        "log", "-r", "sort(all(), rev)", "-T", "{desc} {phase} {bookmarks}\n"
    )
    assert {*shown.splitlines()} == {
        *("one public ", "two public ", "three public default", "aside public "),
        *("octopus draft ", "octopus draft merged"),
    }
    project.git("update-ref", "-d", "refs/heads/merged")
    prune = ("--config", "git.pull-prune-bookmarks=no")
    assert "keeping bookmark merged" in clone.hg("pull", *prune)


@pytest.mark.parametrize(
    ("setting", "public"),
    [
        ("paths.default:hg-git.publish=no", ""),
        ("paths.default:hg-git.publish=yes", "one two three"),
        ("hggit.usephases=no", ""),
        ("git.public=default/feature", "one two aside"),
    ],
)
def test_phases_follow_the_items_of_hg_git(
    tmp_path: Path, project: HostedRepository, setting: str, public: str
) -> None:
    clone = cloned(tmp_path, project, "-U", "--config", setting)
    shown = clone.hg("log", "-r", "public()", "-T", "{desc} ").split()
    assert {*shown} == {*public.split()}


def test_a_branch_of_git_is_pulled_by_name(
    tmp_path: Path, project: HostedRepository
) -> None:
    project.git("branch", "twin", "feature")
    clone = cloned(tmp_path, project, "-b", "feature")
    marks = ("bookmarks", "-T", "{active}{bookmark} ")
    assert clone.hg(*marks) == "Truefeature Falsetwin "
    project.edit("refs/heads/merged", "later")
    assert "adding remote bookmark merged" in clone.hg("pull", "-b", "merged")
    code, output = clone.run("pull", "-b", "missing")
    assert (code, output.splitlines()[1:]) == (255, ["abort: unknown branch 'missing'"])


def test_many_branches_are_no_bookmarks(
    tmp_path: Path, project: HostedRepository
) -> None:
    oid = project.git("rev-parse", "feature")
    lines = "".join(f"create refs/heads/many/{it} {oid}\n" for it in range(600))
    command = ["git", "update-ref", "--stdin"]
    subprocess.run(command, cwd=project.path, input=lines, text=True, check=True)
    tagged = "".join(f"create refs/tags/t/{it} heavy\n" for it in range(3))
    subprocess.run(command, cwd=project.path, input=tagged, text=True, check=True)
    clone = cloned(tmp_path, project)
    assert clone.hg("log", "-r", "t/2", "-T", "{desc}") == "three"
    assert oids(project) <= clone.commits()
    assert clone.hg("bookmarks", "-T", "{bookmark} ") == "default "
    output = clone.hg("pull", "-B", "many/7")
    assert "adding remote bookmark many/7" in output
    assert "adding remote bookmark" not in clone.hg("pull")
    assert len((clone.root / ".hg" / "bookmarks").read_text().splitlines()) == 2


def test_pulls_of_nothing_are_remembered(
    tmp_path: Path, project: HostedRepository
) -> None:
    """As long as no file and no item has changed that they depend on."""
    clone = cloned(tmp_path, project)

    def shown() -> set[str]:
        return {*clone.hg("log", "-T", "{node} {phase} {bookmarks}\n").splitlines()}

    before = shown()
    record = clone.root / ".hg/amalgam/fetched/cinnabar-default.refs.settled"
    for change in (
        ("bookmark", "-d", "feature"),
        ("strip", "--config", "extensions.strip=", "-q", "--no-backup", "merged"),
        ("phase", "-f", "-d", "-r", "default"),
    ):
        clone.hg("pull", "-q")
        content = record.read_bytes()
        clone.hg("pull", "-q")
        assert record.read_bytes() == content
        clone.hg(*change)
        clone.hg("pull", "-q")
        assert shown() == before
    clone.hg("pull", "-q")
    suffix = ("--config", "git.branch_bookmark_suffix=-git")
    assert "adding remote bookmark feature-git" in clone.hg("pull", *suffix)


def test_nodes_are_those_of_hg_git(tmp_path: Path) -> None:
    """In its dialect. Commits come back: by the list of imports, if not otherwise.

    But for one of two that have become the same changeset. hg-git imports neither of
    ``renamed`` and ``reserved``: it stops at the name of a branch.
    """
    made = Commits(tmp_path / "project.git")
    for number, oid in enumerate(made.oids.values()):
        git(made.repo.path, "update-ref", f"refs/heads/branch{number}", oid)
    rows = (ROOT / "tests/vectors/git-import/nodes.txt").read_text().splitlines()
    expected = {row.split()[2] for row in rows} - {"-"}
    options = (
        "--config",
        "amalgam.git.dialect=hggit",
        "--config",
        "ui.username=Lab <lab@example.org>",
    )
    source = f"git+{made.repo.path.as_uri()}"
    clone = Clone(tmp_path / "clone")
    clone.hg("clone", "-U", *options, source, str(clone.root))
    with (clone.root / ".hg/hgrc").open("a") as file:
        file.write("[amalgam]\ngit.dialect = hggit\n")
    assert expected <= {*clone.hg("log", "-T", "{node}\n").split()}
    assert "no changes found" in clone.hg("pull", *options)
    commits = clone.commits()
    lost = {name for name, oid in made.oids.items() if oid not in commits}
    assert lost == {"renamed", "twin-other"}
    refs = ("--config", "amalgam.git.refs=heads,tips")
    assert "no differences" in clone.hg("git::verify", "--full", *refs)


def test_extras_keep_ids_in_the_dialect_of_hg_git(
    tmp_path: Path, project: HostedRepository
) -> None:
    settings = "amalgam.git.dialect=hggit", "amalgam.git.push-exact=yes"
    options = [word for it in settings for word in ("--config", it)]
    clone = cloned(tmp_path, project, *options)
    with (clone.root / ".hg/hgrc").open("a") as file:
        file.write("[amalgam]\ngit.dialect = hggit\n")
    project.edit("refs/heads/default", "later")
    assert "other ids" not in clone.hg("pull", "-u")
    assert oids(project) <= clone.commits()
    (clone.root / "mine").write_text("mine")
    clone.hg("commit", "-A", "-q", "-m", "mine")
    assert "updating reference refs/heads/default" in clone.hg("push")


def test_hg_git_keeps_its_remotes(tmp_path: Path, project: HostedRepository) -> None:
    (tmp_path / "hggit.py").write_text("")
    clone = Clone(tmp_path / "clone")
    hggit = ("--config", f"extensions.hggit={tmp_path / 'hggit.py'}")
    code, output = clone.run("clone", *hggit, str(project.path), str(clone.root))
    assert code == 255
    assert "not found" in output
    assert output.startswith("(git remotes are those of the extension hggit")
    assert os.listdir(tmp_path).count("clone") == 0
