"""An ssh server on the loopback: sshserver.py HOME COMMAND...

It knows one user and one key, whose command in ``authorized_keys`` it runs as sshd(8)
does. Key and host key are written to ``.ssh`` of HOME, which is then that of a client.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import asyncssh


async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run the command of the key, whatever a client asks."""
    environment = os.environ | {"SSH_ORIGINAL_COMMAND": process.command or ""}
    if version := process.env.get("GIT_PROTOCOL"):
        environment["GIT_PROTOCOL"] = version
    child = await asyncio.create_subprocess_exec(
        *sys.argv[2:], stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment
    )
    await process.redirect(child.stdin, child.stdout, child.stderr)
    process.exit(await child.wait())


async def main(ssh: Path) -> None:
    """Make keys, listen, and say where."""
    os.umask(0o077)
    ssh.mkdir()
    key, host = (asyncssh.generate_private_key("ecdsa-sha2-nistp256") for _ in "kh")
    key.write_private_key(ssh / "id_ecdsa")
    key.write_public_key(ssh / "id_ecdsa.pub")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host],
        authorized_client_keys=str(ssh / "id_ecdsa.pub"),
        process_factory=run,
        encoding=None,
    )
    place = f"127.0.0.1:{server.get_port()}"
    known = host.export_public_key().decode()
    (ssh / "known_hosts").write_text(f"[127.0.0.1]:{server.get_port()} {known}")
    print(f"listening at ssh://{place}/", flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) / ".ssh"))
