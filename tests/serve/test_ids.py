"""Ids over HTTP: who gets which, and what is as if it did not exist."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testlib import passwords
from testlib.environment import add_config
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.hiding import EVENTS, PLANTED, unpublished, with_draft
from testlib.webserver import ON, WebServer, answer_of, serving

pytestmark = pytest.mark.slow

JSON = "application/json"
NOWHERE = "0123456789" * 4


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory, server: HgServer) -> Exported:
    """Sixty served changesets, and some exported ones that become secret or hidden."""
    store = unpublished(tmp_path_factory.mktemp("ids") / "repo", server)
    store.hg("debugbuilddag", "+60")
    store.hg("phase", "--public", "tip")
    store.hg("update", "-q", "tip")
    for name in ("secret", "hidden"):
        for number in range(4):
            (store.root / name).write_text(f"{number}")
            store.hg("commit", "-qAm", name, "-d", f"{number} 0")
        store.hg("update", "-q", "59")
    store.hg("git::export")
    return store


@pytest.fixture(scope="module")
def unserved(repo: Exported) -> list[str]:
    """The ids of what was exported, and is not served any more."""
    listed = repo.hg("log", "-r", "60:", "-T", "{node} {gitnode}\n").splitlines()
    repo.hg("phase", "--force", "--secret", "desc(secret)")
    for line in listed[4:]:
        repo.hg("debugobsolete", line.split()[0])
    return [id_ for line in listed for id_ in line.split()]


@pytest.fixture(scope="module")
def known(repo: Exported, unserved: list[str]) -> list[tuple[str, str]]:
    """Node and oid of what is served."""
    assert unserved
    lines = repo.hg("log", "-r", "0:59", "-T", "{node} {gitnode}\n").splitlines()
    return [(line.split()[0], line.split()[1]) for line in lines]


@pytest.fixture(scope="module")
def web(repo: Exported, known: list[tuple[str, str]]) -> Iterator[WebServer]:
    assert len(known) == 60
    with serving(repo.root, *ON) as server:
        yield server


def one(web: WebServer, id_: str) -> tuple[int, Any]:
    status, answered, body = web.ask(f"amalgam/id/{id_}")
    assert answered["Content-Type"] == JSON
    return status, json.loads(body)


def post(
    web: WebServer, body: bytes, path: str = "amalgam/id", **headers: str
) -> tuple[int, Any]:
    headers.setdefault("Content_Type", JSON)
    status, answered, said = web.ask(path, "POST", body, **headers)
    assert answered["Content-Type"] == JSON
    return status, json.loads(said)


def answer(
    web: WebServer, path: str, method: str = "GET", body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """Return all that a client sees, but for the time."""
    status, headers, said = web.ask(path, method, body, Content_Type=JSON)
    del headers["Date"]
    return status, headers, said


def many(web: WebServer, ids: list[str], **headers: str) -> list[Any]:
    status, said = post(web, json.dumps({"ids": ids}).encode(), **headers)
    assert status == 200, said
    found: list[Any] = said["ids"]
    assert len(found) == len(ids)
    return found


def test_both_ids_are_answered_for_either(
    web: WebServer, known: list[tuple[str, str]]
) -> None:
    node, oid = known[7]
    pair = {"node": node, "gitnode": oid}
    assert one(web, node) == (200, {"kind": "hg", **pair})
    assert one(web, oid) == (200, {"kind": "git", **pair})
    assert one(web, oid[:20].upper()) == (200, {"kind": "git", **pair})
    asked = [oid, node, oid[:20], node[:20], "tip", NOWHERE]
    found = many(web, asked)
    assert [it.get("kind") for it in found[:4]] == ["git", "hg", "git", "hg"]
    assert all(it["node"] == node for it in found[:4])
    assert found[4:] == [{"error": "unknown"}] * 2


def test_abbreviation_is_looked_up_among_what_is_served(
    web: WebServer, known: list[tuple[str, str]], unserved: list[str]
) -> None:
    every = [id_ for pair in known for id_ in pair]
    asked = [id_[:digits] for id_ in every + unserved for digits in range(1, 9)]
    for id_, found in zip(asked, many(web, asked), strict=True):
        expected = [full for full in every if full.startswith(id_)]
        if len(expected) == 1:
            assert expected[0] in (found["node"], found["gitnode"])
        else:
            reason = "ambiguous" if expected else "unknown"
            assert found == {"error": reason}
    # some would be ambiguous, or found, if what is not served counted
    assert any(
        sum(full.startswith(id_) for full in every) == 1
        and any(full.startswith(id_) for full in unserved)
        for id_ in asked
    )


def test_what_is_not_served_is_answered_as_what_does_not_exist(
    web: WebServer, unserved: list[str]
) -> None:
    for ids in (unserved, [id_[:30] for id_ in unserved]):
        for id_ in ids:
            nowhere = NOWHERE[: len(id_)]
            one, other = (answer(web, f"amalgam/id/{it}") for it in (id_, nowhere))
            assert one == other
            asked = [json.dumps({"ids": [it]}).encode() for it in (id_, nowhere)]
            one, other = (answer(web, "amalgam/id", "POST", body) for body in asked)
            assert one == other


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_what_stops_being_served_is_unknown_from_then_on(
    tmp_path: Path, server: HgServer, event: Callable[[Exported], None]
) -> None:
    store = with_draft(tmp_path / "repo", server)
    store.hg("git::export")
    ids = store.ids(PLANTED)
    with serving(store.root, *ON) as web:
        assert [it.get("gitnode") for it in many(web, [*ids])] == [ids[1]] * 2
        event(store)
        assert many(web, [*ids, ids[0][:12]]) == [{"error": "unknown"}] * 3
        assert one(web, ids[0]) == (404, {"error": "unknown"})


def test_changeset_that_is_not_exported_has_no_commit(
    tmp_path: Path, server: HgServer
) -> None:
    store = with_draft(tmp_path / "repo", server)
    public = "--config=amalgam.git.export=public"
    draft = store.hg("log", "-r", "tip", "-T", "{node}")
    with serving(store.root, *ON, public) as web:
        found = {"kind": "hg", "node": draft, "gitnode": None}
        assert one(web, draft) == (200, found)
        # it is looked up in full only
        assert many(web, [draft, draft[:20]]) == [found, {"error": "unknown"}]
        # ids that Mercurial uses for what is no changeset
        for id_ in ("0" * 40, "f" * 40, "0" * 39):
            assert one(web, id_) == (404, {"error": "unknown"})


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        (["web.deny_read=*"], 401),
        (["web.allow_read=alice"], 401),
        (["web.allow-pull=no"], 401),
        ([f"extensions.passwords={passwords.__file__}"], 401),
        (["amalgam.git.serve=no"], 403),
        (["narrowacl.default.includes=dir"], 403),
        (["amalgam.git.exprot=public"], 503),
    ],
)
def test_who_may_not_pull_gets_no_ids(
    repo: Exported, known: list[tuple[str, str]], rules: list[str], status: int
) -> None:
    options = [f"--config={rule}" for rule in rules]
    with serving(repo.root, *ON, *options) as web:
        for id_ in (known[0][0], NOWHERE):
            found = one(web, id_)
            assert found[0] == status
            assert found == one(web, "x")
            assert post(web, json.dumps({"ids": [id_]}).encode()) == found


def test_repository_of_a_collection_answers(
    repo: Exported, known: list[tuple[str, str]], tmp_path: Path
) -> None:
    node, oid = known[3]
    (tmp_path / "plain").mkdir()
    repo.server.hg(tmp_path, "init", str(tmp_path / "plain"))
    config = tmp_path / "web.conf"
    config.write_text(f"[paths]\nin/a = {repo.root}\nplain = {tmp_path / 'plain'}\n")
    add_config(repo.root, "[amalgam]\ngit.serve = yes\n")
    enabled = "--config=extensions.amalgam="
    with serving(tmp_path, f"--web-conf={config}", enabled) as web:
        status, _headers, body = web.ask(f"in/a/amalgam/id/{node}")
        assert (status, json.loads(body)["gitnode"]) == (200, oid)
        found = post(web, json.dumps({"ids": [oid]}).encode(), path="in/a/amalgam/id")
        assert found[1]["ids"][0]["node"] == node
        assert web.ask(f"plain/amalgam/id/{node}")[0] == 403


@pytest.mark.parametrize(
    ("path", "method", "expected"),
    [
        ("amalgam/id", "GET", 405),
        ("amalgam/id/", "GET", 405),
        ("amalgam/id/abc", "POST", 405),
        ("amalgam/id", "PUT", 405),
        ("amalgam/id/%2e%2e/id", "GET", 404),
        ("amalgam/id/../../.hg/hgrc", "GET", 404),
        ("amalgam/id/..%2f..%2f.hg%2fhgrc", "GET", 404),
        ("amalgam/id/%00", "GET", 404),
        ("amalgam/id/%ff%fe", "GET", 404),
        ("amalgam/id/<script>", "GET", 404),
        ("amalgam/id/" + "a" * 41, "GET", 404),
        ("amalgam/id/" + "a" * 10_000, "GET", 404),
        ("amalgam/id/-1", "GET", 404),
        ("amalgam/id/tip", "GET", 404),
        ("amalgam/id/all()", "GET", 404),
        ("amalgam/id/x?cmd=heads", "GET", 404),
    ],
)
def test_all_else_is_refused(
    web: WebServer, path: str, method: str, expected: int
) -> None:
    status, headers, body = web.ask(path, method, Content_Type=JSON)
    assert (status, headers["Content-Type"]) == (expected, JSON)
    assert list(json.loads(body)) == ["error"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    if expected == 404:
        assert json.loads(body) == {"error": "unknown"}


def test_slash_after_an_id_is_no_id(
    web: WebServer, known: list[tuple[str, str]]
) -> None:
    assert one(web, known[0][0] + "/") == (404, {"error": "unknown"})


def test_head_has_the_length_of_the_answer(
    web: WebServer, known: list[tuple[str, str]]
) -> None:
    for id_ in (known[0][0], NOWHERE):
        got, asked = (answer(web, f"amalgam/id/{id_}", it) for it in ("GET", "HEAD"))
        assert asked == (*got[:2], b"")
        assert int(got[1]["Content-Length"]) == len(got[2])


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b"", {}, 400),
        (b"{", {}, 400),
        (b"null", {}, 400),
        (b"[]", {}, 400),
        (b"{}", {}, 400),
        (b'{"ids": "abc"}', {}, 400),
        (b'{"ids": {"abc": 1}}', {}, 400),
        (b'{"ids": [1]}', {}, 400),
        (b'{"ids": [null]}', {}, 400),
        (b'{"ids": [["abc"]]}', {}, 400),
        (b'{"ids": ["abc\xff"]}', {}, 400),
        (b"[" * 200_000, {}, 400),
        (b"9" * 200_000, {}, 400),
        (b'{"ids": []}', {"Content_Type": "text/plain"}, 415),
        (b'{"ids": []}', {"Content_Type": "application/jsonx"}, 415),
        (b'{"ids": []}', {"Content_Encoding": "br"}, 415),
        (b'{"ids": []}', {"Content_Encoding": "gzip"}, 400),
        (b'{"ids": [%s""]}' % (b'"",' * 10_000), {}, 413),
        (b'{"ids": [%s""]}' % (b" " * (1 << 20)), {}, 413),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_malformed_requests_are_refused(
    web: WebServer, body: bytes, headers: dict[str, str], expected: int
) -> None:
    status, said = post(web, body, **headers)
    assert (status, list(said)) == (expected, ["error"])
    assert one(web, NOWHERE)[0] == 404


def test_bomb_is_refused(web: WebServer) -> None:
    bomb = gzip.compress(b" " * (64 << 20), mtime=0)
    assert post(web, bomb, Content_Encoding="gzip")[0] == 413


def test_as_many_as_allowed_are_answered(
    web: WebServer, known: list[tuple[str, str]]
) -> None:
    asked = [id_ for pair in known for id_ in pair] * 83
    asked += ['"\u20ac\ud800<', ""] * 20
    assert len(asked) == 10_000
    found = many(web, asked, Content_Type=f"{JSON}; charset=utf-8")
    assert sum("gitnode" in it for it in found) == 9960
    assert found[9960:] == [{"error": "unknown"}] * 40
    body = gzip.compress(json.dumps({"ids": asked}).encode())
    assert post(web, body, Content_Encoding="gzip")[1]["ids"] == found


def test_nothing_is_smuggled(web: WebServer) -> None:
    inner = b"GET /amalgam/id/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    for first in (
        b"GET /amalgam/id/%s HTTP/1.1\r\n" % NOWHERE.encode(),
        b"PUT /amalgam/id HTTP/1.1\r\n",
        b"POST /amalgam/id HTTP/1.1\r\nContent-Type: text/plain\r\n",
    ):
        request = first + b"Host: x\r\nContent-Length: %d\r\n\r\n" % len(inner)
        found = web.exchange(request + inner)
        assert found.count(b"HTTP/1.1 ") == 1
        assert answer_of(found)[0] in (400, 405, 415)


def test_connection_is_kept_after_an_answer(
    web: WebServer, known: list[tuple[str, str]]
) -> None:
    body = json.dumps({"ids": [known[0][0]]}).encode()
    head = b"Host: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n" % (
        JSON.encode(),
        len(body),
    )
    first = b"POST /amalgam/id HTTP/1.1\r\n" + head + b"\r\n" + body
    second = b"HEAD /amalgam/id/%s HTTP/1.1\r\nHost: x\r\n\r\n" % known[0][0].encode()
    last = b"GET /amalgam/id/%s HTTP/1.1\r\nHost: x\r\n" % known[1][1].encode()
    found = web.exchange(first + second + last + b"Connection: close\r\n\r\n")
    assert found.count(b"HTTP/1.1 200 ") == 3
    assert json.loads(found.rpartition(b"\r\n\r\n")[2])["node"] == known[1][0]


def test_each_request_is_logged(web: WebServer) -> None:
    one(web, NOWHERE)
    assert any(line.startswith("git id of ") for line in web.logged())
