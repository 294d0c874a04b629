"""Azure's blob store on the loopback, Azurite, with one container that all may read."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

from .environment import ENVIRONMENT
from .s3server import free_port

CONTAINER = "bundles"
# of every Azurite, and documented: no secret
_ACCOUNT = "devstoreaccount1"
_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"
    "/K1SZFPTOtr/KBHBeksoGMGw=="
)
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_BIN = "hg-amalgam/azurite-*/node_modules/.bin"
_START_SECONDS = 60


def azurite() -> str | None:
    """Return the program, one of ``make azure-server`` if there is no other."""
    places = [str(path) for path in _CACHE.glob(_BIN)]
    path = os.pathsep.join([os.environ["PATH"], *places])
    return shutil.which("azurite-blob", path=path)


class AzureServer:
    """A running server. ``public``: the web address of the container."""

    def __init__(self, port: int) -> None:
        self.public = f"http://127.0.0.1:{port}/{_ACCOUNT}/{CONTAINER}"
        self.environment = {
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
        }

    def make_container(self, *, is_public: bool) -> None:
        """Create the container, which obstore cannot."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        if is_public:
            headers["x-ms-blob-public-access"] = "container"
        lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
        # method, eleven headers of HTTP that are not sent, ours, and the resource
        lines += [f"/{_ACCOUNT}/{_ACCOUNT}/{CONTAINER}", "restype:container"]
        text = "\n".join(["PUT", *([""] * 4), "text/plain", *([""] * 6), *lines])
        code = hmac.digest(base64.b64decode(_KEY), text.encode(), hashlib.sha256)
        signature = base64.b64encode(code).decode()
        headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
        headers["Content-Type"] = "text/plain"
        address = f"{self.public}?restype=container"
        request = urllib.request.Request(
            address, data=b"", headers=headers, method="PUT"
        )
        urllib.request.urlopen(request).close()


@contextlib.contextmanager
def azure_server(root: Path, *, is_public: bool = True) -> Iterator[AzureServer]:
    """Run a server with a container."""
    program = azurite()
    assert program
    port = free_port()
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--location", str(root), "--disableTelemetry", "--skipApiVersionCheck"]
    root.mkdir(parents=True, exist_ok=True)
    with (root / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port)),
            ):
                break
            said = (root / "server.log").read_text()
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        server = AzureServer(port)
        server.make_container(is_public=is_public)
        yield server
    finally:
        process.kill()
        process.wait()
