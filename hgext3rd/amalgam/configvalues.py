"""Configuration values, read and checked.

``Values`` reads them. The caller chooses what happens to an invalid value: ``refuse``
raises an error, ``ignore`` warns once and uses the default. Does not know which items
exist.
"""

from __future__ import annotations

import os
import re
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn

from mercurial import error, util
from mercurial.i18n import _

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from mercurial.interfaces.types import UiT

_LEAST_ALIKE = 0.7
"""As ``difflib`` measures it. All names of a group begin alike, so it takes more than
the 0.6 of Mercurial's commands."""
_LONGEST_SHOWN = 60

_warned: set[bytes] = set()


def refuse(mistake: error.ConfigError) -> NoReturn:
    """Raise ``mistake``."""
    raise mistake


def ignore(ui: UiT) -> Callable[[error.ConfigError], None]:
    """Return what warns of a mistake and goes on."""
    return lambda mistake: warn_once(ui, mistake.message, mistake.hint)


def warn_once(ui: UiT, text: bytes, hint: bytes | None = None) -> None:
    """Warn, unless this process has said the same before."""
    if text not in _warned:
        _warned.add(text)
        from .terminal import one_line  # only for mistakes

        ui.warn(one_line(_(b"warning: %s") % text))
        if hint:
            ui.warn(one_line(b"(%s)" % hint))


class Values:
    """Reads values of ``ui``; ``mistake`` is called with each error that is found.

    If that returns, the default stands in for the value, or what the caller says.
    """

    def __init__(self, ui: UiT, mistake: Callable[[error.ConfigError], Any]) -> None:
        self._ui = ui
        self._mistake = mistake

    def one_of(self, section: bytes, name: bytes, allowed: Sequence[bytes]) -> bytes:
        """Return one of ``allowed``; the first of them is the default.

        As for all that does not say where to or by which program, files that are not
        trusted count.
        """
        value: bytes = self._ui.config(section, name, untrusted=True)
        if value in allowed:
            return value
        self._invalid(section, name, value, _any_of(allowed), allowed)
        return allowed[0]

    def some_of(
        self, section: bytes, name: bytes, allowed: Sequence[bytes], *, untrusted: bool
    ) -> list[bytes]:
        """Return a list of some of ``allowed``, without what is wrong."""
        values: list[bytes] = self._ui.configlist(section, name, untrusted=untrusted)
        for value in values:
            if value not in allowed:
                self._invalid(section, name, value, _any_of(allowed), allowed)
        return [value for value in values if value in allowed]

    def boolean(
        self, section: bytes, name: bytes, wrong: Any, *, untrusted: bool = False
    ) -> Any:
        """Return a truth value, or ``None`` if that is the default.

        ``wrong``: what stands in for a mistake.
        """
        read = self._ui.configbool
        return self._read(read, section, name, wrong, _(b"yes or no"), untrusted)

    def size(
        self,
        section: bytes,
        name: bytes,
        wrong: Any,
        expected: bytes,
        least: int = 0,
        most: float = inf,
    ) -> Any:
        """Return a number of bytes, ``least`` to ``most``; the rest is as above."""
        read = self._ui.configbytes
        found = self._read(read, section, name, wrong, expected, False)
        if found is None or least <= found <= most:
            return found
        self._invalid(section, name, self._ui.config(section, name), expected)
        return wrong

    def seconds(self, section: bytes, name: bytes, wrong: int, least: int = 0) -> int:
        """Return a number of seconds, at least ``least``."""
        expected = _(b"a number of seconds")
        if least:
            expected = _(b"a number of seconds, at least %d") % least
        return self._whole(section, name, wrong, expected, least)

    def count(
        self, section: bytes, name: bytes, wrong: int, least: int, most: float = inf
    ) -> int:
        """Return a number, ``least`` to ``most``; of trusted configuration only."""
        expected = _(b"a number, at least %d") % least
        if most < inf:
            expected = _(b"a number from %d to %d") % (least, most)
        return self._whole(section, name, wrong, expected, least, most)

    def _whole(
        self,
        section: bytes,
        name: bytes,
        wrong: int,
        expected: bytes,
        least: int,
        most: float = inf,
    ) -> int:
        read = self._ui.configint
        found: int = self._read(read, section, name, wrong, expected, False)
        if least <= found <= most:
            return found
        self._invalid(section, name, b"%d" % found, expected)
        return wrong

    def url(self, section: bytes, name: bytes, stores: bytes = b"") -> bytes:
        """Return a web address without a slash at its end; empty if it is unset.

        It may also be an object store that the pattern ``stores`` describes.
        """
        value: bytes = self._ui.config(section, name) or b""
        found = value.rstrip(b"/")
        expected = _(b"http://... or https://...")
        if stores:
            if found and re.fullmatch(stores, found):
                return found
            expected = _(b"http://..., https://... or s3://BUCKET/PREFIX")
        if value and not value.startswith((b"http://", b"https://")):
            if b"@" in value:  # there may be a password before it
                value = b"..."
            self._invalid(section, name, value, expected)
            return b""
        return found

    def path(self, section: bytes, name: bytes) -> bytes | None:
        """Return an absolute path, ``None`` if it is unset or empty.

        It is a mistake to set it in a file that is not trusted: others would look in
        one place, and we in another.
        """
        trusted = self._ui.config(section, name)
        if self._ui.config(section, name, untrusted=True) != trusted:
            self._mistake(
                error.ConfigError(
                    _(b"%s.%s is set in a file that is not trusted") % (section, name),
                    hint=_(b"see 'hg help config.trusted'"),
                )
            )
        if not trusted:
            return None
        return os.path.abspath(self._ui.configpath(section, name))

    def program(self, section: bytes, name: bytes) -> bytes:
        """Return the name or the path of a program, from trusted files only."""
        value: bytes = self._ui.config(section, name)
        if not value:
            self._invalid(section, name, value, _(b"the name or path of a program"))
        return util.expandpath(value)

    def known(self, table: Mapping[bytes, Iterable[bytes]], group: bytes) -> None:
        """See that no item is set that seems to be of ``group`` and does not exist."""
        for found, unknown in unknown_items(self._ui, table):
            if found == group:
                self._mistake(unknown)

    def _read(
        self,
        read: Callable[..., Any],
        section: bytes,
        name: bytes,
        wrong: Any,
        expected: bytes,
        untrusted: bool,
    ) -> Any:
        try:
            return read(section, name, untrusted=untrusted)
        except error.ConfigError:
            value = self._ui.config(section, name, untrusted=untrusted)
            self._invalid(section, name, value, expected)
            return wrong

    def _invalid(
        self,
        section: bytes,
        name: bytes,
        value: bytes,
        expected: bytes,
        allowed: Sequence[bytes] = (),
    ) -> None:
        text = _(b"invalid value '%s' for %s.%s (expected %s)")
        text %= (_shown(value), section, name, expected)
        self._mistake(error.ConfigError(text, hint=_did_you_mean(value, allowed)))


def unknown_items(
    ui: UiT, table: Mapping[bytes, Iterable[bytes]]
) -> Iterator[tuple[bytes, error.ConfigError]]:
    """Yield what is set and not in ``table``, with the group that it seems to be of.

    A group is what an item begins with, up to its first dot. All of ``amalgam`` is
    ours, and the group ``git`` of ``clone-bundles``, which is called ``bundles``.
    """
    for section, only in ((b"amalgam", b""), (b"clone-bundles", b"git.")):
        names = table[section]
        for name, _value in ui.configitems(section, untrusted=True):
            if name in names or not name.startswith(only):
                continue
            text = _(b"unknown config item %s.%s") % (section, _shown(name))
            near = _nearest(name, names)
            hint = _(b"see 'hg help amalgam' for all items")
            if near:
                hint = _(b"did you mean %s.%s?") % (section, near)
            group = (b"bundles" if only else name).partition(b".")[0]
            if not any(other.startswith(group + b".") for other in table[b"amalgam"]):
                group = near.partition(b".")[0]
            yield group, error.ConfigError(text, hint=hint)


def _did_you_mean(value: bytes, allowed: Sequence[bytes]) -> bytes | None:
    near = _nearest(value, allowed)
    return _(b"did you mean '%s'?") % near if near else None


def _nearest(value: bytes, allowed: Iterable[bytes]) -> bytes:
    """Return what ``value`` was probably meant to be; empty if nothing is like it."""
    import difflib  # only for mistakes

    names = [os.fsdecode(name) for name in allowed]
    value = value[:_LONGEST_SHOWN].lower()
    near = difflib.get_close_matches(os.fsdecode(value), names, 1, _LEAST_ALIKE)
    return os.fsencode(near[0]) if near else b""


def _any_of(allowed: Sequence[bytes]) -> bytes:
    """Return names as an enumeration."""
    *first, last = allowed
    return _(b"%s or %s") % (b", ".join(first), last) if first else last


def _shown(value: bytes) -> bytes:
    """Return what somebody may have set for terminals: one line, not too long."""
    from .terminal import printable  # only for mistakes

    line = printable(value)
    return line if len(line) <= _LONGEST_SHOWN else line[:_LONGEST_SHOWN] + b"..."
