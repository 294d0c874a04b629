"""A repository whose git store follows it, and the exporters at work."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from .environment import add_items, publish_commits
from .exported import Exported
from .hgserver import HgServer
from .webserver import until

#: Notes each exporter, and holds it up at a place while a file of that name exists.
#: While there is a file ``restless``, somebody commits after each conversion.
OBSERVER = """
import json, os, subprocess, time
from mercurial import extensions
from mercurial.utils import procutil

HERE = os.path.dirname(os.path.abspath(__file__))

def held_up(place):
    def wait(orig, *args, **kwargs):
        open(os.path.join(HERE, "reached-" + place), "w").close()
        while os.path.exists(os.path.join(HERE, place)):
            time.sleep(0.02)
        return orig(*args, **kwargs)
    return wait

def commits(root):
    def convert(orig, *args, **kwargs):
        done = orig(*args, **kwargs)
        if os.path.exists(os.path.join(HERE, "restless")):
            commit = [procutil.hgexecutable(), b"commit", b"-qm", b"more"]
            commit += [b"--config", b"ui.allowemptycommit=yes"]
            subprocess.run(commit, cwd=root, check=True)
        return done
    return convert

def command_runs(orig, ui, repo, **opts):
    from hgext3rd.amalgam.gitstore.export import conversion
    from hgext3rd.amalgam.gitstore.export import exporter

    extensions.wrapfunction(conversion.ExportConversion, "run", held_up("conversion"))
    extensions.wrapfunction(conversion.ExportConversion, "run", commits(repo.root))
    extensions.wrapfunction(exporter, "forget_failure", held_up("end"))
    seen = {
        "pid": os.getpid(),
        "environment": dict(os.environ),
        "descriptors": {fd: os.readlink("/proc/self/fd/" + fd) for fd in "012"},
        "others": [
            os.readlink("/proc/self/fd/" + fd)
            for fd in os.listdir("/proc/self/fd")
            if int(fd) > 2 and os.path.exists("/proc/self/fd/" + fd)
        ],
        "session": os.getsid(0),
    }
    with open(os.path.join(HERE, "exporters"), "a") as file:
        file.write(json.dumps(seen) + chr(10))
    return orig(ui, repo, **opts)

def extsetup(ui):
    table = extensions.find(b"amalgam").cmdtable
    extensions.wrapcommand(table, b"debug::amalgam-export", command_runs)
"""


class Followed(Exported):
    """Its own configuration enables amalgam, as on a server."""

    @classmethod
    def init(cls, root: Path, server: HgServer) -> Followed:
        """Make an empty repository, which publishes commits."""
        server.hg(root.parent, "init", str(root))
        publish_commits(root)
        made = cls(root, server)
        made.observed.mkdir()
        (made.observed / "observer.py").write_text(OBSERVER)
        made.configure(
            "extensions", amalgam="", zobserver=made.observed / "observer.py"
        )
        made.configure("amalgam", git__export_on_change="yes")
        return made

    @property
    def observed(self) -> Path:
        return self.root.parent / f"{self.root.name}.observed"

    def configure(self, section: str, **items: object) -> None:
        """Set items in the configuration of the repository."""
        add_items(self.root, section, **items)

    def exporters(self) -> list[dict[str, Any]]:
        """Return what is known of the exporters that were started, oldest first."""
        path = self.observed / "exporters"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def hold(self, place: str) -> None:
        """Let exporters stop at a place: ``conversion``, or ``end``."""
        (self.observed / f"reached-{place}").unlink(missing_ok=True)
        (self.observed / place).touch()

    def is_held(self, place: str) -> bool:
        """Tell whether an exporter has got to that place."""
        return (self.observed / f"reached-{place}").exists()

    def let_go(self, place: str) -> None:
        (self.observed / place).unlink()

    def admin(self) -> dict[str, Any]:
        """Return what ``admin::amalgam`` tells."""
        (told,) = json.loads(self.run("admin::amalgam", "-T", "json").out)
        return dict(told)

    def is_current(self) -> bool:
        """Tell whether no exporter works, and the store is what it should be."""
        return (
            self.admin()["exporter"] == "idle"
            and self.git_dir.exists()
            and self.run("git::verify").code == 0
        )

    def follow(self) -> None:
        """Wait until the store is current."""
        until(self.is_current)

    def kill_exporter(self) -> None:
        """End the last exporter at once, and wait until its lock is free."""
        os.kill(self.exporters()[-1]["pid"], signal.SIGKILL)
        until(lambda: self.admin()["exporter"] == "idle")
