"""Build hg-amalgam: cargo makes the static library, cffi the module that links it.

What a machine may lack is looked for first, and named in one line.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

from setuptools import Extension, find_namespace_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
RUST = ROOT / "rust"
PACKAGE = ROOT / "hgext3rd" / "amalgam"
NATIVE = PACKAGE / "core"
#: In the package: the commit that it is built from, for `hg version -v`.
COMMIT = "COMMIT"

# `make wheel`: a Rust target and an old glibc, as in x86_64-unknown-linux-gnu.2.17
GLIBC_TARGET = os.environ.get("AMALGAM_GLIBC_TARGET", "")

# What Rust's standard library needs; the linker drops what it does not use.
SYSTEM_LIBRARIES = [] if sys.platform == "darwin" else ["gcc_s", "pthread", "dl", "m"]
# Only the module's own entry point is for others to see.
LINK_OPTIONS = {
    "darwin": ["-Wl,-dead_strip"],
    "linux": [
        f"-Wl,{option}"
        for option in (
            f"--version-script={NATIVE / 'exports.map'}",
            "--gc-sections",
            "--as-needed",
            "-S",
        )
    ],
}


class BuildCore(build_ext):
    """Builds the Rust core before the module that links it."""

    def run(self) -> None:
        """Build; in place, say of which commit."""
        super().run()
        if self.inplace:
            write_commit(PACKAGE)

    def pre_run(self, ext: Extension, _ffi: object) -> None:
        """Check the tools; called by cffi before it does anything."""
        check_c_compiler()
        check_rust()

    def build_extension(self, ext: Extension) -> None:
        """Build the core's module if the core or the header changed."""
        library = build_core()
        ext.extra_objects = [str(library)]
        ext.depends = [str(library), str(RUST / "capi" / "include" / "amalgam.h")]
        ext.libraries = SYSTEM_LIBRARIES
        ext.extra_link_args = LINK_OPTIONS.get(sys.platform, [])
        super().build_extension(ext)


class BuildPython(build_py):
    """Puts the commit beside the modules."""

    def run(self) -> None:
        """Copy the modules, and say of which commit they are."""
        super().run()
        write_commit(Path(self.build_lib) / "hgext3rd" / "amalgam")


def write_commit(package: Path) -> None:
    """Write which commit ``package`` is built from, if that is known.

    git knows it in a checkout; a ``+`` says that files were changed since. A source
    distribution has the file already (contrib/wheel/sdist.py).
    """
    path = package / COMMIT
    if not (ROOT / ".git").exists():
        if package != PACKAGE and (PACKAGE / COMMIT).exists():
            shutil.copy(PACKAGE / COMMIT, path)
        return
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=12"]
    try:
        found = subprocess.check_output(
            [*command, "--dirty=+"], cwd=ROOT, text=True, stderr=subprocess.DEVNULL
        )
    except (OSError, subprocess.CalledProcessError):
        path.unlink(missing_ok=True)
        return
    path.write_text(found, encoding="utf-8")


def build_core() -> Path:
    """Run cargo and return the static library."""
    target_dir = Path(os.environ.get("CARGO_TARGET_DIR") or RUST / "target").absolute()
    # "build" makes a library for Rust, too, and for that one's sake rustc optimises no
    # crate together with another
    command = ["rustc", "--release", "--locked", "--package", "capi"]
    command += ["--lib", "--crate-type", "staticlib"]
    if GLIBC_TARGET:
        command = ["cargo-zigbuild", *command, "--target", GLIBC_TARGET]
    else:
        command = ["cargo", *command]
    env = os.environ | {"CARGO_TARGET_DIR": str(target_dir)}
    done = subprocess.run(command, cwd=RUST, env=env, check=False)
    if done.returncode:
        stop(f"'{' '.join(command)}' failed; its messages are above")
    return target_dir / GLIBC_TARGET.partition(".")[0] / "release" / "libcapi.a"


def check_c_compiler() -> None:
    """Stop if there is no C compiler, or no header of Python."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    compiler = shlex.split(command)[0]
    if not shutil.which(compiler):
        stop(
            f"no C compiler: '{compiler}' is not on PATH; install one "
            "(apt install gcc, dnf install gcc, xcode-select --install)"
        )
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        stop(
            f"no C headers of Python: {header} does not exist; install them "
            "(apt install python3-dev, dnf install python3-devel)"
        )


def check_rust() -> None:
    """Stop if there is no cargo, or if rustc is older than Cargo.toml asks for."""
    if not shutil.which("cargo"):
        stop("no Rust: 'cargo' is not on PATH; install it (https://rustup.rs)")
    manifest = (RUST / "Cargo.toml").read_text(encoding="utf-8")
    needed = first(r'rust-version = "([\d.]+)"', manifest)
    rustc = os.environ.get("RUSTC") or "rustc"
    try:
        command = [rustc, "--version"]
        answer = subprocess.check_output(command, cwd=RUST, text=True)
    except (OSError, subprocess.CalledProcessError):
        stop(f"no Rust: '{rustc} --version' fails; install it (https://rustup.rs)")
    found = first(r"rustc ([\d.]+)", answer)
    if version_key(found) < version_key(needed):
        stop(
            f"rustc {found} is too old: {needed} or later is needed; update it "
            "(rustup update stable, or https://rustup.rs)"
        )


def first(pattern: str, text: str) -> str:
    """Return what the first match of ``pattern`` captured."""
    match = re.search(pattern, text)
    if not match:
        stop(f"found no '{pattern}' in '{text}'")
    return match[1]


def version_key(version: str) -> list[int]:
    """Return what orders versions."""
    return [int(part) for part in version.split(".")]


def stop(reason: str) -> NoReturn:
    """End the build with one line."""
    raise SystemExit(f"error: cannot build hg-amalgam: {reason}")


def read_version() -> str:
    """Return the version that the package states, without importing Mercurial."""
    package = ROOT / "hgext3rd" / "amalgam" / "__init__.py"
    return first(r'__version__ = b"(.+)"', package.read_text(encoding="utf-8"))


setup(
    version=read_version(),
    # hgext3rd itself is Mercurial's
    packages=find_namespace_packages(
        include=["hgext3rd.amalgam", "hgext3rd.amalgam.*"]
    ),
    exclude_package_data={"": ["*.c", "*.map"]},
    cffi_modules=["hgext3rd/amalgam/core/_build.py:ffi_builder"],
    cmdclass={"build_ext": BuildCore, "build_py": BuildPython},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
    zip_safe=False,
)
