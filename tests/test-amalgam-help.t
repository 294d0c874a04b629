What a newcomer reads

  $ . "$TESTDIR/testlib/amalgam.sh"

The page of the extension says what it is for and how to begin:

  $ hg help amalgam | sed -n '1,/^Quick start/p'
  amalgam extension - give git users a Mercurial repository, at native speed
  
  amalgam turns the history of a Mercurial repository into a real git repository
  that any git tool can clone, fetch from or inspect. Its commits have the ids
  that git-cinnabar computes, so users of git-cinnabar and of plain git can work
  together.
  
  The history is only read. Everything that amalgam writes is in ".hg/amalgam"
  and can be made again, so you may delete that directory at any time.
  
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

It is found without knowing its name:

  $ hg help -k 'git users' | grep amalgam
   amalgam give git users a Mercurial repository, at native speed

Its version and the Mercurial versions it is tested with are known to hg:

  $ hg version -v | grep amalgam
    amalgam  external  [0-9]+\.[0-9]+\.[0-9]+ (re)

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
  amalgam.git.memory=192 MB
  amalgam.git.path=None
  amalgam.git.program=git
  amalgam.git.refs=[b'bookmarks', b'tips', b'tags']
  amalgam.git.serve=False
  amalgam.index.node-map=True
  amalgam.index.prefault=none
  amalgam.serve.bundle-uri=False
  amalgam.serve.freshness=1000
  amalgam.serve.max-body=32 MB
  amalgam.serve.max-fetches=4
  amalgam.serve.queue-timeout=30
  amalgam.serve.run-directory=None
  amalgam.serve.timeout=300
