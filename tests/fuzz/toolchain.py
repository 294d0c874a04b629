"""What fuzzing needs: cargo-fuzz, a C++ compiler, rustc's sanitizers, atheris."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from testlib.environment import ROOT


class UnusableError(Exception):
    """Something is missing; the message says what to install."""


class Toolchain:
    """The programs that make fuzz targets, and where these are built."""

    def __init__(self, cargo_fuzz: str, build: Path) -> None:
        self._cargo_fuzz = cargo_fuzz
        self._target_dir = build.absolute() / "target"

    def check(self) -> None:
        """Raise ``UnusableError`` if something is missing."""
        if not shutil.which(self._cargo_fuzz):
            raise UnusableError("needs cargo-fuzz (cargo install cargo-fuzz)")
        if not shutil.which(os.environ.get("CXX", "c++")):
            raise UnusableError("needs a C++ compiler for libFuzzer (apt install g++)")
        if not shutil.which("rustc"):
            raise UnusableError("needs Rust, stable or nightly (https://rustup.rs)")
        if importlib.util.find_spec("atheris") is None:
            raise UnusableError(
                "needs atheris, which has wheels for Linux on x86-64 only"
            )

    @property
    def sanitizer(self) -> str:
        """AddressSanitizer, unless this rustc comes without its runtime."""
        libraries = Path(self._rustc("--print", "target-libdir").strip())
        found = any(libraries.glob("librustc-*_rt.asan.a"))
        return "address" if found else "none"

    def build(self) -> None:
        """Build all Rust targets; only what changed takes time."""
        # instrumentation needs unstable options, and nothing else of nightly
        environment = os.environ | {
            "RUSTC_BOOTSTRAP": "1",
            "CARGO_TARGET_DIR": str(self._target_dir),
        }
        command = [self._cargo_fuzz, "fuzz", "build", "--fuzz-dir", "fuzz"]
        command += ["--sanitizer", self.sanitizer]
        subprocess.run(command, cwd=ROOT / "rust", env=environment, check=True)

    def program(self, target: str) -> Path:
        """Return the program of a Rust target."""
        return self._target_dir / self._host / "release" / target

    def described(self) -> dict[str, str]:
        """Return what the figures depend on."""
        return {"rustc": self._rustc("--version").strip(), "sanitizer": self.sanitizer}

    @property
    def _host(self) -> str:
        found = re.search(r"^host: (\S+)$", self._rustc("-vV"), re.MULTILINE)
        assert found
        return found[1]

    @staticmethod
    def _rustc(*args: str) -> str:
        return subprocess.check_output(["rustc", *args], cwd=ROOT / "rust", text=True)
