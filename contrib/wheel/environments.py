"""The wheel in clean environments: environments.py WHEEL SCRATCH, see --help.

An environment is a CPython of this machine with a Mercurial from PyPI in a venv, or a
root of debootstrap with Debian's own Python and Mercurial. Neither has cargo or a C
compiler in its PATH. In each, the wheel is installed, a repository is exported and
cloned, and the ``.t`` tests run. With --older, data goes from that wheel to this one,
and back. At last the wheel is removed, and hg has to work. Where Mercurial is too old,
it has to say so in one line, and to work. What is missing is not run, and listed as
such.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
MERCURIALS = ["6.9.5", "7.0.3", "7.1.2", "7.2.4"]
COMPILERS = re.compile(
    r"(.*-)?(cc|gcc|g\+\+|c\+\+|cpp|c89|c99|clang|clang\+\+|tcc|ld|as|cargo|rustc|zig)"
    r"([-.].*)?"
)
PIP = ["-m", "pip", "--disable-pip-version-check"]
CONFIGURATION = ["[extensions]", "amalgam =", "[amalgam]", "git.refs = bookmarks, tips"]
NOT_LOADED = "failed to import extension"
OLDEST = (6, 9)
TOO_OLD = "requires version 6.9 or newer of Mercurial"


class StepError(Exception):
    """A step did not do what it should."""


@dataclass(frozen=True)
class Environment:
    """A Python, an hg, and how to run something there; ``scratch`` as seen there."""

    name: str
    python: str
    hg: str
    scratch: Path
    prefix: tuple[str, ...]
    env: dict[str, str]
    install: tuple[str, ...]

    def run(self, *command: str | Path, cwd: Path | None = None, code: int = 0) -> str:
        """Return stdout and stderr of a command that has to end with ``code``."""
        script = f"cd '{cwd or self.scratch}' && exec \"$@\""
        full = [*self.prefix, "sh", "-c", script, "sh", *map(str, command)]
        done = subprocess.run(full, env=self.env, stdout=-1, stderr=-2, text=True)
        if done.returncode != code:
            raise StepError(f"{' '.join(map(str, command))}\n{done.stdout}")
        return done.stdout


def main() -> None:
    """Test in every environment there is, and say which are missing."""
    options = parsed_options()
    scratch: Path = options.scratch
    scratch.mkdir(parents=True, exist_ok=True)
    results: dict[str, str] = {}

    def note(name: str, result: str) -> None:
        """Say a result at once, and keep it: all of them take more than an hour."""
        results[name] = result
        print(f"{name}: {result}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")

    for version in options.python:
        python = found_python(version)
        for hg in options.hg:
            name = f"python {version}, hg {hg}"
            if not python:
                note(name, "not run: this machine has no such Python")
                continue
            make = functools.partial(venv, name, python, hg, scratch)
            note(name, tried(make, options, hg))
    for root in options.root:
        name = f"debian root {root.name}"
        note(name, tried(functools.partial(chroot, name, root), options, ""))
    if any(result.startswith("failed") for result in results.values()):
        raise SystemExit(1)


def parsed_options() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--python", nargs="*", default=PYTHONS)
    parser.add_argument("--hg", nargs="*", default=MERCURIALS)
    parser.add_argument("--root", nargs="*", type=Path, default=[])
    parser.add_argument("--older", type=Path, help="the wheel of the version before")
    parser.add_argument(
        "--sources", type=Path, help="where sdists of Mercurial are kept"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-t", action="store_true", help="leave out the .t tests")
    options = parser.parse_args()
    for name in ("wheel", "scratch", "older", "sources"):
        path = getattr(options, name)
        setattr(options, name, path and path.absolute())
    return options


def tried(
    make: Callable[[], Environment | None], options: argparse.Namespace, hg: str
) -> str:
    """Return the result of one environment, in a line."""
    start = time.monotonic()
    try:
        place = make()
        if place is None:
            return f"not run: PyPI has no wheel of Mercurial {hg} for this Python"
        version = mercurial_version(place)
        if tuple(map(int, version.split(".")[:2])) < OLDEST:
            check_too_old(place, options.wheel)
            return f"passed: hg {version} says that it is too old, and works"
        check(place, options.wheel)
        tests = 0 if options.no_t else run_t(place, sources(options.sources, place))
        if options.older:
            check_exchange(place, options.older, options.wheel)
        check_removal(place)
    except StepError as exc:
        print(exc, file=sys.stderr)
        return f"failed: {str(exc).splitlines()[0]}"
    return f"passed, {tests} .t tests, {time.monotonic() - start:.0f} s"


def found_python(version: str) -> str | None:
    """Return a CPython ``version`` of this machine, as pyenv or the PATH has it."""
    kept = Path.home() / ".pyenv" / "versions"
    of_pyenv = sorted(kept.glob(f"{version}.*/bin/python{version}"))
    return str(of_pyenv[-1]) if of_pyenv else shutil.which(f"python{version}")


def venv(name: str, python: str, hg: str, scratch: Path) -> Environment | None:
    """Make a venv with Mercurial ``hg``; None if that would need a compiler."""
    directory = scratch / re.sub(r"[^\w.]+", "-", name)
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([python, "-m", "venv", directory / "venv"], check=True)
    bin_dir = directory / "venv" / "bin"
    env = {
        key: value
        for key, value in os.environ.items()
        if key in ("HOME", "LANG") or key.startswith(("PIP_", "SSL_"))
        if key != "PIP_PREFIX"
    }
    env["PATH"] = f"{bin_dir}{os.pathsep}{path_without_compilers(scratch)}"
    program = str(bin_dir / "python3")
    command = [program, *PIP, "install", "-q", "--only-binary", ":all:"]
    if subprocess.run([*command, f"mercurial=={hg}"], env=env).returncode:
        return None
    install = (*command[1:],)
    hg_program = str(bin_dir / "hg")
    return Environment(name, program, hg_program, directory, (), env, install)


def path_without_compilers(scratch: Path) -> Path:
    """Return a directory with this machine's programs, without those that compile."""
    directory = scratch / "path"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            link = directory / program.name
            if not COMPILERS.fullmatch(program.name) and not link.is_symlink():
                link.symlink_to(program)
    return directory


def chroot(name: str, root: Path) -> Environment:
    """Prepare a root of debootstrap: its hg, and what pip needs without a network."""
    inside = Path("/srv/amalgam")
    outside = root / "srv" / "amalgam"
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir(parents=True)
    prefix = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    prefix += ["--root", str(root), "--mount-proc"]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    install = (*PIP[:2], "install", "-q", "--break-system-packages", "--no-index")
    install += ("--find-links", str(inside))
    python = "/usr/bin/python3"
    place = Environment(name, python, "/usr/bin/hg", inside, (*prefix,), env, install)
    version = place.run(
        python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"
    )
    command = [sys.executable, *PIP, "download", "-q", "--only-binary", ":all:"]
    command += ["--python-version", version.strip(), "--dest", str(outside), "cffi"]
    subprocess.run(command, check=True)
    return place


def check(place: Environment, wheel: Path) -> None:
    """Install the wheel, export a repository, and clone it with git."""
    install(place, wheel)
    repo = place.scratch / "repo"
    place.run(place.hg, "init", repo)
    write(place, "repo/.hg/hgrc", "\n".join(CONFIGURATION) + "\n")
    write(place, "repo/file", "content\n")
    place.run(place.hg, "commit", "-qAm", "one", "-u", "test", "-d", "0 0", cwd=repo)
    place.run(place.hg, "git::export", cwd=repo)
    place.run("git", "clone", "-q", store(place), place.scratch / "clone")
    place.run("git", "cat-file", "-e", "HEAD:file", cwd=place.scratch / "clone")
    place.run(place.hg, "git::verify", "--full", cwd=repo)
    where = place.run(
        place.python,
        "-c",
        "from hgext3rd import amalgam; print(amalgam.__file__)",
    )
    if str(ROOT / "hgext3rd") in where:
        raise StepError(f"amalgam was loaded from the source tree: {where}")


def check_too_old(place: Environment, wheel: Path) -> None:
    """Install the wheel: hg says that it is too old in one line, and works."""
    install(place, wheel)
    repo = place.scratch / "repo"
    place.run(place.hg, "init", repo)
    write(place, "repo/.hg/hgrc", "\n".join(CONFIGURATION) + "\n")
    write(place, "repo/file", "content\n")
    answer = place.run(place.hg, "commit", "-qAm", "one", "-u", "test", cwd=repo)
    if TOO_OLD not in answer or len(answer.splitlines()) != 1:
        raise StepError(f"an hg that is too old said: {answer}")
    answer = place.run(place.hg, "verify", "-q", cwd=repo)
    if TOO_OLD not in answer or len(answer.splitlines()) != 1:
        raise StepError(f"hg verify with an hg that is too old said: {answer}")
    check_removal(place)


def mercurial_version(place: Environment) -> str:
    """Return the version of the Mercurial in ``place``."""
    said = place.run(place.hg, "version", "-q")
    match = re.search(r"version ([\d.]+)", said)
    if not match:
        raise StepError(f"no version in {said.strip()}")
    return match[1].rstrip(".")


def install(place: Environment, wheel: Path, *options: str) -> None:
    """Install ``wheel``, which is copied to where the environment sees it."""
    copy(place, wheel, wheel.name)
    place.run(place.python, *place.install, *options, place.scratch / wheel.name)


def check_exchange(place: Environment, older: Path, newer: Path) -> None:
    """Write with one version, go on with the other, and back."""
    repo = place.scratch / "repo"
    for number, wheel in enumerate([older, newer, older, newer]):
        install(place, wheel, "--force-reinstall", "--no-deps")
        write(place, "repo/file", f"{number}\n")
        place.run(place.hg, "commit", "-qm", "more", "-u", "test", cwd=repo)
        place.run(place.hg, "git::export", cwd=repo)
        place.run(place.hg, "git::verify", "--full", cwd=repo)
        place.run(place.hg, "admin::amalgam", cwd=repo)


def check_removal(place: Environment) -> None:
    """Remove the package: hg says so in one line if amalgam is still configured."""
    options = ["--break-system-packages"] if place.prefix else []
    command = [*PIP[:2], "uninstall", "-q", "-y", *options, "hg-amalgam"]
    place.run(place.python, *command)
    repo = place.scratch / "repo"
    answer = place.run(place.hg, "log", "-l1", "-T", "{rev}\n", cwd=repo)
    if NOT_LOADED not in answer or len(answer.splitlines()) != 2:
        raise StepError(f"hg without amalgam, still configured, said: {answer}")
    write(place, "repo/.hg/hgrc", "")
    write(place, "repo/file", "without\n")
    place.run(place.hg, "commit", "-qm", "without", "-u", "test", cwd=repo)
    answer = place.run(place.hg, "verify", "-q", cwd=repo)
    if answer:
        raise StepError(f"hg verify without amalgam said: {answer}")


def run_t(place: Environment, source: Path) -> int:
    """Run the tests of Mercurial's kind; return how many."""
    tests = place.scratch / "tests"
    shutil.copytree(ROOT / "tests", outside(place, "tests"))
    shutil.copytree(source, outside(place, "runner"))
    names = sorted(file.name for file in (ROOT / "tests").glob("test-amalgam-*.t"))
    runner = place.scratch / "runner" / "run-tests.py"
    options = (f"--with-hg={place.hg}", "-j2", "--timeout=1800")
    place.run(place.python, runner, *options, *names, cwd=tests)
    return len(names)


def sources(cache: Path | None, place: Environment) -> Path:
    """Return the tests of the Mercurial in ``place``, from its source distribution."""
    version = mercurial_version(place)
    if not cache:
        raise StepError(f"no source of tests for Mercurial {version}")
    directory = cache / f"mercurial-{version}"
    if not (directory / "tests" / "run-tests.py").exists():
        command = [sys.executable, *PIP, "download", "-q", "--no-deps", "--no-binary"]
        command += ["mercurial", "--dest", str(cache), f"mercurial=={version}"]
        subprocess.run(command, check=True)
        with tarfile.open(directory.with_name(f"{directory.name}.tar.gz")) as archive:
            archive.extractall(cache, filter="data")
    return directory / "tests"


def store(place: Environment) -> Path:
    """Return the git repository of the export."""
    return place.scratch / "repo" / ".hg" / "amalgam" / "git" / "cinnabar.git"


def outside(place: Environment, name: str) -> Path:
    """Return a path below the scratch directory as this process sees it."""
    if not place.prefix:
        return place.scratch / name
    root = place.prefix[place.prefix.index("--root") + 1]
    return Path(root, *place.scratch.parts[1:], name)


def write(place: Environment, name: str, content: str) -> None:
    """Write a file below the scratch directory."""
    outside(place, name).write_text(content)


def copy(place: Environment, file: Path, name: str) -> None:
    """Copy a file into the scratch directory."""
    shutil.copy(file, outside(place, name))


if __name__ == "__main__":
    main()
