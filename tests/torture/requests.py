"""Requests that a grammar draws, to a server that runs: fetches and pushes.

Each is drawn as a client could send it. Then parts of most are dropped, repeated,
exchanged or damaged. It goes over HTTP, or over ssh. No answer may be a status of 500,
a traceback or a hang. For fetches, git is the oracle: upload-pack answers the same
bytes from a copy of the store. After the pushes of a round, both worlds verify.

Whatever is wrong is printed with the seed, the number and the bytes of the request.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import itertools
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from testlib.environment import ENVIRONMENT, captured, git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.hiding import EVENTS, planted, with_draft
from testlib.pushing import NOTHING, ON as PUSHING, Clone, PushServer, pushable
from testlib.webserver import ON, WebServer, serving

from hgext3rd.amalgam.serve import uploadpack
from hgext3rd.amalgam.serve.pktlines import DELIMITER, FLUSH, line

_PUSHES_A_ROUND = 40
_LONGEST_SECONDS = 300
_FETCH, _PUSH = "git-upload-pack", "git-receive-pack"
_UNKNOWN = "1" * 40
_ODD_IDS = (_UNKNOWN, NOTHING, "z" * 40, _UNKNOWN[:12], "A" * 40, "")
#: Values of a name in braces, the usual first: most requests have that.
_GRAMMAR: dict[str, tuple[str, ...]] = {
    "number": ("1", "2", "0", "50", "-1", "99999999999", "x", ""),
    "ref": (
        *("refs/heads/default", "default", "refs/heads/", "refs/tags/v1", "HEAD"),
        *("NOSUCH", "refs/heads/a..b", "refs/hg/x", "refs/cinnabar/metadata", ""),
    ),
    "filter": (
        *("blob:none", "blob:limit=1k", "tree:{number}", "object:type=tree"),
        *("blob:limit={number}", "sparse:oid={id}", "combine:blob:none+tree:1", "x"),
    ),
    "command": ("fetch", "fetch", "fetch", "ls-refs", "object-info", "bundle-uri", "x"),
    "key": (
        *("agent=git/2.39.5", "object-format=sha1", "server-option=x", "agent"),
        *("session-id=y", "object-format=sha256", "command=fetch", "x", ""),
    ),
    "feature": (
        *("ofs-delta", "no-progress", "thin-pack", "include-tag", "deepen-relative"),
        *("side-band-64k", "multi_ack_detailed", "no-done", "filter", "x", ""),
    ),
    "have": ("have {id}", "have {id}", "done", "have {hidden}", "x"),
    "limit": (
        *("deepen {number}", "filter {filter}", "shallow {id}", "deepen-not {ref}"),
        *("deepen-since {number}", "want {id}", "want {hidden}"),
    ),
    "argument": (
        *("want {id}", "want {id}", "done", "{feature}", "{limit}", "have {id}"),
        *("wait-for-done", "have {hidden}", "want {hidden}", "sideband-all"),
        *("want-ref {ref}", "packfile-uris https"),
    ),
    "query": ("peel", "symrefs", "unborn", "ref-prefix {ref}", "ref-prefix", "x", ""),
    "pushed ref": (
        *("refs/heads/default", "refs/heads/new", "refs/tags/t", "refs/heads/new/er"),
        *("refs/heads/@", "refs/heads/a b", "refs/for/x", "refs/notes/commits"),
        *("HEAD", ""),
    ),
    "push feature": (
        *("report-status", "side-band-64k", "ofs-delta", "report-status-v2", "atomic"),
        *("quiet", "agent=git/2.39.5", "object-format=sha1", "x", ""),
    ),
    "option": ("force", "ci.skip", "x=y", "branch={pushed ref}", "branch=stable", ""),
}
_MARKS = (FLUSH, DELIMITER, b"0002", b"0003", b"0004", b"fff0", b"zzzz", b"")


class _Draw(random.Random):
    """The source of one request."""

    def __init__(self, seed: str, ids: Iterable[str], hidden: Iterable[str]) -> None:
        super().__init__(seed)
        #: Of how many words the most usual one is taken.
        self.looks = self.choice((1, 3, 6))
        mixed = self.sample([*ids], k=len([*ids]))
        self._grammar = {**_GRAMMAR, "id": (*mixed, *_ODD_IDS)}
        self._grammar["hidden"] = (*hidden, _UNKNOWN)

    def word(self, text: str) -> str:
        """Return ``text`` with all names in braces expanded."""
        return re.sub(
            r"\{([a-z ]+)\}",
            lambda found: self.word(self._usual(self._grammar[found[1]])),
            text,
        )

    def _usual(self, words: tuple[str, ...]) -> str:
        return words[min(self.randrange(len(words)) for _look in range(self.looks))]

    def lines(self, text: str, most: int) -> list[bytes]:
        """Return up to so many lines, each drawn from ``text``."""
        return [self.line(text) for _number in range(self.randint(0, most))]

    def line(self, text: str) -> bytes:
        return line(self.word(text).encode() + self.choice((b"\n", b"\n", b"")))

    def chance(self, share: float) -> bool:
        return self.random() < share

    def damaged(self, parts: list[bytes]) -> bytes:
        """Return the request, damaged unless it has the usual in it."""
        for _number in range(self.randrange(5) // self.looks):
            at = self.randrange(len(parts) + 1)
            part = parts[at] if at < len(parts) else b""
            other = self.choice(parts) if parts else b""
            position = self.randrange(len(part) + 1)
            byte = bytes([self.choice((0, 10, 32, 48, 255))])
            parts[at : at + 1] = self.choice(
                (
                    [],
                    [part, part],
                    [other, part],
                    [self.choice(_MARKS), part],
                    [part[:position] + byte + part[position + 1 :]],
                    [line(part[4 : 4 + position] + byte)],
                    [part[:position]],
                )
            )
        return b"".join(parts)

    def fetch(self, version: str) -> bytes:
        """Return a request for upload-pack."""
        if version == "2":
            command = self.word("{command}")
            head = [line(f"command={command}".encode()), *self.lines("{key}", 2)]
            self.shuffle(head)
            kind = "{query}" if command == "ls-refs" else "{argument}"
            return self.damaged([*head, DELIMITER, *self.lines(kind, 8), FLUSH])
        features = " ".join(self.word("{feature}") for _number in range(5))
        wants = [self.line(f"want {{id}} {features}"), *self.lines("want {id}", 2)]
        haves = [*self.lines("{have}", 3), self.choice((FLUSH, b"")), line(b"done\n")]
        return self.damaged([*wants, *self.lines("{limit}", 2), FLUSH, *haves])


class _Sender:
    """A server, and its expected answers."""

    def __init__(self, web: WebServer, root: Path, counts: Counter[str]) -> None:
        self._web, self._root = web, root
        self._counts = counts

    def send(
        self, draw: _Draw, service: str, version: str, body: bytes
    ) -> bytes | None:
        """Send a request in one way or another, and return the answer.

        Empty if it is malformed; ``None`` if there is none to compare: over ssh, or
        from a machine that is too busy.
        """
        spoken = f"version={version}"
        if draw.chance(0.1):
            self._over_ssh(service, spoken, body)
            return None
        headers = {"Content_Type": f"application/x-{service}-request"}
        if draw.chance(0.1):
            headers["Content_Encoding"], body = "gzip", gzip.compress(body, mtime=0)
        if draw.chance(0.5):
            headers["User_Agent"] = "git/2.39.5"
        status, _headers, answer = self._web.ask(
            service, "POST", body, Git_Protocol=spoken, **headers
        )
        self._counts[f"status {status}"] += 1
        assert status in (200, 400, 503), f"{status} {answer[:500]!r}"
        if status == 503 or b"try again" in answer:
            return None
        return answer if status == 200 else b""

    def _over_ssh(self, service: str, spoken: str, body: bytes) -> None:
        asked = {"SSH_ORIGINAL_COMMAND": f"{service} '{self._root.name}'"}
        options = {**ENVIRONMENT, **asked, "GIT_PROTOCOL": spoken}
        config = self._root.parent / "hgrc"
        items = (it.removeprefix("--config=") for it in PUSHING)
        config.write_text(
            "".join("[{}]\n{}\n".format(*it.split(".", 1)) for it in items)
        )
        done = subprocess.run(
            [sys.executable, "-m", "hgext3rd.amalgam.serve.ssh", self._root.name],
            cwd=self._root.parent,
            env=options | {"HGRCPATH": str(config)},
            input=body,
            capture_output=True,
            timeout=_LONGEST_SECONDS,
        )
        self._counts["sessions over ssh"] += 1
        assert b"Traceback" not in done.stderr, done.stderr.decode()


@contextlib.contextmanager
def _named(place: str, body: bytes = b"") -> Iterator[None]:
    try:
        yield
    except (AssertionError, subprocess.TimeoutExpired, IndexError, ValueError) as exc:
        raise AssertionError(f"{place}: {exc!r}\n{body!r}") from exc


def _oracle(
    store: Exported, copy: Path, version: str, body: bytes
) -> tuple[int, bytes]:
    """Return the exit code and the answer of git itself."""
    config = uploadpack.config_of(store.git_store())
    pairs = [
        (key, value)
        for key, values in config.items()
        for value in ((values,) if isinstance(values, str) else values)
    ]
    options = [it for key, value in pairs for it in ("-c", f"{key}={value}")]
    done = subprocess.run(
        ["git", *options, "upload-pack", "--stateless-rpc", str(copy)],
        env={**ENVIRONMENT, "GIT_PROTOCOL": f"version={version}"},
        input=body,
        capture_output=True,
    )
    return done.returncode, done.stdout


def _is_right(answer: bytes, code: int, told: bytes) -> bool:
    """Return whether an answer is git's, or a refusal where git has none or fails."""
    if b"PACK" in answer or b"PACK" in told:
        return (b"PACK" in answer) == (b"PACK" in told)
    is_refused = not answer or b"ERR the request is malformed" in answer
    return is_refused or answer == told or (code != 0 and answer.startswith(told))


def fetches(place: Path, server: HgServer, seconds: float, seed: int) -> Counter[str]:
    """Send fetches for ``seconds``, and compare the answers with git's."""
    place.mkdir()
    store = with_draft(place / "repo", server)
    store.hg("git::export")
    hidden = planted(store)
    EVENTS["secret"](store)
    store.hg("tag", "--rev", "0", "v1", "--date", "2 0")
    store.hg("git::export")
    copy = place / "copy.git"
    shutil.copytree(store.git_dir, copy)
    listing = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    ids = store.git(*listing).split()
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    with serving(store.root, *ON) as web:
        sender = _Sender(web, store.root, counts)
        for number in itertools.count():
            if time.monotonic() > end:
                break
            draw = _Draw(f"fetch {seed} {number}", ids, hidden)
            version = draw.choice("0122")
            body = draw.fetch(version)
            with _named(f"fetch {number} of seed {seed}, version {version}", body):
                answer = sender.send(draw, _FETCH, version, body)
                if answer is None:
                    continue
                code, told = _oracle(store, copy, version, body)
                assert _is_right(answer, code, told), f"{answer!r}, {code} {told!r}"
            counts["packs"] += b"PACK" in answer
        counts["fetches"] = number
    with _named(f"after the fetches of seed {seed}"):
        store.hg("verify", "-q")
        store.hg("git::verify", "--full")
    return counts


class _Developer:
    """Commits that can be pushed to a new repository, and packs of them."""

    def __init__(self, clone: Clone) -> None:
        self._clone = clone
        base = clone.head()
        # each above the one before, in most cases
        self.ids = [base, *(clone.commit(f"new{number}") for number in range(4))]
        clone.git("checkout", "-q", "-b", "side", base)
        self.ids.append(clone.commit("side"))
        clone.git("merge", "-q", "--no-ff", "-m", "merge", self.ids[4])
        self.ids.append(clone.head())
        tree = clone.git("rev-parse", "HEAD^{tree}")
        odd = clone.git("commit-tree", tree, "-p", base, "-m", "\n")
        clone.git("tag", "-a", "-m", "tag", "t", self.ids[1])
        self.ids += [odd, clone.git("rev-parse", "t"), tree]

    def push(self, draw: _Draw, refs: dict[str, str]) -> bytes:
        """Return a request for receive-pack, to a repository with ``refs``."""
        commands, news = [], []
        for _number in range(draw.choice((1, 1, 1, 2, 3))):
            ref, new = draw.word("{pushed ref}"), draw.word("{id}")
            old = refs.get(ref, NOTHING) if draw.chance(0.9) else draw.word("{id}")
            after = self.ids.index(old) + 1 if old in self.ids else 0
            if draw.chance(0.8):
                new = draw.choice(self.ids[after:][:3] or self.ids)
            commands.append(f"{old} {new} {ref}")
            news += [new] if new in self.ids else []
        features = [draw.word("{push feature}") for _number in range(4)]
        options = draw.lines("{option}", 2) if draw.chance(0.2) else []
        features += ["push-options"] if options or draw.chance(0.05) else []
        commands[0] += "\0 " + " ".join(features)
        lines = [line(it.encode()) for it in commands]
        if draw.chance(0.2):
            cut = draw.line(f"shallow {draw.choice([*news, '{id}'])}")
            lines.insert(draw.randrange(len(lines) + 1), cut)
        more = [*options, FLUSH] if options else []
        return draw.damaged([*lines, FLUSH, *more]) + self._pack(draw, news, refs)

    def _pack(self, draw: _Draw, news: list[str], refs: dict[str, str]) -> bytes:
        known = [f"^{it}" for it in refs.values() if it in self.ids]
        revs = "".join(f"{it}\n" for it in (*news, *known))
        listed = "".join(f"{it}\n" for it in news)
        cut = "".join(f"{it}\n^{it}~1\n" for it in news)
        kind, text = ["--revs", "--thin"][: draw.choice((1, 1, 2))], revs
        if draw.looks == 1:
            kind, text = draw.choice(((kind, revs), (["--revs"], cut), ([], listed)))
        command = ["git", "pack-objects", "-q", "--stdout", *kind]
        pack = captured(command, self._clone.root, input=text.encode()).stdout
        if not pack or not draw.chance(0.5 / draw.looks):
            return bytes(pack)
        at = draw.randrange(len(pack))
        pack = pack[:at] + bytes([draw.randrange(256)]) + pack[at + 1 :]
        if draw.chance(0.5):  # only its content is wrong
            pack = pack[:-20] + hashlib.sha1(pack[:-20]).digest()
        return bytes(pack[: draw.randrange(len(pack))] if draw.chance(0.1) else pack)


def pushes(place: Path, seconds: float, seed: int) -> Counter[str]:
    """Send pushes for ``seconds``, to a new repository in each round."""
    counts: Counter[str] = Counter()
    developer: _Developer | None = None
    end = time.monotonic() + seconds
    for round_ in itertools.count():
        if time.monotonic() > end:
            break
        stage = f"round {round_} of pushes of seed {seed}"
        directory = place / f"round-{round_}"
        directory.mkdir(parents=True)
        with _named(f"after {stage}"), pushable(directory) as server:
            server.hg("git::export")
            # the commits are those of each round
            developer = developer or _Developer(server.clone(str(place / "clone")))
            _round(server, developer, counts, f"{seed} {round_}", end)
            server.check()
            git(server.store, "fsck", "--strict")
            git(directory, "clone", "-q", "--mirror", server.web.url, "mirror")
        shutil.rmtree(directory)
    counts["rounds"] = round_
    return counts


def _round(
    server: PushServer,
    developer: _Developer,
    counts: Counter[str],
    seed: str,
    end: float,
) -> None:
    sender = _Sender(server.web, server.root, counts)
    for number in range(_PUSHES_A_ROUND):
        if time.monotonic() > end:
            return
        listed = git(server.store, "show-ref").decode().splitlines()
        refs = {ref: oid for oid, ref in (each.split(" ") for each in listed)}
        draw = _Draw(f"push {seed} {number}", developer.ids, ())
        body = developer.push(draw, refs)
        with _named(f"push {number} of seed and round {seed}", body):
            answer = sender.send(draw, _PUSH, draw.choice("001"), body) or b""
        counts["pushes"] += 1
        counts["refs accepted"] += answer.count(b"ok refs/")
        counts["refs refused"] += answer.count(b"ng ")


def all_of(
    scratch: Path, server: HgServer, seconds: float, seed: int
) -> Iterator[tuple[str, Callable[[], Counter[str]]]]:
    """Yield both parts, which take ``seconds`` each."""
    yield (
        "drawn fetches",
        lambda: fetches(scratch / "drawn-fetches", server, seconds, seed),
    )
    yield "drawn pushes", lambda: pushes(scratch / "drawn-pushes", seconds, seed)
