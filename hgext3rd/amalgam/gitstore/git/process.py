"""Processes of git: the program, its environment and its configuration.

Nothing else starts git. A store is a git repository in which others may have written
(everyone who may write to ``.hg``), and a git repository's own configuration can name
programs to run. Hence, on every run:

- the environment is made afresh, so neither the caller's ``GIT_*`` variables nor the
  configuration of machine and user are seen;
- each key that has a fixed name and could name a program is overridden
  (git-config(1), "GIT_CONFIG_COUNT");
- keys that have free names, like ``hook.NAME.command``, cannot be overridden: a store
  whose configuration has any section that is not known to be harmless is refused;
- nothing is fetched, and no transport is allowed, but those that a caller asks for;
- git's own check of the repository's owner is lifted only for an owner that
  Mercurial trusts (``safe.directory``);
- a store with links, or with files that lead git to other repositories, is refused
  (``layout``).

``Git.access`` is the second profile, for remotes of the user: credentials, ssh, proxies
and certificates are those of the user's own configuration. Only a repository that this
process has just made is used with it, and nothing that would run programs in it.

git is told the path of the repository. Somebody who may write to it can change what it
leads to after it was checked: such people are trusted, or share the group of the
repository (docs/security.rst).

Does not know the content of amalgam's stores.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from mercurial import error, pycompat, util
from mercurial.i18n import _
from mercurial.utils import procutil

from ...records import Record
from ...terminal import printable
from ...trust import trusts
from . import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mercurial.interfaces.types import UiT

    from ...files import Directory

OLDEST = (2, 39)
CONFIG = b"config"
CONFIG_BYTES = 1 << 20
"""The configuration of a repository: its name in the repository, and its bound."""
_PIECE_BYTES = 1 << 20
_OBJECTS_AT_ONCE = 1000
# The shell sets the limit, in KiB, before git can start a process of its own: to run
# Python between fork and exec is not safe in a process with threads. Not every system
# can limit memory in this way.
_LIMITED = (
    b"/bin/sh",
    b"-c",
    b'ulimit -c 0; ulimit -v "$0" 2>/dev/null; exec "$@"',
)
# The same for the length of files, in blocks of 512 bytes. Credential helpers may
# reserve any amount of address space, so git has a limit of its own for memory.
_LIMITED_FILES = (
    b"/bin/sh",
    b"-c",
    b'ulimit -c 0; ulimit -f "$0" 2>/dev/null; exec "$@"',
)
_BLOCK_BYTES = 512

Value: TypeAlias = "str | tuple[str, ...]"
"""Of a key of the configuration, or several for a key that takes them."""

# Keys that a value of our own overrides, in whatever file they are. Not here, since
# git itself reads it from no repository: uploadpack.packObjectsHook, safe.*, trace2.*.
_NEUTRAL = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "true",  # the program: it prints no refs
    "core.sshCommand": "ssh",
    "core.askPass": "",
    "core.editor": ":",
    "sequence.editor": ":",
    "core.pager": "cat",
    "credential.helper": "",  # forgets all that were named before
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.x509.program": "gpgsm",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.ssh.defaultKeyCommand": "false",
    "log.showSignature": "false",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
    "fetch.recurseSubmodules": "no",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "gc.pruneExpire": "never",
    "maintenance.auto": "false",
    "receive.autogc": "false",
}

_ENVIRONMENT = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_PAGER": "cat",
    # of core.gitProxy the first value counts, and this comes before all
    "GIT_PROXY_COMMAND": "",
    # a missing object is an error, not a reason to ask a "promisor" for it
    "GIT_NO_LAZY_FETCH": "1",
    # objects must match their ids
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    # properties of a new repository: git 3.0 will have other defaults
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_DEFAULT_REF_FORMAT": "files",
    "GIT_PROTOCOL_FROM_USER": "0",
}

# of the second profile: maintenance, and settings that would change a push of ours
_OF_ACCESS = {
    # else git looks for a short form of each ref of a remote: 0.2 s for 100,000
    "core.abbrev": "40",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "push.followTags": "false",
    "push.recurseSubmodules": "no",
    "push.useForceIfIncludes": "false",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
}
# variables of git that say how users reach their remotes; all others are left out
_KEPT = re.compile(
    rb"GIT_(?:ASKPASS|SSH(?:_COMMAND|_VARIANT)?|PROXY_COMMAND|SSL_\w+|HTTP_\w+|TRACE\w*"
    rb"|CURL_\w+|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM))"
)

_OVERRIDDEN = frozenset(key.lower().encode() for key in _NEUTRAL)
# Sections of a store's configuration in which no key runs a program, or only keys that
# are overridden above.
_HARMLESS = frozenset(
    b"advice bitmap core commitgraph feature fetch fsck gc gitweb http i18n index init "
    b"log lsrefs maintenance pack protocol receive repack transfer uploadpack "
    b"uploadpackfilter user".split()
)
# harmless keys of sections that have others, too
_HARMLESS_KEYS = re.compile(
    rb"extensions\.(?:objectformat|preciousobjects)"
    rb"|gpg\.format"
    rb"|remote\..*\.(?:url|pushurl|fetch|push|mirror|prune|prunetags|tagopt)",
    re.DOTALL,
)
# and a harmful one of a harmless section, which no value overrides
_HARMFUL_KEYS = frozenset({b"gc.recentobjectshook"})


_LEAST_MAPPED = 32 << 20
_WINDOWS = 16
"""More are no better: git searches them one after the other."""


def windows(memory_bytes: int) -> dict[str, str]:
    """Return configuration for git to map about so much of its packs at once.

    By default it maps all, which counts as its memory. With little, it maps the same
    parts again and again.
    """
    most = max(memory_bytes, _LEAST_MAPPED)
    sizes = {"packedGitLimit": most, "packedGitWindowSize": most // _WINDOWS}
    return {f"core.{name}": str(size) for name, size in sizes.items()}


class Access(Record):
    """How git reaches remotes: with the user's own configuration."""

    may_ask: bool
    """Whether a person may be asked for passwords; else git and ssh fail at once."""
    ssh_command: bytes = b""
    """Instead of the user's own, if it is not empty."""


class FetchLimits(Record):
    """Limits of a fetch from a remote that may be hostile."""

    pack_bytes: int
    """Length of each file that git writes."""
    allocated_bytes: int
    """Memory that git may take at once: a content is one piece, or a table of objects.
    A delta of 200 bytes can make 3 GB."""


class Git(Record):
    """The git program, for one repository or for none.

    Every way to run it takes the subcommand with its options as ``args``. Foreign names
    are ``operands``, which follow a ``--``.
    """

    program: bytes
    """A name on ``PATH`` or a path, from trusted configuration."""
    directory: Directory | None = None
    """The repository, which need not exist yet; ``None`` to be outside of any."""
    owner: Owner | None = None
    """Owners whose repositories may be used, beside the user's own."""
    new_objects: Directory | None = None
    """Where new objects go, if not into the repository."""
    is_apart: bool = False
    """Whether git sees no other objects than those where new ones go."""
    lender: Git | None = None
    """git for another repository, whose objects this one sees, too."""
    access: Access | None = None
    """For commands that reach remotes, in no repository or one made by this process."""
    remedy: bytes | None = None
    """The hint if git fails, for a repository whose objects may be damaged."""

    def run(
        self,
        *args: str | bytes,
        operands: Iterable[bytes] = (),
        input: bytes = b"",
        config: Mapping[str, str] | None = None,
        protocols: str = "",
        check: bool = True,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git to its end; return its output and exit code.

        ``config`` overrides the configuration, ``protocols`` are the allowed
        transports, separated by colons. With ``check``, ``Abort`` if it fails.
        """
        with self.start(
            *args,
            operands=operands,
            config=config,
            protocols=protocols,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            output, errors = process.communicate(input)
        done = subprocess.CompletedProcess(
            process.args, process.returncode, output, errors
        )
        if check and done.returncode:
            raise self._failed(args[0], said(done))
        return done

    def _failed(self, name: str | bytes, message: bytes) -> error.Abort:
        text = _(b"git %s failed: %s") % (os.fsencode(name), message)
        return error.Abort(text, hint=self.remedy)

    def start(
        self,
        *args: str | bytes,
        operands: Iterable[bytes] = (),
        config: Mapping[str, Value] | None = None,
        protocols: str = "",
        spoken: bytes = b"",
        address_bytes: int = 0,
        limits: FetchLimits | None = None,
        **pipes: Any,
    ) -> subprocess.Popen[bytes]:
        """Start git and return its process; ``pipes`` are more arguments of ``Popen``.

        ``spoken``: the client's protocol, as in ``GIT_PROTOCOL``. ``address_bytes``:
        address space of each of its processes. ``limits`` are those of a fetch.
        ``Abort`` without git, ``SecurityError`` if the repository's owner or
        configuration is not trusted.
        """
        neutral = _OF_ACCESS if self.access else _NEUTRAL
        overrides: dict[str, Value] = {**neutral, **(config or {}), **self.check()}
        command = [*map(os.fsencode, args)]
        operands = [*operands]
        if operands:
            command += [b"--", *operands]
        path = self.directory.path if self.directory else None
        environment = _environment(path, overrides, self.access)
        environment[b"GIT_ALLOW_PROTOCOL"] = protocols.encode()
        if spoken:
            environment[b"GIT_PROTOCOL"] = spoken
        if self.new_objects and path:
            environment[b"GIT_OBJECT_DIRECTORY"] = self.new_objects.path
            if not self.is_apart:
                objects = _quoted(os.path.join(path, b"objects"))
                environment[b"GIT_ALTERNATE_OBJECT_DIRECTORIES"] = objects
        if self.lender and self.lender.directory:
            # not by a file of the repository, which ``layout`` refuses
            lent = _quoted(self.lender.directory.join(b"objects"))
            environment[b"GIT_ALTERNATE_OBJECT_DIRECTORIES"] = lent
        command = [self.program, *command]
        if address_bytes:
            command = [*_LIMITED, b"%d" % (address_bytes >> 10), *command]
        if limits:
            blocks = -(-limits.pack_bytes // _BLOCK_BYTES)
            command = [*_LIMITED_FILES, b"%d" % blocks, *command]
            environment[b"GIT_ALLOC_LIMIT"] = b"%d" % limits.allocated_bytes
        return _popen(command, environment, **pipes)

    @contextlib.contextmanager
    def pieces(
        self,
        *args: str | bytes,
        input: Iterable[bytes] = (),
        config: Mapping[str, str] | None = None,
    ) -> Iterator[Iterator[bytes]]:
        """Run git during the context, which yields its output in pieces.

        After the last piece, ``Abort`` if git failed.
        """
        with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as errors:
            asked.writelines(input)
            asked.seek(0)
            process = self.start(
                *args, config=config, stdin=asked, stdout=subprocess.PIPE, stderr=errors
            )
            assert process.stdout is not None
            try:
                yield self._pieces(args[0], process, process.stdout, errors)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()

    def _pieces(
        self,
        name: str | bytes,
        process: subprocess.Popen[bytes],
        output: IO[bytes],
        errors: IO[bytes],
    ) -> Iterator[bytes]:
        while piece := output.read(_PIECE_BYTES):
            yield piece
        if process.wait():
            raise self._failed(name, last_words(process, errors))

    def objects(self, oids: Iterable[bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Yield id, type and content of those of ``oids``, in hex, that are there."""
        remaining = iter(oids)
        while batch := [*itertools.islice(remaining, _OBJECTS_AT_ONCE)]:
            listing = b"".join(b"%s\n" % oid for oid in batch)
            found, at = self.run("cat-file", "--batch", input=listing).stdout, 0
            while at < len(found):
                end = found.index(b"\n", at)
                oid, kind, *size = found[at:end].split()
                at = end + 1
                if size:
                    content = found[at : at + int(size[0])]
                    at += len(content) + 1
                    yield oid, kind, content

    def check(self) -> dict[str, str]:
        """Abort as ``start`` does; return the configuration that trusts the owner."""
        version_of(self.program)
        if self.lender:
            self.lender.check()
        if self.directory is None or self.access:
            return {}
        try:
            found = self.directory.stat()
        except FileNotFoundError:
            return {}
        trusted = {}
        if not util.isowner(found):
            check_owner(self.directory.path, found, self.owner)
            trusted["safe.directory"] = os.fsdecode(self.directory.path)
        layout.check_layout(self.directory)
        _check_config(self.program, self.directory)
        return trusted


class Owner(Record):
    """The owner of ``.hg``, to whom its git stores should belong."""

    ui: UiT
    hg_path: bytes
    """The directory ``.hg``."""


def check_owner(path: bytes, found: os.stat_result, owner: Owner | None) -> None:
    """Abort unless the repository belongs to ``owner``, and hg trusts them."""
    uid = found.st_uid
    of_hg = os.stat(owner.hg_path) if owner else None
    if owner is None or of_hg is None or uid != of_hg.st_uid:
        raise error.SecurityError(
            _(b"git store '%s' belongs to user '%s', who does not own '.hg'")
            % (path, _user_name(uid)),
            hint=_(b"change its owner, or remove it and export as the owner of '.hg'"),
        )
    if not trusts(owner.ui, owner.hg_path, of_hg):
        raise error.SecurityError(
            _(b"git store '%s' belongs to user '%s', who is not trusted")
            % (path, _user_name(uid)),
            hint=_(b"see 'hg help config.trusted'"),
        )


def said(done: subprocess.CompletedProcess[bytes]) -> bytes:
    """Return the last thing that git said on stderr, or how it ended if it was mute."""
    lines = done.stderr.strip().splitlines()
    if not lines:
        return bytes(procutil.explainexit(done.returncode))
    return bytes(lines[-1].removeprefix(b"fatal: ").removeprefix(b"error: "))


def last_words(process: subprocess.Popen[bytes], errors: IO[bytes]) -> bytes:
    """Return the message of an ended process, from its stderr."""
    errors.seek(0)
    return said(
        subprocess.CompletedProcess(
            process.args, process.returncode, b"", errors.read()
        )
    )


def split(pieces: Iterable[bytes], end: bytes) -> Iterator[bytes]:
    """Yield the lines in ``pieces``, divided at each ``end``."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(end)
        yield from whole


def _environment(
    directory: bytes | None,
    overrides: Mapping[str, Value],
    access: Access | None = None,
) -> dict[bytes, bytes]:
    environment = _user_environment(access) if access else {}
    environment |= _fixed(tuple(overrides.items()), access is not None)
    environment[b"PATH"] = os.environb.get(b"PATH", os.defpath.encode())
    # named, a repository is not searched for, and found elsewhere
    environment[b"GIT_DIR"] = directory or os.devnull.encode()
    return environment


def _user_environment(access: Access) -> dict[bytes, bytes]:
    """Return the caller's variables, with those of git that ``_KEPT`` names."""
    environment = {
        name: value
        for name, value in os.environb.items()
        if not name.startswith(b"GIT_") or _KEPT.fullmatch(name)
    }
    if access.ssh_command:
        environment[b"GIT_SSH_COMMAND"] = access.ssh_command
    if not access.may_ask:
        environment |= {b"GIT_TERMINAL_PROMPT": b"0", b"GIT_ASKPASS": b""}
        environment[b"SSH_ASKPASS_REQUIRE"] = b"never"
    return environment


@functools.lru_cache(maxsize=64)
def _fixed(
    overrides: tuple[tuple[str, Value], ...], is_of_user: bool
) -> dict[bytes, bytes]:
    """Return the variables that depend on the configuration only."""
    variables = {"LC_ALL": "C", "GIT_NO_REPLACE_OBJECTS": "1"}
    if not is_of_user:
        variables = dict(_ENVIRONMENT)
    pairs = [
        (key, value)
        for key, values in overrides
        for value in (values if isinstance(values, tuple) else (values,))
    ]
    variables["GIT_CONFIG_COUNT"] = str(len(pairs))
    for number, (key, value) in enumerate(pairs):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


def _quoted(path: bytes) -> bytes:
    """Return a path as git reads one from a list with colons between."""
    return b'"%s"' % path.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _popen(
    command: list[bytes], environment: Mapping[bytes, bytes], **pipes: Any
) -> subprocess.Popen[bytes]:
    arguments: dict[str, Any] = {"cwd": "/", "stdin": subprocess.DEVNULL} | pipes
    try:
        return subprocess.Popen(command, env=environment, **arguments)
    except OSError as exc:
        raise error.Abort(
            _(b"cannot run git program '%s': %s")
            % (command[0], pycompat.bytestr(os.strerror(exc.errno or 0))),
            hint=_(b"install git, or set amalgam.git.program"),
        ) from None


def _read(
    program: bytes, *args: str | bytes, input: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run git in no repository and return its output."""
    environment = _environment(None, {})
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [program, *map(os.fsencode, args)]
    with _popen(command, environment, **pipes) as process:
        output, errors = process.communicate(input)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@functools.lru_cache
def version_of(program: bytes) -> bytes:
    """Return git's version; abort before ``OLDEST``: it knows not our precautions."""
    done = _read(program, "version")
    found = re.match(rb"git version ((\d+)\.(\d+)\S*)", done.stdout)
    if found is None:
        raise error.Abort(
            _(b"'%s' is not git: %s") % (program, done.stdout.strip() or said(done)),
            hint=_(b"set amalgam.git.program"),
        )
    if (int(found[2]), int(found[3])) < OLDEST:
        raise error.Abort(
            _(b"git %s is too old") % found[1],
            hint=_(b"install git %d.%d or later, or set amalgam.git.program") % OLDEST,
        )
    return found[1]


def _check_config(program: bytes, directory: Directory) -> None:
    """Abort if the configuration of a repository has keys that are not harmless."""
    content = directory.tryread(CONFIG, CONFIG_BYTES)
    try:
        keys = {key for key, _value in settings(program, content)}
    except error.Abort as exc:
        raise error.Abort(
            _(b"cannot read '%s': %s") % (directory.join(CONFIG), exc.message)
        ) from None
    harmful = sorted(key for key in keys if not _is_harmless(key))
    if harmful:
        raise error.SecurityError(
            _(b"git store has settings that could run programs: %s")
            % printable(b", ".join(harmful)),
            hint=_(b"remove them from '%s'") % directory.join(CONFIG),
        )


@functools.lru_cache(maxsize=64)
def settings(program: bytes, content: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return the keys and values of a config file with this ``content``, in order.

    git reads it, without includes; ``Abort`` if it cannot.
    """
    if not content:
        return ()
    args = ("config", "--file", "-", "--no-includes", "--null", "--list")
    done = _read(program, *args, input=content)
    if done.returncode:
        raise error.Abort(said(done))
    halves = (entry.partition(b"\n") for entry in done.stdout.split(b"\0") if entry)
    return tuple((key, value) for key, _newline, value in halves)


def _is_harmless(key: bytes) -> bool:
    if key in _HARMFUL_KEYS:
        return False
    section = key.partition(b".")[0]
    if section in _HARMLESS or key in _OVERRIDDEN:
        return True
    return _HARMLESS_KEYS.fullmatch(key) is not None


def _user_name(uid: int) -> bytes:
    return bytes(util.username(uid) or b"%d" % uid)
