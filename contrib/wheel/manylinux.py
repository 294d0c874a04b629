"""One wheel for every Linux since glibc 2.17: manylinux.py SDIST SCRATCH OUTPUT.

zig compiles and links for the old glibc; cargo-zigbuild translates options for it.
cargo sees the crates of the sdist, and no others. auditwheel checks the glibc, and
abi3audit the oldest Python.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

GLIBC = "2.17"  # the oldest for Rust, and that of the wheels of Mercurial and cffi


def main(sdist: Path, scratch: Path, output: Path) -> None:
    """Build, repair and check."""
    shutil.rmtree(scratch / "tree", ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch / "tree", filter="data")
    (tree,) = (scratch / "tree").iterdir()
    add_notices_of_tools(tree)
    built = scratch / "built"
    shutil.rmtree(built, ignore_errors=True)
    env = environment(tree, scratch)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    subprocess.run([*command, "-o", built, tree], env=env, check=True)
    (wheel,) = built.glob("*.whl")
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}"
    repaired = scratch / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    run("auditwheel", "repair", "--plat", tag, "-w", repaired, wheel)
    (wheel,) = repaired.glob("*.whl")
    run("auditwheel", "show", wheel)
    run("abi3audit", "--strict", "--summary", wheel)
    run("check-wheel-contents", wheel)
    output.mkdir(parents=True, exist_ok=True)
    print(shutil.copy(wheel, output))


def environment(tree: Path, scratch: Path) -> dict[str, str]:
    """Return an environment with zig as compiler and the crates of the sdist."""
    machine = platform.machine()
    compiler = f"cargo-zigbuild zig cc -- -target {machine}-linux-gnu.{GLIBC}"
    bin_dir = Path(sys.executable).parent
    return os.environ | {
        "PATH": f"{bin_dir}{os.pathsep}{os.environ['PATH']}",
        "AMALGAM_GLIBC_TARGET": f"{machine}-unknown-linux-gnu.{GLIBC}",
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared",
        "CARGO_HOME": str(scratch / "cargo"),
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TARGET_DIR": str(scratch / "target"),
        "RUSTFLAGS": f"--remap-path-prefix={tree}=hg-amalgam",
    }


def add_notices_of_tools(tree: Path) -> None:
    """Add the notices of what compilers link: Rust's library and zig's unwinder."""
    command = ["rustc", "--print", "sysroot"]
    sysroot = subprocess.check_output(command, text=True).strip()
    rust = Path(sysroot, "share", "doc", "rust", "COPYRIGHT-library.html")
    shutil.copy(rust, tree / "COPYING.rust-standard-library.html")
    ziglang = importlib.util.find_spec("ziglang")
    if ziglang is None or ziglang.origin is None:
        raise SystemExit("error: ziglang is not installed, see requirements.txt")
    zig = Path(ziglang.origin).parent / "lib" / "libunwind" / "LICENSE.TXT"
    shutil.copy(zig, tree / "COPYING.libunwind.txt")


def run(program: str, *arguments: str | Path) -> None:
    """Run a program of our environment."""
    bin_dir = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{bin_dir}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([bin_dir / program, *arguments], env=env, check=True)


if __name__ == "__main__":
    main(*(Path(argument).absolute() for argument in sys.argv[1:]))
