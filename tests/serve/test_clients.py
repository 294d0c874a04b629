"""What git clients get from hgweb: real ones, in all the ways in which they fetch."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dulwich.client
import dulwich.repo
import pytest
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from testlib.bundled import Bundled
from testlib.environment import ENVIRONMENT, HG, add_config, captured, git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.webserver import ON, SERVICE, WebServer, serving, started

from hgext3rd.amalgam.serve import pktlines

pytestmark = pytest.mark.slow

SERVE = "--config=amalgam.git.serve=yes"
MANY_REFS = 100_000
WANT_BYTES = len("0032want \n") + 40


@pytest.fixture(scope="module")
def web(exported_template: Exported) -> Iterator[WebServer]:
    with serving(exported_template.root, SERVE, *WITH) as server:
        yield server


WITH = ("--config=extensions.amalgam=",)
VERSIONS = ("0", "1", "2")


def fetching(
    cwd: Path, *args: str, version: str = "2"
) -> subprocess.CompletedProcess[bytes]:
    """Run git, whatever comes of it."""
    command = ["git", "-c", f"protocol.version={version}", *args]
    return captured(command, cwd)


def cloned(web: WebServer, target: Path, *options: str, version: str = "2") -> Path:
    """Clone what is served, and check all of it."""
    done = fetching(
        target.parent, "clone", "-q", *options, web.url, str(target), version=version
    )
    assert not done.returncode, done.stderr.decode() + web.said()
    return target


@pytest.mark.parametrize("version", VERSIONS)
def test_clone_is_what_was_exported(
    web: WebServer, exported_template: Exported, tmp_path: Path, version: str
) -> None:
    clone = cloned(web, tmp_path / "clone", "--mirror", version=version)
    git(clone, "fsck", "--strict", "--full")
    shown = git(clone, "show-ref").decode()
    expected = exported_template.git("show-ref").splitlines()
    visible = [line for line in expected if "refs/cinnabar" not in line]
    assert shown.splitlines() == visible
    head = (clone / "HEAD").read_text()
    assert head == (exported_template.git_dir / "HEAD").read_text()


@pytest.fixture(scope="module")
def many_refs(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Exported:
    """A repository with 100,000 bookmarks."""
    store = Exported.init(tmp_path_factory.mktemp("many") / "repo", server)
    store.commit_nothing("one")
    node = store.hg("log", "-r", "tip", "-T", "{node}")
    lines = (f"{node} mark{number:06}\n" for number in range(MANY_REFS))
    (store.root / ".hg" / "bookmarks").write_text("".join(lines))
    store.hg("git::export")
    return store


@pytest.mark.torture
@pytest.mark.parametrize("version", ["0", "2"])
def test_mirror_of_many_refs_passes_with_the_default_limit(
    many_refs: Exported, tmp_path: Path, version: str
) -> None:
    """git wants the commit of each ref, also if it is always the same one."""
    clone = ("clone", "-q", "--mirror")
    with serving(many_refs.root, SERVE, *WITH) as web:
        mirror = cloned(web, tmp_path / "mirror", *clone[2:], version=version)
    assert len(git(mirror, "for-each-ref").splitlines()) >= MANY_REFS
    limit = f"--config=amalgam.serve.max-body={MANY_REFS * WANT_BYTES >> 11} KB"
    with serving(many_refs.root, SERVE, *WITH, limit) as web:
        done = fetching(tmp_path, *clone, web.url, "refused", version=version)
        assert done.returncode
        assert any("refused with 413" in line for line in web.logged())


def test_checkout_has_the_files(
    web: WebServer, exported_template: Exported, tmp_path: Path
) -> None:
    clone = cloned(web, tmp_path / "clone")
    assert (clone / "dir/below/common").read_text() == "common 5\n"
    assert git(clone, "status", "--porcelain") == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_refs_are_listed(
    web: WebServer, exported_template: Exported, tmp_path: Path, version: str
) -> None:
    done = fetching(tmp_path, "ls-remote", web.url, version=version)
    listed = done.stdout.decode()
    assert "refs/heads/feature/one" in listed
    assert "refs/tags/v1" in listed
    assert "refs/cinnabar" not in listed
    oid = exported_template.ids("@")[1]
    assert f"{oid}\tHEAD" in listed


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_takes_what_is_new_at_once(
    store: Exported, tmp_path: Path, version: str
) -> None:
    store.hg("bookmark", "-d", "@")  # it would be HEAD
    with serving(store.root, SERVE, *WITH) as web:
        clone = cloned(web, tmp_path / "clone", version=version)
        for number in range(3):
            (store.root / "new").write_text(f"{number}\n")
            store.hg("commit", "-qAm", f"new {number}", "-d", f"{20 + number} 0")
            done = fetching(clone, "pull", "-q", version=version)
            assert not done.returncode, done.stderr.decode() + web.said()
            assert (clone / "new").read_text() == f"{number}\n"
        git(clone, "fsck", "--strict")


def test_compressed_request_is_understood(store: Exported, tmp_path: Path) -> None:
    with serving(store.root, SERVE, *WITH) as web:
        clone = cloned(web, tmp_path / "clone")
        tree = git(clone, "rev-parse", "HEAD^{tree}").decode().strip()
        parents: list[str] = []
        for number in range(300):
            args = [arg for parent in parents for arg in ("-p", parent)]
            oid = git(clone, "commit-tree", tree, *args, "-m", str(number))
            parents = [oid.decode().strip()]
        git(clone, "update-ref", "refs/heads/mine", parents[0])
        (store.root / "new").write_text("new\n")
        store.hg("commit", "-qAm", "new", "-d", "20 0")
        done = fetching(clone, "fetch", "-q", "origin")
        assert not done.returncode, done.stderr.decode() + web.said()
        new = store.ids("tip")[1]
        assert git(clone, "rev-parse", "origin/default").decode().strip() == new


@pytest.mark.parametrize("version", VERSIONS)
def test_long_request_comes_in_chunks(
    many_heads: Exported, tmp_path: Path, version: str
) -> None:
    heads = "--config=amalgam.git.refs=heads"
    environment = ENVIRONMENT | {"GIT_CURL_VERBOSE": "1"}
    with serving(many_heads.root, SERVE, heads, *WITH) as web:
        command = ["git", "-c", "http.postBuffer=65537"]
        command += ["-c", f"protocol.version={version}"]
        command += ["clone", "-q", "--mirror", web.url, str(tmp_path / "clone")]
        done = subprocess.run(command, env=environment, capture_output=True)
        assert not done.returncode, done.stderr.decode()[-2000:] + web.said()
    assert b"Transfer-Encoding: chunked" in done.stderr
    refs = git(tmp_path / "clone", "for-each-ref").splitlines()
    assert len(refs) >= HEADS


@pytest.fixture(scope="module")
def many_heads(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Exported:
    """A repository with more heads than fit into one buffer of git's."""
    store = Exported.init(tmp_path_factory.mktemp("heads") / "repo", server)
    store.hg("debugbuilddag", "+1:r" + "*r" * HEADS)
    store.hg("phase", "--public", "all()")
    store.hg("git::export", "--config", "amalgam.git.refs=heads")
    return store


HEADS = 1500


def test_shallow_clone_deepens(web: WebServer, tmp_path: Path) -> None:
    clone = cloned(web, tmp_path / "clone", "--depth=1")
    assert git(clone, "rev-list", "--count", "HEAD") == b"1\n"
    assert not fetching(clone, "fetch", "-q", "--deepen=2").returncode
    assert not fetching(clone, "fetch", "-q", "--unshallow").returncode
    assert not (clone / ".git" / "shallow").exists()
    git(clone, "fsck", "--strict")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "spec", ["blob:none", "blob:limit=1", "tree:0", "tree:1", "object:type=commit"]
)
def test_partial_clone_fetches_the_rest_when_it_is_needed(
    web: WebServer, tmp_path: Path, spec: str, version: str
) -> None:
    clone = cloned(web, tmp_path / "clone", f"--filter={spec}", version=version)
    git(clone, "config", "protocol.version", version)
    missing = git(clone, "rev-list", "--objects", "--missing=print", "--all")
    assert b"\n?" in missing
    assert b"common 0" in git(clone, "log", "-p", "--reverse")
    git(clone, "fsck")


@pytest.mark.parametrize("version", VERSIONS)
def test_commit_of_no_ref_is_fetched_by_id(
    web: WebServer, exported_template: Exported, tmp_path: Path, version: str
) -> None:
    """As ``git submodule update`` does for a commit that no branch ends with."""
    git(tmp_path, "init", "-q", "clone")
    oid = exported_template.ids("1")[1]
    command = ("fetch", "-q", "--depth=1", web.url, oid)
    done = fetching(tmp_path / "clone", *command, version=version)
    assert not done.returncode, done.stderr.decode()
    assert git(tmp_path / "clone", "rev-list", "FETCH_HEAD").decode().strip() == oid


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--shallow-exclude=NOSUCH", b"'NOSUCH' is no branch and no tag"),
        ("--shallow-since=2037-01-01", b"no commit is left"),
    ],
)
def test_client_reads_what_git_complains_about(
    web: WebServer, tmp_path: Path, option: str, reason: bytes, version: str
) -> None:
    done = fetching(tmp_path, "clone", option, web.url, "clone", version=version)
    assert done.returncode
    assert b"remote error: " + reason in done.stderr


@pytest.mark.parametrize("spec", ["sparse:oid=v1:x", "combine:tree:0+tree:1"])
def test_filter_that_costs_much_is_refused(
    web: WebServer, tmp_path: Path, spec: str
) -> None:
    command = ["clone", "--bare", f"--filter={spec}", web.url, "clone"]
    done = fetching(tmp_path, *command)
    assert done.returncode
    assert b"filter" in done.stderr


def test_one_branch_and_sparse_checkout(web: WebServer, tmp_path: Path) -> None:
    clone = cloned(web, tmp_path / "one", "--single-branch", "--branch=stable")
    refs = git(clone, "for-each-ref", "--format=%(refname)", "refs/remotes").split()
    assert refs == [b"refs/remotes/origin/stable"]
    clone = cloned(web, tmp_path / "sparse", "--sparse", "--filter=blob:none")
    assert not (clone / "dir").exists()
    assert not fetching(clone, "sparse-checkout", "set", "dir/below").returncode
    assert (clone / "dir/below/common").exists()


@pytest.mark.parametrize("version", [0, 2])
def test_dulwich_clones_and_fetches(
    store: Exported, tmp_path: Path, version: int
) -> None:
    # a client that shares no code with git
    store.hg("bookmark", "-d", "@")  # it would be HEAD
    with (
        serving(store.root, SERVE, *WITH) as web,
        dulwich.repo.Repo.init_bare(str(tmp_path / "clone"), mkdir=True) as clone,
        dulwich.repo.Repo.init_bare(str(tmp_path / "shallow"), mkdir=True) as shallow,
    ):
        client = dulwich.client.HttpGitClient(web.url)
        for number in range(3):
            found = client.fetch("", clone, protocol_version=version)
            assert found.refs == listed(store)
            for name, oid in found.refs.items():
                assert oid is not None
                clone.refs[name] = oid
            git(tmp_path / "clone", "fsck", "--strict", "--full")
            tip = ObjectID(store.ids("default")[1].encode())
            assert found.refs[Ref(b"refs/heads/default")] == tip
            (store.root / "new").write_text(f"{number}\n")
            store.hg("commit", "-qAm", f"new {number}", "-d", f"{20 + number} 0")
        client.fetch(
            "", shallow, lambda *_, **__: [tip], depth=1, protocol_version=version
        )
        assert git(tmp_path / "shallow", "rev-list", "--count", tip.decode()) == b"1\n"
        refs = client.get_refs(b"", protocol_version=version).refs
        assert refs == listed(store)


def listed(store: Exported) -> dict[bytes, bytes]:
    """Return the refs that ``git ls-remote`` lists, but peeled ones."""
    said = store.git("ls-remote", ".").splitlines()
    pairs = (line.split("\t") for line in said)
    return {
        name.encode(): oid.encode()
        for oid, name in pairs
        if not name.startswith("refs/cinnabar") and not name.endswith("^{}")
    }


def test_directory_of_repositories_is_served(
    exported_template: Exported, store: Exported, tmp_path: Path
) -> None:
    repo = exported_template.copied(tmp_path, "served").root
    (tmp_path / "conf").write_text(f"[paths]\na/one = {repo}\ntwo = {store.root}\n")
    add_config(repo, "[amalgam]\ngit.serve = yes\n")
    conf = f"--webdir-conf={tmp_path / 'conf'}"
    with serving(tmp_path, conf, *WITH) as web:
        web.url += "a/one"
        cloned(web, tmp_path / "clone")
        done = fetching(tmp_path, "ls-remote", f"http://127.0.0.1:{web.port}/two")
        assert b"remote: this server does not serve git" in done.stderr
        done = fetching(tmp_path, "ls-remote", f"http://127.0.0.1:{web.port}/three")
        assert done.returncode


def test_git_may_be_appended_to_an_address(
    exported_template: Exported, store: Exported, tmp_path: Path
) -> None:
    paths = {
        "in/one": exported_template.root,
        "two.git": store.root,
        "two": exported_template.root,
        "dir.git/three": store.root,
    }
    lines = [f"{name} = {path}\n" for name, path in paths.items()]
    (tmp_path / "conf").write_text("".join(["[paths]\n", *lines]))
    conf = f"--webdir-conf={tmp_path / 'conf'}"
    with serving(tmp_path, conf, "--prefix=hg", *ON) as web:
        head = exported_template.git("rev-parse", "HEAD")
        url = f"{web.url}hg/in/one.git"
        git(tmp_path, "clone", "-q", url, "clone")
        assert git(tmp_path / "clone", "rev-parse", "HEAD").decode().strip() == head
        git(tmp_path / "clone", "fetch", "-q")
        for asked, found in {
            f"hg/in/one.git/{SERVICE}": f"/hg/in/one/{SERVICE}",
            "hg/in/one.git": "/hg/in/one",
            # as much as is said of one that does not exist, or may not be read
            "hg/no such.git/x?a=%0a": "/hg/no%20such/x?a=%0a",
            f"hg/in/one/.git/{SERVICE}": f"/hg/in/one/{SERVICE}",
        }.items():
            answer = web.ask(asked.replace(" ", "%20"))
            assert (answer[0], answer[1]["Location"]) == (302, found)
        for path, status in {
            f"hg/two.git/{SERVICE}": 200,
            "hg/dir.git/": 200,
            "hg/in/one/file/tip/x.git": 404,
            "hg/in/one/.git/config": 400,
        }.items():
            assert web.ask(path)[0] == status, path
        assert web.ask("hg/in/one.git/git-upload-pack", "POST", b"0000")[0] == 404
    with serving(exported_template.root, *ON) as web:
        git(tmp_path, "clone", "-q", f"{web.url}.git", "of-one")


def test_any_wsgi_server_will_do(exported_template: Exported, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(WSGI.format(root=str(exported_template.root)))
    python = str(HG.with_name("python3"))
    with started([python, str(script)], tmp_path) as web:
        for version in VERSIONS:
            clone = cloned(web, tmp_path / version, version=version)
            git(clone, "fsck", "--strict")
        # wsgiref decodes no chunked request, and says nothing of it
        status, _headers, body = web.ask(
            "git-upload-pack",
            "POST",
            b"4\r\n0000\r\n0\r\n\r\n",
            Content_Length="",
            Transfer_Encoding="chunked",
        )
        assert (status, b"http.postBuffer" in body) == (411, True)


WSGI = """
import sys
from mercurial import demandimport
demandimport.enable()
from mercurial import extensions, ui as uimod
from mercurial.hgweb import hgweb
from wsgiref.simple_server import WSGIServer, make_server
import socketserver

class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

ui = uimod.ui.load()
ui.setconfig(b"extensions", b"amalgam", b"")
ui.setconfig(b"amalgam", b"git.serve", b"yes")
extensions.loadall(ui)
extensions.populateui(ui)
application = hgweb({root!r}.encode(), baseui=ui)
server = make_server("127.0.0.1", 0, application, Server)
print(f"listening at http://127.0.0.1:{{server.server_port}}/", flush=True)
server.serve_forever()
"""


def test_clients_of_mercurial_notice_nothing(
    exported_template: Exported, tmp_path: Path
) -> None:
    answers = []
    for value in ("yes", "no"):
        option = f"--config=amalgam.git.serve={value}"
        with serving(exported_template.root, option, *WITH) as web:
            target = tmp_path / value
            exported_template.server.hg(tmp_path, "clone", "-q", web.url, str(target))
            routes = ("?cmd=capabilities", "?cmd=heads", "raw-file/tip/last", "raw-log")
            found = [web.ask(route)[2] for route in routes]
            answers.append(
                [body.replace(str(web.port).encode(), b"") for body in found]
            )
            assert (target / "file0").exists()
    assert answers[0] == answers[1]


def test_bundles_are_named_to_those_who_ask(published: Bundled) -> None:
    options = ("amalgam.git.serve=yes", "amalgam.serve.bundle-uri=yes")
    asked = b"0017command=bundle-uri\n00010000"
    with serving(published.root, *(f"--config={it}" for it in options)) as web:
        advertised = web.ask(SERVICE, Git_Protocol="version=2")[2]
        assert advertised.endswith(b"000fbundle-uri\n0000")
        status, _headers, body = web.ask(
            "git-upload-pack", "POST", asked, Git_Protocol="version=2"
        )
        assert status == 200
        lines = [*pktlines.lines(io.BytesIO(body))]
        assert lines[:2] == [b"bundle.version=1", b"bundle.mode=all"]
        (uri,) = (it for it in lines if b".uri=" in it)
        name = published.live("git-v2").name
        assert uri.endswith(f"=http://x/amalgam/bundles/{name}".encode())
        assert lines[-1] == pktlines.FLUSH
    with serving(published.root, f"--config={options[0]}") as web:
        assert b"bundle-uri" not in web.ask(SERVICE, Git_Protocol="version=2")[2]
        found = web.ask("git-upload-pack", "POST", asked, Git_Protocol="version=2")
        assert found[0] == 400


@pytest.mark.needs("git-2.40")
def test_git_takes_the_bundles_that_are_named(
    published: Bundled, tmp_path: Path
) -> None:
    options = ("amalgam.git.serve=yes", "amalgam.serve.bundle-uri=yes")
    with serving(published.root, *(f"--config={it}" for it in options)) as web:
        for value, count in (("false", 0), ("true", 1)):
            command = ["git", "-c", f"transfer.bundleURI={value}"]
            command += ["clone", "-q", "--mirror", web.url, str(tmp_path / value)]
            trace = tmp_path / f"trace-{value}"
            environment = ENVIRONMENT | {"GIT_TRACE_CURL": str(trace)}
            done = subprocess.run(command, env=environment, capture_output=True)
            assert (done.returncode, done.stderr) == (0, b""), web.said()
            name = published.live("git-v2").name
            said = trace.read_text(errors="replace")
            assert said.count(f": GET /amalgam/bundles/{name} ") == count
            git(tmp_path / value, "fsck", "--strict")
