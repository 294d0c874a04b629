"""The table of commands, whose rows are loaded when Mercurial looks at one."""

from __future__ import annotations

import pytest
from mercurial import error, extensions

from hgext3rd import amalgam
from hgext3rd.amalgam import commands
from hgext3rd.amalgam.commands import table


class Filled:
    """The extension, as if its table were full when Mercurial checks it."""

    cmdtable = table.cmdtable
    colortable = amalgam.colortable
    configtable = amalgam.configtable


def test_names_are_those_of_the_table() -> None:
    assert (*table.cmdtable,) == commands.NAMES


def test_table_passes_the_checks_of_mercurial() -> None:
    extensions._validatetables(None, Filled)


def test_row_is_that_of_the_table() -> None:
    commands.add_commands()
    for name, row in table.cmdtable.items():
        assert (*commands.cmdtable[name],) == (*row,)
        assert len(commands.cmdtable[name]) == len(row)


@pytest.mark.parametrize("name", [*table.cmdtable])
def test_wrong_arguments_are_an_error_of_the_user(name: bytes) -> None:
    """Mercurial says so, and how the command is called."""
    func = table.cmdtable[name][0]
    with pytest.raises(error.SignatureError):
        func()
