"""A git program that waits while it answers, so that a test can do something then."""

from __future__ import annotations

import shutil
from pathlib import Path

from .environment import executable
from .webserver import until


class SlowGit:
    """A git program of which one command answers in steps: it waits between them.

    Its answer is kept in ``place``. Whatever it is asked, it has read all that it needs
    before it waits for the last time.
    """

    def __init__(self, place: Path, *pauses: str, command: str = "upload-pack") -> None:
        """``pauses``: each before the answer, but for the last, which is after it."""
        self._place = place
        program = place / "git-program"
        *before, after = (
            f"touch {place}/{pause}\n"
            f"while ! [ -e {place}/after-{pause} ]; do sleep 0.05; done\n"
            for pause in pauses
        )
        executable(
            program,
            f"#!{shutil.which('sh')}\n"
            f'case " $* " in *" {command} "*) ;; *) exec git "$@";; esac\n'
            f"{''.join(before)}"
            f'answer=$(mktemp -p {place}); git "$@" > $answer\n'
            f"{after}cat $answer\n",
        )
        self.option = f"--config=amalgam.git.program={program}"

    def wait(self, pause: str) -> None:
        """Wait until it pauses."""
        until((self._place / pause).exists)

    def go_on(self, pause: str) -> None:
        """Let it go on."""
        (self._place / f"after-{pause}").touch()

    def has_packed(self) -> bool:
        """Tell whether any answer had a pack, be it sent or not."""
        return any(b"PACK" in it.read_bytes() for it in self._place.glob("tmp.*"))
