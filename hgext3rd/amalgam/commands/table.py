"""The commands, with their options and their help, which begins with examples.

``hg help`` loads this module, so a command imports its own module when it runs.
Commands in ``debug::`` are called by amalgam only.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from mercurial import registrar, util
from mercurial.cmdutil import formatteropts

if TYPE_CHECKING:
    from collections.abc import Callable

    from mercurial.interfaces.types import RepoT, UiT

_Command = TypeVar("_Command", bound="Callable[..., Any]")

cmdtable: dict[bytes, Any] = {}
_register = registrar.command(cmdtable)


def command(*args: Any, **kwargs: Any) -> Callable[[_Command], _Command]:
    """Register a command that reports damage to the repository in one line.

    The arguments are those of ``registrar.command``.
    """

    def registered(func: _Command) -> _Command:
        @functools.wraps(func, ("__name__", "__doc__"), ())
        def answer(*given: Any, **opts: Any) -> Any:
            from .. import damage

            with damage.blamed():
                # Mercurial would not tell missing arguments from an error in ``func``
                return util.checksignature(func)(*given, **opts)

        _register(*args, **kwargs)(answer)
        return func

    return registered


@command(
    b"git::export",
    [
        (b"r", b"rev", [], b"export only these and their ancestors", b"REV"),
        (b"", b"dialect", b"", b"rules that decide the commit ids", b"DIALECT"),
        (b"", b"rebuild", False, b"export everything again, from nothing"),
        (b"", b"metadata", False, b"update git-cinnabar's metadata as well"),
        (b"", b"estimate", False, b"only tell what a first export would take"),
        (b"", b"adopt", b"", b"go on from the commits of a mirror", b"GITREPO"),
        (b"", b"map", b"", b"file with lines NODE OID, for --adopt", b"FILE"),
        (b"", b"full", False, b"check all of GITREPO, for --adopt"),
        *formatteropts,
    ],
    b"[-r REV]... [--rebuild] [--metadata] [--adopt GITREPO] | --estimate",
    helpcategory=registrar.command.CATEGORY_REMOTE_REPO_MANAGEMENT,
)
def git_export(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """bring the git repository up to date

    Examples::

      hg git::export                    # convert new changesets
      hg git::export --estimate         # cost of a first export
      hg git::export --adopt ../mirror  # go on from a git mirror

    Convert the changesets that are new since the last export, and update branches
    and tags. Changesets are exported if a server would show them to its clients.
    Secret and hidden changesets are never exported.

    The git repository is ``.hg/amalgam/git/cinnabar.git``, unless
    ``amalgam.git.path`` is set. Clone it with git, or read it with any other git
    tool.

    With -r/--rev, export only the given revisions and their ancestors. Branches
    and tags of changesets that are not exported yet are left out. Given revisions
    that may not leave are named, with the reason.

    If exported drafts are amended or stripped, nothing of the old ones stays. The
    other drafts stay where they are, and can be fetched meanwhile.

    With --metadata, update git-cinnabar's metadata as well, for a ``git cinnabar``
    that reads the git repository itself. Bundles for git-cinnabar do that when they
    are written. An export from nothing always does. Others do not, because the
    metadata names all heads: it takes time in proportion to the history.

    With --estimate, tell how much disk space and processor time an export from
    nothing would take, and export nothing. Only the indexes of the repository are
    read. The rates were measured with other repositories on one machine; secret and
    hidden changesets count. ``docs/decisions/forecast.rst`` has the errors.

    With --adopt, go on from a git repository that git-cinnabar or hg-fast-export has
    made of this repository. Its commits keep their ids, and new changesets become
    their children. GITREPO is a directory or a URL. Each tree and each parent is
    compared; the export is refused if one differs. If the repository does not say
    which commit is which changeset's, --map names a file that does. With --full,
    each manifest is compared with its node, and ``git fsck`` checks GITREPO.
    Ids that amalgam would not give are kept in ``.hg/amalgam/adopted``: make a
    backup of that directory.

    Warnings name new files that look different in git: names that git refuses to
    check out, files that name subrepositories, LFS pointers and largefiles
    standins.

    Template keywords:

    :changesets: Integer. Changesets converted.
    :objects: Integer. Git objects written.
    :bytes:   Integer. Size of the pack written.
    :pack:    String. Name of that pack, empty if there was nothing to convert.
    :refs:    Integer. Git refs that were created, moved or deleted.
    :deleted: Integer. Git refs that were deleted.
    :gone:    Integer. Exported drafts that were removed.
    :seconds: Float. Time taken.
    :dialect: String. The rules that decided the commit ids.
    :path:    String. The git repository.
    :left_out:    List. Given revisions that may not leave, with ``reason``
                  (``secret``, ``hidden``, ``draft``, ``topic`` or ``view``), ``nodes``.
    :unreachable: Integer. Exported changesets that no ref leads to.
    :unreachable_heads: Integer. Heads among them.
    :topics:      Integer. Changesets left out because they have a topic.
    :long_names:  Integer. Bookmarks, branches and tags too long for git.
    :different:   List. New files that look different in git, with ``kind``
                  (``refused``, ``subrepositories``, ``largefiles`` or ``lfs``),
                  ``files``, ``example``.
    :adopted:          Integer. With --adopt, changesets with commits of GITREPO.
    :adopted_kept:     Boolean. Whether their ids have to be kept.
    :adopted_unknown:  Integer. Changesets of GITREPO that are not in the repository.
    :adopted_unserved: Integer. Changesets of GITREPO that may not leave.

    With --estimate: ``disk_bytes``, ``free_bytes``, ``cpu_seconds``; numbers of
    ``changesets``, ``manifests``, ``file_revisions``, ``files``; ``changeset_bytes``,
    ``manifest_bytes``, ``file_bytes`` as stored; ``text_bytes`` of files; ``levels``,
    directories above file revisions; ``path``; and ``exists``: was there an export.

    Returns 0 on success, 1 if none of the given revisions may leave.
    """
    from . import export

    if opts.get("estimate"):
        return export.show_estimate(ui, repo, **opts)
    return export.run(ui, repo, **opts)


@command(
    b"git::clone-command",
    [
        (b"", b"web-conf", b"", b"configuration of an hgweb", b"FILE"),
        *formatteropts,
    ],
    b"[--web-conf FILE | URL]",
    helpcategory=registrar.command.CATEGORY_REMOTE_REPO_MANAGEMENT,
    optionalrepo=True,
)
def git_clone_command(
    ui: UiT, repo: RepoT | None, url: bytes = b"", **opts: Any
) -> int:
    """print the command that clones with git

    Examples::

      hg git::clone-command https://example.org/repo
      hg git::clone-command ssh://hg@example.org/repo
      hg git::clone-command --web-conf /etc/mercurial/hgweb.conf

    URL is the address that users of Mercurial clone. An address with ``ssh://`` is for
    servers that use ``hg-amalgam-ssh``. It is translated, because git takes a path
    after the host as an absolute one.

    Without URL, the address is ``web.baseurl`` if the repository's own ``.hg/hgrc``
    sets it. With --web-conf, it is found in the configuration of an hgweb: in its
    ``[paths]`` and ``web.baseurl``. Outside of a repository, that prints the commands
    for all repositories of this hgweb that git clients may clone. If no address is
    known, print the command for users of this machine, and warn. ``[paths]`` of the
    repository itself are not looked at: they name other repositories.

    If there are bundles for git, the second command starts with them (git 2.39 and
    later). With ``amalgam.serve.bundle-uri``, the third one lets git find them (git
    2.40 and later). The server itself is not asked.

    Template keywords:

    :command:     String. The line to type.
    :transport:   String. ``http``, ``https``, ``ssh`` or ``file``.
    :url:         String. The address in the command; for ``file``, a path.
    :bundles_url: String. The list of bundles in the command; empty if there is none.

    Returns 0 on success, 1 if git clients may clone none of several repositories.
    """
    from . import clone

    return clone.run(ui, repo, url, **opts)


@command(
    b"git::verify",
    [
        (b"", b"full", False, b"compute every id again, and run git fsck"),
        *formatteropts,
    ],
    b"[--full]",
    helpcategory=registrar.command.CATEGORY_MAINTENANCE,
)
def git_verify(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """check the git repository against the history

    Examples::

      hg git::verify                    # compare ids, refs and packs
      hg git::verify --full             # compute every id again

    Check that the git repository is complete and agrees with this repository:

    - the packs and the oid map are as they were written;
    - every served changeset has a commit, and no other changeset has one;
    - git finds all commits, trees and files that the oid map names;
    - branches, tags and HEAD are those of this repository, and no ref added by
      others hides or extends them.

    Each difference is one line: its subject, what was found, and what was expected.
    :hg:`admin::amalgam --repair` repairs them. Lines that begin with ``note:`` are
    not differences: file names that git refuses to check out, and changesets that
    no branch or tag leads to.

    git-cinnabar's metadata is brought up to date first, as by
    :hg:`git::export --metadata`, unless the git repository is damaged or out of date,
    cannot be written, or is being exported to. Nothing else is written.

    With --full, convert all changesets again and compare every id and object. This
    happens in a temporary directory in ``.hg/amalgam``, or in ``TMPDIR`` for users
    who cannot write there. ``git fsck`` then checks everything. This takes as long
    as a first export, and ``git fsck`` takes longer.

    Template keywords:

    :differences: List of problems, with ``what``, ``id``, ``found``, ``expected``.
    :notes:       List. Notes, with ``what``, ``id``, ``text``.
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
        (b"", b"stdin", False, b"read ids from standard input, one per line"),
        *formatteropts,
    ],
    b"ID... | --stdin",
    helpcategory=registrar.command.CATEGORY_CHANGE_NAVIGATION,
)
def git_id(ui: UiT, repo: RepoT, *given: bytes, **opts: Any) -> int:
    """translate ids of changesets and of git commits

    Examples::

      hg git::id 1ea73414a91b           # of a changeset, or of a commit
      git log --format=%H | hg git::id --stdin

    Print the id of the git commit for the id of a changeset, and the other way
    round. IDs may be Mercurial nodes or git object ids. They may be abbreviated, if
    the abbreviation is unambiguous among exported changesets and commits.

    With --stdin, each line of standard input is an id. For each there is one line of
    output, in the same order: the other id; or the line that was read, followed by
    ``unknown`` or ``ambiguous``. Answers are printed at once, so another program can
    ask one id after the other.

    Template keywords:

    :id:      String. The id that was given.
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
        (b"r", b"rev", [], b"bundle only these and their ancestors", b"REV"),
        (b"", b"base", [], b"leave out these and their ancestors", b"REV"),
        (b"t", b"type", b"git-v2", b"type of the bundle", b"TYPE"),
        (b"", b"filter", b"", b"leave objects out: blob:none", b"FILTER"),
        *formatteropts,
    ],
    b"[-r REV]... [--base REV]... [-t TYPE] [--filter FILTER] FILE|-",
    helpcategory=registrar.command.CATEGORY_IMPORT_EXPORT,
)
def git_bundle(ui: UiT, repo: RepoT, file: bytes, **opts: Any) -> None:
    """write a file that git can clone

    Examples::

      hg git::bundle ../project.bundle && git clone ../project.bundle
      hg git::bundle --base 1.0 ../newer.bundle   # changesets not in 1.0

    Write a clone to FILE, or to standard output: branches, tags, HEAD, and
    everything reachable from them. New changesets are exported
    first, as by :hg:`git::export`. A bundle contains no secret or hidden
    changesets, and no drafts if ``amalgam.git.export`` is ``public``.

    With -r/--rev, the bundle contains the given revisions and their ancestors, and
    the branches that a clone of these would have. With --base, it leaves out the
    given revisions and their ancestors. The reader must already have them.

    The type, -t/--type, decides who can read the bundle:

    :git-v2:      Every git. With ``--filter blob:none``, the bundle contains no file
        contents. Use it for clones with the same filter, by git 2.36 or later. They
        fetch contents from a server when they need them.
    :cinnabar-v1: git-cinnabar, which can start a clone from it (``cinnabarclone`` in
        its documentation). The bundle has git-cinnabar's metadata instead of
        branches. It cannot be combined with --base or --filter.

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
    b"git::push",
    [
        (b"", b"all", False, b"push to all remotes of the configuration"),
        (b"B", b"bookmark", [], b"push only this branch", b"NAME"),
        (b"", b"tags", False, b"push only tags, beside branches that are given"),
        (b"n", b"dry-run", False, b"only show the refs that differ"),
        (b"", b"prune", False, b"delete refs that are gone here"),
        (b"f", b"force", False, b"write branches that somebody else moved"),
        (b"", b"adopt", False, b"take over refs that are equal or behind"),
        (b"", b"check", False, b"compare the remote, and write nothing"),
        (b"", b"wait", False, b"wait for another push to the same remote"),
        *formatteropts,
    ],
    b"[-B NAME]... [--tags] [--prune] [-n] [URL|NAME]... | --all",
    helpcategory=registrar.command.CATEGORY_REMOTE_REPO_MANAGEMENT,
)
def git_push(ui: UiT, repo: RepoT, *remotes: bytes, **opts: Any) -> int:
    """push branches and tags to a git repository elsewhere

    Examples::

      hg git::push git@example.org:project.git    # an empty repository there
      hg git::push mirror                         # amalgam.replicate.mirror
      hg git::push --all                          # all of these, at once
      hg git::push --check mirror                 # is it equal?

    New changesets are exported first. Then branches and tags that differ from the
    last push are pushed; nothing else is sent, and the remote is not asked if
    nothing differs. A remote is a git repository that others only read: branches
    there are made equal to those here, even if that takes a forced push.

    git itself connects, with your own configuration: ssh keys, credential helpers
    and proxies. Passwords do not belong in URLs. NAME is an item
    ``amalgam.replicate.NAME``; with ``.on-change``, the remote follows by itself
    (see :hg:`help config.amalgam`).

    Only refs that amalgam wrote are ever moved or deleted. The first push needs a
    remote without branches and tags. With --adopt, branches and tags that are equal
    to those here, or behind, become refs that amalgam wrote; others stay as they
    are. A branch that somebody else moved is refused. To overwrite it, name it with
    -B/--bookmark and give -f/--force.

    A bookmark that was deleted here stays there, unless --prune is given or
    ``.prune`` is set. Refs of changesets that were stripped, hidden or made secret
    are always deleted there. If the remote refuses that, they are named.

    A first push of many changesets takes several pushes. It may be interrupted;
    the next one continues. A ref that the remote refuses does not hold back others.
    The reason is remembered.

    Template keywords:

    :remote:  String. NAME, or ``url-`` and digits if it has none.
    :url:     String. The URL, without a user's name.
    :status:  String. ``equal``, ``refused`` if some refs were, ``failed`` or
              ``busy`` if another push is running.
    :reason:  String. Why it failed, in the words of git or of the remote.
    :kind:    String. Kind of the failure: ``login``, ``transient``, ``limit``,
              ``moved`` or ``rule``.
    :refs:    List. Refs that changed or should have, with ``ref``, ``action``
              (``created``, ``moved``, ``forced``, ``deleted``, ``refused``, ``kept``,
              ``different``), ``old``, ``new``, ``reason``, ``unreadable``.
    :pushes:  Integer. Pushes of git that it took.
    :seconds: Float. Time taken.

    Returns 0 if all remotes are equal, 1 if some refs were refused or differ, 2 if a
    push failed, 3 if another process is pushing to the remote. The largest counts.
    """
    from . import replicate

    return replicate.run(ui, repo, *remotes, **opts)


@command(
    b"git::follow",
    [*formatteropts],
    b"[NAME]...",
    helpcategory=registrar.command.CATEGORY_REMOTE_REPO_MANAGEMENT,
)
def git_follow(ui: UiT, repo: RepoT, *names: bytes, **opts: Any) -> int:
    """bring the repository up to date with git repositories that it follows

    Examples::

      hg git::follow               # all of amalgam.follow.NAME
      hg git::follow upstream      # one of them, for instance from a webhook

    For servers, where a git repository is the leading side. NAME is an item
    ``amalgam.follow.NAME``, the URL of a git repository. Its new commits are pulled,
    as by :hg:`pull`. Its branches become bookmarks: these move with them, also when
    a branch is rewritten there, and go when it is deleted. A bookmark that somebody
    has moved here stays, and is named. Then the git store is brought up to date,
    and whatever follows changes here, such as bundles, other git repositories
    (:hg:`help git::push`) and git clients.

    With ``.interval``, a server looks by itself when a client asks
    (see :hg:`help config.amalgam`).

    Template keywords:

    :name:       String.
    :url:        String. The URL, without a user's name.
    :changesets: Integer. New changesets.
    :moved:      List of strings. Bookmarks that are not where the branch is.
    :reason:     String. Why it failed.

    Returns 0 if all were pulled, 1 if one failed.
    """
    from . import follow

    return follow.run(ui, repo, *names, **opts)


@command(
    b"git::survey",
    [
        (b"", b"commits", False, b"list each commit that could not be pushed"),
        *formatteropts,
    ],
    b"GITREPO [REV]...",
    helpcategory=registrar.command.CATEGORY_IMPORT_EXPORT,
    norepo=True,
)
def git_survey(ui: UiT, gitrepo: bytes, *revs: bytes, **opts: Any) -> int:
    """show which commits of a git repository could be pushed into Mercurial

    Examples::

      hg git::survey ../mirror          # all branches and tags
      hg git::survey --commits ../mirror 1.0..default

    A commit survives a push if its changeset, exported again, is the same commit.
    Then everybody who has the commit keeps its id. Count the commits that survive,
    and for each reason those that do not, with the first of them. Nothing is
    written, and nothing is pushed.

    GITREPO is a directory or a URL. A repository with a URL is fetched into a
    temporary directory first. REV is a revision or a range as git has them, such as
    ``main`` or ``v1.0..main``. Parents outside of a range count as surviving. Without
    REV, all branches, tags and remote-tracking branches are surveyed.

    Each commit has one reason, the first that was found: ``malformed-commit``,
    ``signature``, ``encoding``, ``header``, ``octopus``, ``date``, ``identity``,
    ``backslash``, ``submodule``, ``mode``, ``empty-directory``, ``malformed-tree``,
    ``path``. The reason ``ancestor`` means that the commit has no other: an ancestor
    does not survive. ``docs/survey.rst`` has a way out for each.

    With ``amalgam.git.push-exact``, more commits survive. They are counted, too, and
    how many of them need the extras ``git.commit`` and ``git.tree``.

    The contents of files are not read. Configuration, hooks, grafts and replacements
    of GITREPO are ignored.

    Template keywords:

    :commits:   Integer. Commits that were surveyed.
    :survivors: Integer. Commits that survive.
    :refused:   Integer. Commits that do not.
    :trees:     Integer. Different trees of the commits.
    :exact_survivors: Integer. Survivors with ``amalgam.git.push-exact``.
    :commit_extras:   Integer. Those of them that need the extra ``git.commit``.
    :tree_extras:     Integer. Those of them that need the extra ``git.tree``.
    :findings:  List. With ``reason``, ``commits``, ``first`` and ``detail`` of each
                reason that was found.
    :refusals:  List. With --commits, ``commit`` and ``reason`` of each commit that
                does not survive, parents before children.
    :seconds:   Float. Time taken.
    :path:      String. GITREPO as it was given.

    Returns 0 if all commits survive, 1 if some do not.
    """
    from . import survey

    return survey.run(ui, gitrepo, *revs, **opts)


@command(
    b"admin::amalgam",
    [
        (b"", b"repair", False, b"make snapshots again, repair the git repository"),
        (b"", b"metrics", False, b"print metrics in the text format of Prometheus"),
        *formatteropts,
    ],
    b"[--repair | --metrics]",
    helpcategory=registrar.command.CATEGORY_MAINTENANCE,
)
def admin_amalgam(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """show the state of everything that amalgam keeps, and repair it

    Examples::

      hg admin::amalgam                 # sizes, freshness, problems
      hg admin::amalgam --repair        # repair problems
      hg admin::amalgam --metrics       # for Prometheus

    Show on one screen: how hg opens the indexes of this repository; how much of the
    history is exported to git, how large that is, and how fresh; which bundles
    clients can start from; and problems, each with a command to type. This changes
    nothing.

    Snapshots are compared with their indexes, and every node is looked up in its
    node map. If an index has no snapshot, the reason is shown.

    It is no problem if the git repository is behind, or if exported changesets were
    amended: :hg:`git::export` converts the new ones and removes the old.
    Problems do not go away by themselves: a file is lost or was changed by
    somebody else, the configuration is invalid, or exports cannot work at all.
    :hg:`git::verify` checks more than this command.

    With --repair, make the snapshots of indexes again, and verify the git
    repository as :hg:`git::verify` does. Then repair the differences: remove files
    that amalgam did not write, and correct branches and tags. If anything is
    damaged, export everything again.

    With --metrics, print metrics for Prometheus instead: sizes, ages, failures, how
    many changesets are exported and how many are behind, the bundles, the indexes,
    and of ``amalgam.serve.run-directory`` the slots that are held, and the requests
    that wait or were refused. Snapshots are not compared with their indexes.
    ``docs/operations.rst`` explains each metric.

    The history itself is never changed. Everything that amalgam keeps is in
    ``.hg/amalgam``, unless ``amalgam.git.path`` or ``amalgam.bundles.directory`` is
    set. You may remove it, even while servers run. Only ``.hg/amalgam/adopted``
    cannot be made again: it exists if you adopted commits of another mirror.

    Template keywords:

    :indexes:     List. With ``index``, ``mapped``, ``reason``, ``bytes``,
                  ``snapshot_bytes``, ``mapped_nodes``, ``node_map_bytes``.
    :path:        String. The git repository.
    :exists:      Boolean. Whether there was an export.
    :served:      Integer. Changesets that should be exported.
    :behind:      Integer. Served changesets that are not exported.
    :metadata_behind: Integer. Exported changesets that git-cinnabar's metadata
                  does not name yet; see :hg:`help git::export`.
    :gone:        Integer. Exported changesets that were amended, hidden or stripped.
    :refs:        Integer. Branches and tags.
    :refs_behind: Integer. Branches and tags that an export would change.
    :objects:     Integer. Git objects in packs.
    :packs:       Integer. Packs.
    :pack_bytes:  Integer. Size of the packs and their indexes.
    :growth_bytes: Integer. Likely growth of these until packs are rolled up.
    :peak_bytes:  Integer. Most bytes of these while packs are rolled up.
    :changesets:  Integer. Changesets in the oid map.
    :manifests:   Integer. Manifests in the oid map.
    :files:       Integer. File revisions in the oid map.
    :segments:    Integer. Files of the oid map.
    :map_bytes:   Integer. Size of the oid map.
    :adopted:     Integer. Changesets with commits that were adopted.
    :lock:        String. ``free``, ``running``, ``dead``, ``elsewhere``, or
                  ``no-lock`` if something else is in its place.
    :lock_host:   String. Host of the process that holds the lock.
    :lock_pid:    Integer. Number of that process; 0 if there is none.
    :exporter:    String. State of exports in the background. ``off``, ``idle``,
                  ``working``, or ``waiting`` after a failure.
    :bundles:     List. With ``format``, ``state``, ``changesets``, ``covered``,
                  ``missing``, ``bytes``, ``age``, ``url``, ``name``, ``token``.
    :follows:     List. Git repositories of ``amalgam.follow``, with ``name``, ``url``,
                  ``interval``, ``lag``, ``succeeded``, ``failures``, ``reason``,
                  ``moved``, ``looks`` and ``changesets``.
    :remotes:     List. Git remotes of ``amalgam.replicate``, with ``remote``, ``url``,
                  ``on_change``, ``lag``, ``succeeded``, ``refused``, ``failures``,
                  ``reason``, ``pushes``, ``written``.
    :mended:      List. Differences that were repaired, with ``what``, ``id``,
                  ``found``, ``expected``.
    :problems:    List. With ``text``, ``hint``.

    Returns 0 if there is no problem, 1 if there is one. With --metrics, returns 0:
    the number of problems is one of the metrics.
    """
    from . import admin, metrics

    if opts["metrics"]:
        return metrics.run(ui, repo, **opts)
    return admin.run(ui, repo, **opts)


@command(
    b"debug::amalgam-export",
    [
        (b"", b"attempts", 0, b"how many exporters have just failed", b"NUMBER"),
        (b"", b"requested", None, b"export though no configuration asks for it"),
    ],
    b"",
)
def debug_amalgam_export(
    ui: UiT, repo: RepoT, attempts: int, requested: bool | None
) -> None:
    """export new changesets, unless another process does (INTERNAL)"""
    from ..gitstore.export import exporter

    exporter.run(repo, attempts, is_requested=bool(requested))


@command(b"debug::amalgam-replicate", [], b"")
def debug_amalgam_replicate(ui: UiT, repo: RepoT) -> None:
    """push to remotes that follow changes, unless another process does (INTERNAL)"""
    from ..remote import worker

    worker.run(repo)


@command(b"debug::amalgam-follow", [], b"")
def debug_amalgam_follow(ui: UiT, repo: RepoT) -> None:
    """pull from git repositories that are due, unless one does already (INTERNAL)"""
    from ..gitpeer import follow

    follow.run(repo)


@command(b"debug::amalgam-bundles", [], b"")
def debug_amalgam_bundles(ui: UiT, repo: RepoT) -> None:
    """generate missing bundles, unless another process does (INTERNAL)"""
    from . import admin

    admin.run_generator(ui, repo)


@command(b"debug::amalgam-maintenance", [], b"")
def debug_amalgam_maintenance(ui: UiT, repo: RepoT) -> None:
    """roll up packs if they are too many (INTERNAL)"""
    from . import export

    export.maintain(ui, repo)


@command(
    b"git-import|gimport",
    [],
    b"[NAME]",
    helpcategory=registrar.command.CATEGORY_IMPORT_EXPORT,
)
def git_import(ui: UiT, repo: RepoT, remote: bytes | None = None) -> None:
    """import commits of hg-git's git repository (ADVANCED)

    A command of hg-git, for its dialect: as a pull from ``.hg/git``, without network.
    """
    from . import hggit

    hggit.import_commits(ui, repo, remote)


@command(
    b"git-export|gexport",
    [],
    b"",
    helpcategory=registrar.command.CATEGORY_IMPORT_EXPORT,
)
def git_export_hggit(ui: UiT, repo: RepoT) -> None:
    """export commits, also to hg-git's git repository (ADVANCED)

    A command of hg-git, for its dialect. As :hg:`git::export`; then objects, refs and
    ids are written to the files of hg-git, if it has left any.
    """
    from . import hggit

    hggit.export_commits(ui, repo)


@command(
    b"git-verify|gverify",
    [
        (b"r", b"rev", b"", b"revision to verify", b"REV"),
        (b"c", b"fsck", False, b"verify repository integrity as well"),
    ],
    b"[-r REV] [-c]",
    helpcategory=registrar.command.CATEGORY_MAINTENANCE,
)
def git_verify_hggit(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """compare the files of a revision with those of its commit (ADVANCED)

    A command of hg-git, for its dialect. :hg:`git::verify` compares all revisions, by
    ids. With -c/--fsck, git checks hg-git's repository first.

    Returns 0 if they are equal.
    """
    from . import hggit

    return hggit.verify(ui, repo, opts["rev"], checks=opts["fsck"])


@command(b"git-cleanup", [], b"", helpcategory=registrar.command.CATEGORY_MAINTENANCE)
def git_cleanup(ui: UiT, repo: RepoT) -> None:
    """remove lines of missing changesets from hg-git's map (ADVANCED)

    A command of hg-git, for its dialect. Refs without an object go, too. amalgam does
    not need that: it passes over such lines.
    """
    from . import hggit

    hggit.clean_up(ui, repo)


@command(b"debuggitdir", [], b"")
def debug_git_directory(ui: UiT, repo: RepoT) -> None:
    """print the path of the git repository, as hg-git does"""
    from . import hggit

    hggit.git_directory(ui, repo)


@command(
    b"debug-remove-hggit-state",
    [],
    b"",
    helpcategory=registrar.command.CATEGORY_MAINTENANCE,
)
def debug_remove_hggit_state(ui: UiT, repo: RepoT) -> None:
    """forget all commits of git, as hg-git does (DANGEROUS)

    Removes the map, the tags and ``.hg/git`` of hg-git, and everything in
    ``.hg/amalgam`` that was pulled or exported in its dialect. Commits that their
    changesets do not give back get other ids, until they are pulled again.
    """
    from . import hggit

    hggit.remove_state(ui, repo)
