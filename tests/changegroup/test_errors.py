"""Changegroups that cannot be finished: nothing half-written, and a clear message.

Each is tried with ``hg bundle`` and with ``getbundle`` of hgweb.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testlib.changegroups import ALONE, LOG, STOCK, took
from testlib.environment import ENVIRONMENT, HG, WITHOUT_BYTECODE
from testlib.hgserver import HgServer, Outcome
from testlib.webserver import WebServer, serving

SERVED = ("--config", "extensions.amalgam=", *LOG)
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose changegroup has some megabytes that do not compress."""
    repo = tmp_path_factory.mktemp("original") / "repo"
    init = [str(HG), "init", str(repo)]
    subprocess.run(init, env=ENVIRONMENT, check=True)
    (repo / ".hg" / "hgrc").write_text("[phases]\nnew-commit = public\n")
    draw = random.Random(1)
    for number in range(4):
        (repo / "a").write_bytes(draw.randbytes(2 * MEGABYTE))
        (repo / f"b{number}").write_text("other\n")
        commit = ["commit", "-qAm", str(number), "-d", "0 0", "-u", "me"]
        subprocess.run([str(HG), "-R", str(repo), *commit], env=ENVIRONMENT, check=True)
    return repo


@pytest.fixture
def repo(original: Path, tmp_path: Path, server: HgServer) -> Path:
    """A copy, to be damaged."""
    copy = tmp_path / "repo"
    server.hg(tmp_path, "clone", "-q", "--pull", "-U", str(original), str(copy))
    (copy / ".hg" / "hgrc").write_text("")
    return copy


@pytest.fixture
def stripping(repo: Path) -> Path:
    """An extension: the repository is stripped once a changegroup has begun."""
    script = repo.parent / "stripping.py"
    script.write_text(
        "import os, subprocess\n"
        "from hgext3rd.amalgam.changegroup import native as writer\n"
        "def extsetup(ui):\n"
        "    opened = writer.NativeChangegroup.__init__\n"
        "    def init(self, *args, **kwargs):\n"
        "        opened(self, *args, **kwargs)\n"
        f"        subprocess.check_call([{str(HG)!r}, '-R', {str(repo)!r},\n"
        "            '--config', 'extensions.strip=', 'strip', '-q', '-r', '2',\n"
        "            '--config', 'extensions.amalgam=!'], env=os.environ)\n"
        "    writer.NativeChangegroup.__init__ = init\n"
    )
    return script


def bundle(
    repo: Path,
    out: Path,
    *options: str,
    preexec_fn: Callable[[], object] | None = None,
) -> subprocess.Popen[bytes]:
    """Start to write a bundle."""
    command = [str(HG), "--config", "extensions.amalgam=", "-R", str(repo), "bundle"]
    return subprocess.Popen(
        [*command, "-q", "--all", "-t", "none-v2", str(out), *LOG, *options],
        env=WITHOUT_BYTECODE,
        stderr=subprocess.PIPE,
        preexec_fn=preexec_fn,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kilobytes", [0, 1, 300, 5000])
def test_full_disk_leaves_no_file(repo: Path, kilobytes: int) -> None:
    ends = []
    for options in ((), STOCK):
        out = repo.parent / "out.hg"
        took(repo)
        process = bundle(repo, out, *options, preexec_fn=lambda: _limit(kilobytes))
        ends.append((process.communicate()[1], process.returncode))
        assert not out.exists()
    assert ends[0] == ends[1] == (b"abort: File too large\n", 255)


def test_file_that_cannot_be_opened_stays(repo: Path) -> None:
    # a program that runs cannot be written, by root either, but it can be removed
    out = repo.parent / "out.hg"
    shutil.copy(shutil.which("sleep") or "", out)
    content = out.read_bytes()
    with subprocess.Popen([out, "6000"]) as program:
        process = bundle(repo, out)
        assert b"abort: Text file busy" in process.communicate()[1]
        program.kill()
    assert out.read_bytes() == content


def _limit(kilobytes: int) -> None:
    limit = kilobytes << 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_reader_that_goes_away_ends_a_bundle(repo: Path) -> None:
    said = []
    for options in ((), STOCK):
        out = repo.parent / "out.hg"
        os.mkfifo(out)
        process = bundle(repo, out, *options)
        with out.open("rb") as pipe:
            assert pipe.read(MEGABYTE).startswith(b"HG20")
        said.append(process.communicate()[1])
        assert process.returncode
        out.unlink(missing_ok=True)
    assert said[0] == said[1]
    assert b"Traceback" not in said[0]


@pytest.fixture
def web(repo: Path) -> Iterator[WebServer]:
    """A server of the repository."""
    with serving(repo, *SERVED) as server:
        yield server


def check_serves(web: WebServer, at: Path, server: HgServer) -> None:
    """The server answers as ever."""
    other = at / "later"
    server.hg(at, "clone", "-q", "-U", web.url, str(other), *ALONE)
    server.hg(other, "verify", "-q", *ALONE)


def test_reader_that_goes_away_does_not_end_a_server(
    repo: Path, web: WebServer, server: HgServer
) -> None:
    tip = server.hg(repo, "log", "-r", "tip", "-T", "{node}").decode()
    caps = "HG20%2Cbundle2%3DHG20%250Achangegroup%253D01%252C02"
    args = f"bundlecaps={caps}&cg=1&common={'0' * 40}&heads={tip}"
    request = f"GET /?cmd=getbundle HTTP/1.1\r\nHost: x\r\nX-HgArg-1: {args}\r\n\r\n"
    for _time in range(3):
        with socket.create_connection(("127.0.0.1", web.port), 600) as connection:
            connection.sendall(request.encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    check_serves(web, repo.parent, server)
    assert took(repo) == ["native"] * 4


def damage(repo: Path, path: str) -> None:
    """Change one bit near the end of a file."""
    damaged = repo / ".hg" / "store" / path
    content = bytearray(damaged.read_bytes())
    content[-3] ^= 0x40
    damaged.write_bytes(content)


def check_told(ended: Outcome, reason: bytes) -> None:
    """A client shows the reason, and ends with an error."""
    told = rb"^remote: abort: unexpected error: (.*)"
    (line,) = re.findall(told, ended.err, re.MULTILINE)
    assert line.startswith(reason)
    assert re.findall(rb"^abort: .*", ended.err, re.MULTILINE) == [
        b"abort: pull failed on remote"
    ]
    assert ended.code


@pytest.mark.parametrize(
    ("path", "said"), [("data/a.d", b"filelog a: "), ("data/b2.i", b"filelog b2: ")]
)
def test_client_is_told_of_damage_and_keeps_nothing(
    repo: Path, server: HgServer, path: str, said: bytes
) -> None:
    content = (repo / ".hg" / "store" / path).read_bytes()
    damage(repo, path)
    clone = repo.parent / "clone"
    with serving(repo, *SERVED) as web:
        ended = server.run(repo.parent, "clone", "-U", web.url, str(clone), *ALONE)
        assert took(repo) == ["native"]
        check_told(ended, said)
        assert not clone.exists()
        (repo / ".hg" / "store" / path).write_bytes(content)
        check_serves(web, repo.parent, server)


def test_client_is_told_of_a_strip_and_keeps_nothing(
    repo: Path, stripping: Path, server: HgServer
) -> None:
    clone = repo.parent / "clone"
    with serving(repo, *SERVED, "--config", f"extensions.stripping={stripping}") as web:
        ended = server.run(repo.parent, "clone", "-U", web.url, str(clone), *ALONE)
        assert took(repo) == ["native"]
        check_told(ended, b"changesets were removed while they were read")
        assert not clone.exists()


def test_strip_meanwhile_ends_a_bundle(repo: Path, stripping: Path) -> None:
    out = repo.parent / "out.hg"
    process = bundle(repo, out, "--config", f"extensions.stripping={stripping}")
    _out, said = process.communicate()
    told = b"abort: changesets were removed while they were read\n"
    assert said == told + b"(run the command again)\n"
    assert process.returncode == 255
    assert not out.exists()
