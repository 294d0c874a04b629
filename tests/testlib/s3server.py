"""An S3 server on the loopback, versitygw, with one bucket that everybody may read.

It keeps objects as files, so that tests see what is there without asking it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .environment import ENVIRONMENT

BUCKET = "bundles"
SECRET = "dontlogthissecret"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_PUBLIC = """{"Statement": [
  {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
   "Resource": "arn:aws:s3:::bundles/*"},
  {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket",
   "Resource": "arn:aws:s3:::bundles"}]}"""
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "tester",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def versitygw() -> str | None:
    """Return the program, one of ``make s3-server`` if there is no other."""
    places = [str(path) for path in _CACHE.glob("hg-amalgam/versitygw-*")]
    path = os.pathsep.join([os.environ["PATH"], *places])
    return shutil.which("versitygw", path=path)


class S3Server:
    """A running server. ``public``: the web address of the bucket."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.public = f"{self.endpoint}/{BUCKET}"
        self._process: subprocess.Popen[bytes] | None = None
        (root / "data" / BUCKET).mkdir(parents=True)

    @property
    def bucket(self) -> Path:
        return self.root / "data" / BUCKET

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs."""
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.endpoint}

    def start(self) -> None:
        program = versitygw()
        assert program
        command = [program, "--quiet", "--port", f"127.0.0.1:{self.port}"]
        command += ["--access", "tester", "--secret", SECRET]
        with (self.root / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "posix", str(self.root / "data")],
                env=ENVIRONMENT,
                stdout=log,
                stderr=log,
            )
        for _try in range(300):
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port)),
            ):
                return
            time.sleep(0.05)
        raise AssertionError((self.root / "server.log").read_text())

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def make_public(self, policy: str = _PUBLIC) -> None:
        self.client().put_bucket_policy(Bucket=BUCKET, Policy=policy)

    def make_private(self) -> None:
        self.client().delete_bucket_policy(Bucket=BUCKET)

    def client(self) -> Any:
        """Return boto3's client, as of another program."""
        boto3 = importlib.import_module("boto3")  # it has no types
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="tester",
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def keys(self, prefix: str) -> set[str]:
        """Return the names of the objects directly below a prefix."""
        directory = self.bucket / prefix
        return (
            {path.name for path in directory.iterdir()} if directory.exists() else set()
        )

    def uploads(self) -> list[str]:
        """Return the keys of uploads that are not finished."""
        listed = self.client().list_multipart_uploads(Bucket=BUCKET)
        return [found["Key"] for found in listed.get("Uploads", ())]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def s3_server(root: Path) -> Iterator[S3Server]:
    """Run a server with a bucket that everybody may read."""
    server = S3Server(root)
    server.start()
    try:
        server.make_public()
        yield server
    finally:
        server.stop()
