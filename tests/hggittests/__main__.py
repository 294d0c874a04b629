"""Run hg-git's own tests with amalgam in the place of hg-git.

    python3 -m hggittests --sources DIR --hg HG --output DIR [TEST...]

The tests are copied from hg-git's source distribution, which is not part of this
project. One line of them is changed, as users change it: ``hggit =`` in the
configuration becomes ``amalgam =``, with the dialect of hg-git. A test that fails has
to be in ``exceptions``, with the documented reason.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from upstream.__main__ import Runner, read_exceptions

HERE = Path(__file__).resolve().parent
#: A line of ``testutil`` that enables hg-git, and the lines in its place.
THEIRS = 'echo "hggit=$(echo $(dirname $TESTDIR))/hggit" >> $HGRCPATH\n'
OURS = """\
echo "amalgam=" >> $HGRCPATH
echo "[amalgam]" >> $HGRCPATH
echo "git.dialect = hggit" >> $HGRCPATH
echo "git.hggit-files = yes" >> $HGRCPATH
git config --global receive.denyCurrentBranch ignore
"""
#: The last line: hg-git writes into repositories on this machine by itself. Here git
#: does, and would refuse to write a branch that is checked out (docs/from-hg-git.rst).


#: amalgam needs no dulwich. Some tests write commits with it: one of hg-git's time.
NEEDS_DULWICH = '"$TESTDIR/hghave" dulwich || exit 80\n'

#: Progress of dulwich, and of the exporter with -v, which no user acts on. Whole lines
#: of expected output go.
PROGRESS = re.compile(
    rb"""^[ ][ ](?:
      remote:[ ]found[ ]\d+[ ]deltas[ ]to[ ]reuse  # of packing for a push
      | remote:[ ]counting[ ]objects:[ ]\d+,[ ]done\.
      | pack(?:ing|ed)[ ]\d+[ ]loose[ ]objects(?:\.\.\.|!)
      | saving[ ]git[ ]map[ ]to[ ].*
      | processing[ ]commits[ ]in[ ]batches[ ]of[ ]\d+
      | bookmark[ ].*[ ]is[ ]up-to-date
      | finding[ ]unexported[ ]changesets
      | exporting[ ]\d+[ ]changesets
      | converting[ ]revision[ ][0-9a-f]{40}
      | \d+[ ]commits[ ]found
    )\n""",
    re.VERBOSE | re.MULTILINE,
)

#: What hg-git tells with -v before a pull of nothing, and once more after it.
TWICE = re.compile(rb"^(?:  publishing .*\n)+(?=  no changes found\n)", re.MULTILINE)

#: Bars of progress, which two tests turn on: amalgam's have other names.
BARS = re.compile(rb"^  .*\\r \(no-eol\) \(esc\)\n", re.MULTILINE)
BARS_ARE_ON = b"  > assume-tty = yes\n"
BARS_ARE_OFF = b"  > disable = yes\n"

#: dulwich's words for a host that ssh does not reach, and those of git in amalgam's.
UNREACHED = (
    re.compile(
        rb"^  ssh: .*\n  abort: git remote error: The remote server unexpectedly closed"
        rb" the connection\.\n  \[255\]\n",
        re.MULTILINE,
    ),
    rb"""  abort: git cannot read 'ssh://*': * Could not read from remote * (glob)
  (see whether 'git ls-remote ssh://*' works) (glob)
  [100]
""",
)


#: Expected with dulwich in Rust, which sorts a gitlink as if it were a directory. git,
#: dulwich in Python and amalgam do not; ``git fsck`` refuses such a tree.
IN_RUST = re.compile(rb"^.* \(dulwich-rust !\)\n", re.MULTILINE)
IN_PYTHON = b" (no-dulwich-rust !)\n"

#: A branch that is checked out. git refuses it, as if ``OURS`` did not allow it, and
#: amalgam says so in its words, and ends with 2 (docs/from-hg-git.rst).
REFUSED = (
    re.compile(
        rb"^  adding objects\n(?:  remote: .*\n)*  remote: error: refusing to update"
        rb" checked out branch.*\n(?:  remote: .*\n)*(  added .*\n)  warning: failed to"
        rb" update refs/heads/(.*); (.*)\n",
        re.MULTILINE,
    ),
    rb"""  adding objects
\1  branch '\2' is not pushed: \3
  (the remote does not allow it; ask who runs it)
  [2]
""",
)
DENIED = b"  $ git config --global receive.denyCurrentBranch refuse\n"

#: hg-git is disabled, as in a configuration or on a command line.
DISABLED = re.compile(rb"(extensions\.|  > )hggit( ?= ?!)")


def main(arguments: Sequence[str]) -> int:
    """Run the tests of the arguments; 1 if one fails that is no exception."""
    parser = argparse.ArgumentParser(prog="hggittests", description=__doc__)
    parser.add_argument("--sources", type=Path, required=True, help="of hg-git")
    parser.add_argument("--hg", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="a directory")
    parser.add_argument("--dulwich", type=Path, help="directory with that of hg-git")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where results are written")
    parser.add_argument("tests", nargs="*", help="instead of all functional ones")
    options = parser.parse_args(arguments)
    tests = copied(options.sources, options.output.absolute())
    functional = sorted(
        path.name
        for path in tests.glob("test-*.t")
        if not path.name.startswith("test-check-")
    )
    runner = Runner(tests, options.hg, options.output, options.jobs, options.dulwich)
    results = runner.run("run", options.tests or functional, [])
    excepted = read_exceptions(HERE / "exceptions")
    names, failed, skipped = (
        {name.partition("#")[0] for name, it in results.items() if it in wanted}
        for wanted in (("success", "failure", "skip"), ("failure",), ("skip",))
    )
    summary = {
        "run": len(names),
        "passed": len(names - failed - skipped),
        "skipped": sorted(skipped),
        "excepted": sorted(failed & excepted.keys()),
        "unexpected": sorted(failed - excepted.keys()),
        "listed_and_passed": sorted((names - failed) & {*excepted}),
    }
    text = json.dumps(summary, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    return 1 if summary["unexpected"] or summary["listed_and_passed"] else 0


def copied(sources: Path, output: Path) -> Path:
    """Copy the tests, and let them enable amalgam; return their directory."""
    shutil.rmtree(output, ignore_errors=True)
    tests = output / "tests"
    shutil.copytree(sources / "tests", tests)
    file = tests / "testutil"
    text = file.read_text()
    assert THEIRS in text, "testutil enables hg-git in another way"
    file.write_text(text.replace(THEIRS, OURS).replace(NEEDS_DULWICH, ""))
    for test in tests.glob("test-*.t"):
        content = TWICE.sub(b"", PROGRESS.sub(b"", test.read_bytes()))
        content = IN_RUST.sub(b"", content).replace(IN_PYTHON, b"\n")
        content = BARS.sub(b"", content.replace(BARS_ARE_ON, BARS_ARE_OFF))
        content = DISABLED.sub(rb"\1amalgam\2", content)
        content, count = REFUSED[0].subn(REFUSED[1], content)
        if count:
            content = content.replace(b"  $ hg clone", DENIED + b"  $ hg clone", 1)
        test.write_bytes(UNREACHED[0].sub(UNREACHED[1], content))
    return tests


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
