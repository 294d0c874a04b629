What a newcomer reads

  $ . "$TESTDIR/testlib/amalgam.sh"

The page of the extension says what it is for and how to begin:

  $ hg help amalgam | sed -n '1,/^Quick start/p'
  amalgam extension - connect Mercurial and git, both ways, at native speed
  
  amalgam lets a Mercurial server speak git. Developers stay with Mercurial.
  Everybody else clones and fetches with plain git, and pushes if you allow it.
  Commits have the ids that git-cinnabar computes, so users of git-cinnabar and
  of plain git can work together. And it lets Mercurial users clone from, pull
  from and push to git hosts.
  
  The history is only read, unless you pull from git or allow "git push". All
  else that amalgam writes is in ".hg/amalgam". You may delete that directory at
  any time, because it can be made again. Only ids that you adopted from another
  mirror (".hg/amalgam/adopted") need a backup.
  
  Quick start

  $ hg help amalgam | grep '\$ '
    $ hg git::export
    $ git clone .hg/amalgam/git/cinnabar.git ../my-clone
    $ hg log -r tip -T '{node|short} is {gitnode|short} in git\n'
    $ hg admin::amalgam
    $ hg git::export --rebuild
    $ hg admin::clone-bundles-clear
    $ hg admin::clone-bundles-refresh
    $ git clone --bundle-uri=https://example.org/repo/amalgam/bundles/bundles.list ...
    $ git clone https://example.org/repo
    $ hg clone git@example.org:group/project.git
    $ hg clone git+https://example.org/project
    $ hg push -B NAME
    $ hg help config.amalgam
    $ hg help config.amalgam.git.memory

It is found without knowing its name:

  $ hg help -k 'Mercurial and git' | grep amalgam
   amalgam connect Mercurial and git, both ways, at native speed

Its version and the Mercurial versions it is tested with are known to hg:

  $ hg version -v | grep amalgam
    amalgam  external  [0-9]+\.[0-9]+\.[0-9]+(\+[0-9a-f]{12}\+?)? (re)

Its configuration items are known too:

  $ hg config --exp-all-known amalgam
  amalgam.bundles.directory=None
  amalgam.bundles.external=None
  amalgam.bundles.level=5
  amalgam.bundles.link-seconds=0
  amalgam.bundles.native=True
  amalgam.bundles.public-url=None
  amalgam.bundles.retention=604800
  amalgam.bundles.threads=0
  amalgam.bundles.url=None
  amalgam.bundles.window=64 MB
  amalgam.git.check-texts=True
  amalgam.git.dialect=cinnabar
  amalgam.git.export=served
  amalgam.git.export-on-change=False
  amalgam.git.hggit-files=True
  amalgam.git.max-pull=100 GB
  amalgam.git.max-pull-commits=5000000
  amalgam.git.max-pull-file=2 GB
  amalgam.git.memory=192 MB
  amalgam.git.path=None
  amalgam.git.program=git
  amalgam.git.push=no
  amalgam.git.push-branches=False
  amalgam.git.push-exact=False
  amalgam.git.push-message=None
  amalgam.git.push-tags=False
  amalgam.git.refs=[b'bookmarks', b'tips', b'tags']
  amalgam.git.serve=False
  amalgam.index.node-map=True
  amalgam.index.prefault=none
  amalgam.serve.bundle-uri=False
  amalgam.serve.freshness=1000
  amalgam.serve.max-body=32 MB
  amalgam.serve.max-fetches=4
  amalgam.serve.max-push=512 MB
  amalgam.serve.max-push-commits=100000
  amalgam.serve.max-push-file=100 MB
  amalgam.serve.max-push-objects=1000000
  amalgam.serve.min-speed=4 KB
  amalgam.serve.queue-timeout=30
  amalgam.serve.replication-lag=0
  amalgam.serve.run-directory=None
  amalgam.serve.timeout=300

It has a section of Mercurial's own page on configuration:

  $ hg help config.amalgam | sed -n 1,13p
      "amalgam"
      ---------
  
      'hg admin::amalgam' names every unknown item and every invalid value.
      Mistakes in "git.*" stop exports, and mistakes about bundles stop their
      generation. Commit, push, pull and log go on.
  
      The git repository, and whether hgweb serves it:
  
      "git.export"
          Which changesets to export. "served": those that a server shows to its
          clients, which includes drafts. "public": public changesets only.
          (served or public; default: served)

  $ hg help config.amalgam.git.program
      "amalgam.git.program"
          The git program. (the name or path of a program; default: git)
  

  $ hg help config.ui | grep -c amalgam
  0
  [1]

The help of each command begins with examples:

  $ for name in git::export git::verify git::id git::bundle git::clone-command git::survey admin::amalgam; do
  >   hg help $name | grep -B1 -A3 '^Examples' | tail -n +3
  > done
  
    hg git::export                    # convert new changesets
    hg git::export --estimate         # cost of a first export
  
    hg git::verify                    # compare ids, refs and packs
    hg git::verify --full             # compute every id again
  
    hg git::id 1ea73414a91b           # of a changeset, or of a commit
    git log --format=%H | hg git::id --stdin
  
    hg git::bundle ../project.bundle && git clone ../project.bundle
    hg git::bundle --base 1.0 ../newer.bundle   # changesets not in 1.0
  
    hg git::clone-command https://example.org/repo
    hg git::clone-command ssh://hg@example.org/repo
  
    hg git::survey ../mirror          # all branches and tags
    hg git::survey --commits ../mirror 1.0..default
  
    hg admin::amalgam                 # sizes, freshness, problems
    hg admin::amalgam --repair        # repair problems

Shells complete commands and options by asking Mercurial, which names each once:

  $ hg debugcomplete git::
  git::bundle
  git::clone-command
  git::export
  git::follow
  git::id
  git::push
  git::survey
  git::verify
  $ hg debugcomplete admin::amal
  admin::amalgam
  $ for name in git::export git::verify git::id git::bundle git::clone-command git::survey admin::amalgam; do
  >   hg debugcomplete --options $name | sort | uniq -d
  > done
  $ hg debugcomplete --options git::clone-command | grep web
  --web-conf
