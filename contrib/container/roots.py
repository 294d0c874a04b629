"""Roots in which pages are followed: of debootstrap, or made of this machine.

A root has namespaces of its own for mounts, processes and, if asked for, the network:
ports and names of the pages are used as they are printed. ``Machine`` needs no
download. It has ``/usr`` of this machine, without ``/usr/local``, and an ``/etc`` with
the users of a new system; all else is empty. For a user who is not root, it is a user
namespace, and has one user. Does not know any page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# as images of Debian have it: packages start nothing
POLICY = "#!/bin/sh\nexit 101\n"
_DIRECTORIES = ("dev", "etc", "home", "proc", "root", "run", "srv", "usr", "var/log")
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: Of this machine's ``/etc``: files for programs of ``/usr``, and no user's choice.
_ETC = (
    *("alternatives", "ca-certificates.conf", "debian_version", "default"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "login.defs", "mime.types"),
    *("nsswitch.conf", "os-release", "pam.d", "protocols", "services"),
    *("shells", "skel", "ssl"),
)
_USERS = {
    "passwd": "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
    "www-data:x:33:33::/var/www:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\nwww-data:x:33:\n",
    "shadow": "root:*:1:0:99999:7:::\n",
    "gshadow": "root:*::\n",
    "hosts": "127.0.0.1 localhost\n",
}
_SUDO = """\
#!/bin/sh
# sudo -u USER COMMAND, for machines without it
user=$2; shift 2
home=$(getent passwd "$user" | cut -d : -f 6)
exec setpriv --reuid "$user" --regid "$user" --init-groups \\
  env -i PATH="$PATH" HOME="$home" LOGNAME="$user" "$@"
"""


class Debian:
    """A root of debootstrap, which commands change."""

    has_packages = True
    """Whether ``apt install`` is run."""
    has_users = True

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        policy = self.path / "usr/sbin/policy-rc.d"
        policy.write_text(POLICY)
        policy.chmod(0o755)

    def run(self, command: list[str], *, alone: bool = False) -> int:
        """Run a command in the root, and return its code.

        ``alone``: the network is a loopback of its own.
        """
        namespaces = ["--mount", "--pid", "--fork", "--kill-child"]
        path = str(self.path)
        steps = f'{self.mounts()}exec chroot "$1" env -i PATH="$2" "${{@:3}}"'
        if alone:
            namespaces.append("--net")
            steps = f"ip link set lo up\n{steps}"
        full = ["unshare", *namespaces, *self.options(), "bash", "-ec", steps, "bash"]
        return subprocess.run([*full, path, PATH, *command], cwd="/").returncode

    def options(self) -> list[str]:
        """Return more options of unshare(1)."""
        return []

    def mounts(self) -> str:
        """Return the commands that mount; the root is ``$1``."""
        return 'mount -t proc proc "$1/proc"\n'


class Machine(Debian):
    """A root made of this machine."""

    has_packages = False

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.has_users = os.geteuid() == 0
        for name in (*_DIRECTORIES, "local", "tmp", "var/tmp"):
            (self.path / name).mkdir(parents=True)
        for name in ("tmp", "var/tmp"):
            (self.path / name).chmod(0o1777)
        self.path.chmod(0o755)
        for name in _LINKS:
            link = Path("/", name)
            if link.is_symlink():
                (self.path / name).symlink_to(os.readlink(link))
        etc = self.path / "etc"
        for name in _ETC:
            _copy(Path("/etc", name), etc / name)
        for name, text in _USERS.items():
            (etc / name).write_text(text)
        if not shutil.which("sudo"):
            sudo = self.path / "local/bin/sudo"
            sudo.parent.mkdir()
            sudo.write_text(_SUDO)
            sudo.chmod(0o755)

    def options(self) -> list[str]:
        """Return more options of unshare(1)."""
        return [] if self.has_users else ["--map-root-user"]

    def mounts(self) -> str:
        """Return the commands that mount; the root is ``$1``."""
        # a container may hide parts of /proc, and then permits no other one
        return (
            'mount --rbind /usr "$1/usr"\n'
            'mount -o remount,bind,ro "$1/usr" 2> /dev/null || test "$UID" != 0\n'
            'mount --bind "$1/local" "$1/usr/local"\n'
            'mount --rbind /dev "$1/dev"\n'
            'mount -t proc proc "$1/proc" || mount --rbind /proc "$1/proc"\n'
        )


def _copy(source: Path, target: Path) -> None:
    """Copy a file or directory, as far as it may be read; nothing if there is none."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_no_secrets)
    elif source.exists():
        shutil.copy2(source, target)


def _no_secrets(directory: str, names: list[str]) -> list[str]:
    paths = {name: Path(directory, name) for name in names}
    return [
        name
        for name, path in paths.items()
        if name in ("private",) or not (path.is_symlink() or os.access(path, os.R_OK))
    ]


def missing() -> str:
    """Return why ``Machine`` cannot be used here; nothing if it can."""
    if not all(Path("/", name).is_symlink() for name in ("bin", "lib")):
        return "programs are not all below /usr"
    for program in ("unshare", "ip", "setpriv", "bash"):
        if not shutil.which(program, path=PATH):
            return f"no {program}"
    who = [] if os.geteuid() == 0 else ["--map-root-user"]
    probe = ["unshare", "--mount", "--pid", "--fork", "--net", *who]
    probe += ["sh", "-c", "mount -t tmpfs tmpfs /mnt && ip link set lo up"]
    done = subprocess.run(probe, capture_output=True, env={"PATH": PATH})
    if done.returncode:
        return f"no namespaces: {done.stderr.decode(errors='replace').strip()}"
    venv = ["python3", "-c", "import venv, ensurepip"]
    if subprocess.run(venv, capture_output=True, env={"PATH": PATH}).returncode:
        return "the system's Python has no venv"
    return ""
