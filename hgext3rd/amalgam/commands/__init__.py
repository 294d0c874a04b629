"""What users can call: the commands, a revset and a template keyword, with their help.

Each is answered by a module of this package, which it imports when it is called: all of
hg pays for what is here, even for a name of a module that is not loaded.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from mercurial import registrar
from mercurial.cmdutil import formatteropts
from mercurial.i18n import _

from ..loading import load, one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, UiT

_Command = TypeVar("_Command", bound="Callable[..., Any]")

cmdtable: dict[bytes, Any] = {}
_register = registrar.command(cmdtable)
revsetpredicate = registrar.revsetpredicate()
templatekeyword = registrar.templatekeyword()


def command(*args: Any, **kwargs: Any) -> Callable[[_Command], _Command]:
    """Register a command; what damage to the repository raises is for people to read.

    The arguments are those of ``registrar.command``.
    """

    def registered(func: _Command) -> _Command:
        @functools.wraps(func)
        def answer(*given: Any, **opts: Any) -> Any:
            from ..gitstore.state import unreadable

            with unreadable.blamed():
                return func(*given, **opts)

        _register(*args, **kwargs)(answer)
        return func

    return registered


@command(
    b"git::export",
    [
        (b"r", b"rev", [], _(b"export only these and their ancestors"), _(b"REV")),
        (b"", b"dialect", b"", _(b"whose commit ids to make"), _(b"DIALECT")),
        (b"", b"rebuild", False, _(b"forget what was exported and start afresh")),
        *formatteropts,
    ],
    _(b"[-r REV]... [--dialect DIALECT] [--rebuild]"),
    helpcategory=registrar.command.CATEGORY_REMOTE_REPO_MANAGEMENT,
)
def git_export(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """bring the git repository up to date

    Convert the changesets that are new since the last export, and make the
    branches and tags of the git repository those of this repository. Only what
    a server would show to its clients is exported: neither secret nor hidden
    changesets.

    The git repository is ``.hg/amalgam/git/cinnabar.git``, or where
    ``amalgam.git.path`` says. Clone it with git, or let any other git tool read it.

    With -r/--rev, only the given revisions and their ancestors are exported, and
    only branches and tags among what has been exported so far are named. Given
    revisions that may not leave are named, with the reason.

    If exported drafts are amended or stripped, all drafts are converted again, so
    that nothing of the old ones stays. Publish changesets that are final.

    Warnings name new files that git shows otherwise than Mercurial: files whose
    names git refuses to check out, the files of subrepositories, and what stands for
    contents in LFS or largefiles.

    Template keywords:

    :changesets: Integer. Changesets converted.
    :objects: Integer. Git objects written.
    :bytes:   Integer. Size of the pack written.
    :pack:    String. Name of that pack, empty if there was nothing to convert.
    :refs:    Integer. Git refs that are new, gone or moved.
    :deleted: Integer. Those of them that are gone.
    :gone:    Integer. Exported drafts that had to go.
    :seconds: Float. Time taken.
    :dialect: String. Whose commit ids were made.
    :path:    String. The git repository.
    :left_out:    List. Given revisions that may not leave, with ``reason``
                  (``secret``, ``hidden``, ``draft``, ``topic`` or ``view``), ``nodes``.
    :unreachable: Integer. Exported changesets that no ref leads to.
    :unreachable_heads: Integer. Heads among them.
    :topics:      Integer. Changesets left out since they have a topic.
    :different:   List. New files that git shows otherwise, with ``kind`` (``refused``,
                  ``subrepositories``, ``largefiles`` or ``lfs``), ``files``,
                  ``example``.

    Returns 0 on success, 1 if none of the given revisions may leave.
    """
    from . import git

    return git.run(ui, repo, **opts)


@command(
    b"git::verify",
    [
        (b"", b"full", False, _(b"compute every id again, and let git check all")),
        *formatteropts,
    ],
    _(b"[--full]"),
    helpcategory=registrar.command.CATEGORY_MAINTENANCE,
)
def git_verify(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """check the git repository against the history

    Check that what :hg:`git::export` has made is whole and says the same as this
    repository:

    - the packs of the git repository, and the map of ids, are as they were written;
    - each changeset that is served has a commit, and no other changeset has one;
    - git finds all commits, trees and files that the map names;
    - branches, tags and HEAD are those of this repository, and nothing that
      somebody else put there hides or adds any.

    Each difference is named on a line of its own: what it is about, what was found,
    and what was expected. :hg:`admin::amalgam --repair` mends them. Lines that begin
    with ``note:`` are worth knowing, but nothing is wrong: file names that git
    refuses to check out, or changesets that no branch or tag leads to.

    With --full, all changesets are converted again, in a temporary directory of
    ``.hg/amalgam``, or of ``TMPDIR`` for readers who cannot write there. Every id and
    object is compared, and git's own ``git fsck`` looks at everything, too. That
    takes as long as an export from nothing, and git longer.

    Template keywords:

    :differences: List. What is wrong, with ``what``, ``id``, ``found``, ``expected``.
    :notes:       List. What is worth knowing, with ``what``, ``id``, ``text``.
    :changesets:  Integer. Changesets that are served.
    :objects:     Integer. Git objects that were looked up.
    :packs:       Integer. Packs that were read.
    :refs:        Integer. Refs that were compared.
    :unreachable: Integer. Changesets that no ref leads to.
    :full:        Boolean. Whether every id was computed again.
    :path:        String. The git repository.

    Returns 0 if nothing differs, 1 if something does.
    """
    from . import verify

    return verify.run(ui, repo, **opts)


@command(
    b"git::id",
    [
        (b"", b"stdin", False, _(b"read the ids from standard input, one a line")),
        *formatteropts,
    ],
    _(b"ID... | --stdin"),
    helpcategory=registrar.command.CATEGORY_CHANGE_NAVIGATION,
)
def git_id(ui: UiT, repo: RepoT, *given: bytes, **opts: Any) -> int:
    """translate ids of changesets and of git commits

    For the id of a changeset, print that of its commit in git, and for the id of a
    commit, that of its changeset. Which of them an ID is need not be said. It may be
    abbreviated, as long as nothing else that is exported begins like it.

    With --stdin, each line of standard input is an id. For each there is one line of
    output, in the same order: the other id; or the line that was read, followed by
    ``unknown`` or ``ambiguous``. Answers are not held back until the input ends, so
    another program can talk with this one; it is fast enough for any number of ids.

    Template keywords:

    :id:      String. What was asked for.
    :status:  String. ``found``, ``unknown`` or ``ambiguous``.
    :node:    String. The changeset.
    :gitnode: String. Its commit in git.

    Returns 0 if all ids are translated, 1 if some are not. Those are named on standard
    error, or with --stdin in their lines of output.
    """
    from . import ids

    return ids.run(ui, repo, *given, **opts)


@command(
    b"git::bundle",
    [
        (b"r", b"rev", [], _(b"bundle only these and their ancestors"), _(b"REV")),
        (b"", b"base", [], _(b"without these and their ancestors"), _(b"REV")),
        (b"t", b"type", b"git-v2", _(b"whom the bundle is for"), _(b"TYPE")),
        (b"", b"filter", b"", _(b"leave objects out: blob:none"), _(b"FILTER")),
        *formatteropts,
    ],
    _(b"[-r REV]... [--base REV]... [-t TYPE] [--filter FILTER] FILE|-"),
    helpcategory=registrar.command.CATEGORY_IMPORT_EXPORT,
)
def git_bundle(ui: UiT, repo: RepoT, file: bytes, **opts: Any) -> None:
    """write a file that git can clone

    Write what a git client would get from this repository to FILE, or to
    standard output: branches, tags, HEAD, and all that they lead to. What is not
    exported yet is exported first, as by :hg:`git::export`. Neither secret nor
    hidden changesets are in a bundle, nor drafts if ``amalgam.git.export`` is
    ``public``. ::

      $ hg git::bundle ../project.bundle
      $ git clone ../project.bundle project

    With -r/--rev, the bundle has the given revisions and their ancestors; its
    branches are those that a clone of just these would have. With --base, it has
    no changesets that the given revisions have: whoever reads it must have
    those. So this is what was added since release 1.0::

      $ hg git::bundle --base 1.0 ../newer.bundle

    The type, -t/--type, says who can read the bundle:

    :git-v2:      Every git. With ``--filter blob:none``, there are no contents of
        files in it: that is for clones with the same filter, by git 2.36 or later,
        which fetch contents from a server when they need them.
    :cinnabar-v1: git-cinnabar, which can begin a clone with it (``cinnabarclone`` in
        its documentation). It has no branches, but what git-cinnabar knows of each
        changeset, and is never based on others.

    Template keywords:

    :type:       String. Type of the bundle.
    :changesets: Integer. Changesets in it.
    :objects:    Integer. Git objects in it.
    :bytes:      Integer. Size of the file.
    :heads:      List of strings. Changesets to base the next bundle on.
    :refs:       Dictionary. Names in the bundle, and their git ids.
    :seconds:    Float. Time taken.
    """
    from . import bundle

    bundle.run(ui, repo, file, **opts)


@command(
    b"admin::amalgam",
    [
        (b"", b"repair", False, _(b"make snapshots anew, mend the git repository")),
        *formatteropts,
    ],
    _(b"[--repair]"),
    helpcategory=registrar.command.CATEGORY_MAINTENANCE,
)
def admin_amalgam(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """show the state of all that amalgam keeps, and mend it

    Show on one screen how the indexes of this repository get into memory, how much of
    its history is exported to git, how large that is, how fresh, which bundles clients
    may start from, and what is wrong, with what to type. This is quick, and changes
    nothing.

    A large index is mapped from a snapshot, which is compared with it here, and nodes
    are looked up in a map, in which each is looked up. Where there can be no snapshot,
    the index is read, and the reason is shown.

    Being behind is not wrong, nor is an amend since the last export: :hg:`git::export`
    converts what is new and removes what is gone. Something is wrong if it does not go
    away by itself: a file is lost or was changed by somebody else, the configuration
    is invalid, or an export cannot work at all. :hg:`git::verify` looks deeper than
    this.

    With --repair, the snapshots of indexes are made anew. The git repository is
    verified as by :hg:`git::verify`, and what differs is mended: what somebody else put
    there is removed, branches and tags are made those of this repository, and if
    anything is damaged, all is exported again.
    The history itself is never touched: all that amalgam keeps is in ``.hg/amalgam``,
    follows from the history, and may as well be removed, even while servers run.

    Template keywords:

    :indexes:     List. With ``index``, ``mapped``, ``reason``, ``bytes``,
                  ``snapshot_bytes``, ``mapped_nodes``, ``node_map_bytes``.
    :path:        String. The git repository.
    :exists:      Boolean. Whether there was an export.
    :served:      Integer. Changesets that should be exported.
    :behind:      Integer. Those of them that are not.
    :gone:        Integer. Exported changesets that were amended, hidden or stripped
                  since.
    :refs:        Integer. Branches and tags.
    :refs_behind: Integer. Those that another export would change.
    :objects:     Integer. Git objects in packs.
    :packs:       Integer. Packs.
    :pack_bytes:  Integer. Size of the packs and their indexes.
    :changesets:  Integer. Changesets in the map of ids.
    :manifests:   Integer. Manifests in it.
    :files:       Integer. File revisions in it.
    :segments:    Integer. Files of the map.
    :map_bytes:   Integer. Their size.
    :lock:        String. ``free``, ``running``, ``dead`` or ``elsewhere``.
    :lock_host:   String. Host of the process that holds the lock.
    :lock_pid:    Integer. Number of that process; 0 if there is none.
    :bundles:     List. With ``format``, ``state``, ``changesets``, ``covered``,
                  ``missing``, ``bytes``, ``age``, ``url``, ``name``, ``token``.
    :mended:      List. With ``what``, ``id``, ``found``, ``expected``.
    :problems:    List. With ``text``, ``hint``.

    Returns 0 if nothing is wrong, 1 if something needs a person.
    """
    from . import admin

    return admin.run(ui, repo, **opts)


@command(b"debug::amalgam-bundles", [], b"")
def debug_amalgam_bundles(ui: UiT, repo: RepoT) -> None:
    """make the bundles that are missing, unless another process does (INTERNAL)"""
    from . import published

    published.run(ui, repo)


@revsetpredicate(b"gitnode(id)", safe=True)
def gitnode_revset(repo: RepoT, subset: Any, x: Any) -> Any:
    """The changeset whose commit in git has this id, which may be abbreviated."""
    with one_at_a_time:
        from . import ids

        load(ids)
    return ids.revset(repo, subset, x)


@templatekeyword(b"gitnode", requires={b"ctx", b"repo", b"cache"})
def gitnode_keyword(context: Any, mapping: Any) -> bytes:
    """String. The id of the changeset's commit in git; empty if it is not exported."""
    with one_at_a_time:
        from . import ids

        load(ids)
    return ids.keyword(context, mapping)
