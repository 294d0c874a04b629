What amalgam keeps of a repository, on one screen, and what to do about it

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ cat >> $HGRCPATH << EOS
  > [experimental]
  > mmapindexthreshold = 1
  > EOS
  $ hg init repo && cd repo
  $ for n in 0 1 2; do echo $n > file; hg commit -qAm "change $n" -d "$n 0"; done

Before the first export, nothing is wrong:

  $ hg admin::amalgam
  indexes
    00changelog   mapped: 192 bytes, at least 1 bytes (experimental.mmapindexthreshold)
                  snapshot of 192 bytes
                  map of 3 nodes, 8.00 KB
    00manifest    read: it is inline, with revisions among its entries
  
  git repository $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
    exported      nothing of 3 changesets (run 'hg git::export')
    lock          free
  
  nothing is wrong

  $ hg git::export
  exported 3 changesets: 18 objects, * in * seconds (glob)
  1 ref changed
  git repository: $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
  $ hg admin::amalgam
  indexes
    00changelog   mapped: 192 bytes, at least 1 bytes (experimental.mmapindexthreshold)
                  snapshot of 192 bytes
                  map of 3 nodes, 8.00 KB
    00manifest    read: it is inline, with revisions among its entries
  
  git repository $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
    exported      3 of 3 changesets, up to date
    refs          1
    objects       27 in 2 packs, * KB (glob)
    disk          about * KB before the next roll-up of packs, * KB during it (glob)
    map           3 changesets, 3 manifests, 3 file revisions in 1 segment, * KB (glob)
    lock          free
  
  nothing is wrong
  $ hg admin::amalgam -T json
  [
   {
    "adopted": 0,
    "behind": 0,
    "bundles": [],
    "changesets": 3,
    "exists": true,
    "exporter": "off",
    "files": 3,
    "follows": [],
    "gone": 0,
    "growth_bytes": *, (glob)
    "indexes": [{"bytes": 192, "index": "00changelog", "mapped": true, "mapped_nodes": 3, "node_map_bytes": 8192, "reason": "large-enough", "snapshot_bytes": 192}, {"bytes": 333, "index": "00manifest", "mapped": false, "mapped_nodes": 0, "node_map_bytes": 0, "reason": "inline", "snapshot_bytes": 0}],
    "lock": "free",
    "lock_host": "",
    "lock_pid": 0,
    "manifests": 3,
    "map_bytes": 3528,
    "mended": [],
    "metadata_behind": 0,
    "objects": 27,
    "pack_bytes": *, (glob)
    "packs": 2,
    "path": "$TESTTMP/repo/.hg/amalgam/git/cinnabar.git",
    "peak_bytes": *, (glob)
    "problems": [],
    "refs": 1,
    "refs_behind": 0,
    "remotes": [],
    "segments": 1,
    "served": 3
   }
  ]
  $ hg admin::amalgam -T '{served - behind} of {served}, {lock}\n'
  3 of 3, free

To be behind is not wrong, an export is all it takes:

  $ echo 3 > file && hg commit -qm 'change 3' -d '3 0' && hg bookmark new
  $ hg admin::amalgam | grep behind
    exported      3 of 4 changesets, 1 behind (run 'hg git::export')
    refs          2, 2 behind (run 'hg git::export')
  $ hg bookmark -r 0 old
  $ hg git::export
  exported 1 changeset: 6 objects, * in * seconds (glob)
  3 refs changed
  git repository: $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
  $ hg bookmark -r 1 -f old
  $ hg admin::amalgam | grep behind
    refs          3, 1 behind (run 'hg git::export')
    metadata      1 changeset behind (updated when git-cinnabar needs it)
  $ hg git::export
  1 ref changed
  git repository: $TESTTMP/repo/.hg/amalgam/git/cinnabar.git

Who holds the lock is told, and whether it is only what a dead process left:

  $ hold() {
  >   rm -f .hg/amalgam/lock
  >   ln -s "$1:$2" .hg/amalgam/lock
  > }
  $ here=`"$PYTHON" -c 'from mercurial import lock; print(lock._getlockprefix().decode())'`
  $ hold $here $$
  $ hg admin::amalgam | grep lock
    lock          held by process * on host '*': an export is running (glob)
  $ hold $here `sh -c 'echo $$'`
  $ hg admin::amalgam | grep lock
    lock          stale: process * on host '*' is gone; the next export takes it over (glob)
  $ hold elsewhere 123
  $ hg admin::amalgam | grep lock
    lock          held by process 123 on host 'elsewhere', which renewed it * seconds ago (glob)
  $ touch -h -d '1 hour ago' .hg/amalgam/lock
  $ hg admin::amalgam | grep lock
    lock          stale: process 123 on host 'elsewhere' has been silent for 60 minutes; the next export takes it over
  $ rm .hg/amalgam/lock

What is no lock needs a person:

  $ ln -s nonsense .hg/amalgam/lock
  $ hg admin::amalgam | sed -n '/^wrong/,$p'
  wrong
    lock is no lock that amalgam or Mercurial could have made
    (remove '$TESTTMP/repo/.hg/amalgam/lock' if no export is running there)
  $ hg admin::amalgam > /dev/null
  [1]
  $ rm .hg/amalgam/lock

So does what an export would not mend, or not expect:

  $ rm .hg/amalgam/git/cinnabar.git/objects/pack/*.rev
  $ sed -i 's,refs/heads/old,refs/heads/young,' .hg/amalgam/git/cinnabar.git/packed-refs
  $ hg admin::amalgam
  indexes
    00changelog   mapped: 256 bytes, at least 1 bytes (experimental.mmapindexthreshold)
                  snapshot of 256 bytes
                  map of 4 nodes, 8.00 KB
    00manifest    read: it is inline, with revisions among its entries
  
  git repository $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
    exported      4 of 4 changesets, up to date
    refs          3
    objects       33 in 3 packs, * KB (glob)
    disk          about * KB before the next roll-up of packs, * KB during it (glob)
    map           4 changesets, 4 manifests, 4 file revisions in 2 segments, * KB (glob)
    metadata      1 changeset behind (updated when git-cinnabar needs it)
    lock          free
  
  wrong
    pack pack-*.rev: found nothing, expected a whole file (glob)
    pack pack-*.rev: found nothing, expected a whole file (glob)
    pack pack-*.rev: found nothing, expected a whole file (glob)
    (run 'hg admin::amalgam --repair')
    ref refs/heads/old: found nothing, expected e0339af8fb95b8cd9c37dba61c3f41d531148a56
    ref refs/heads/young: found e0339af8fb95b8cd9c37dba61c3f41d531148a56, expected nothing
    (run 'hg git::export')
  [1]
  $ hg admin::amalgam --repair
  repaired: pack pack-*.rev: found nothing, expected a whole file (glob)
  repaired: pack pack-*.rev: found nothing, expected a whole file (glob)
  repaired: pack pack-*.rev: found nothing, expected a whole file (glob)
  repaired: ref refs/heads/old: found nothing, expected e0339af8fb95b8cd9c37dba61c3f41d531148a56
  repaired: ref refs/heads/young: found e0339af8fb95b8cd9c37dba61c3f41d531148a56, expected nothing
  
  indexes
    00changelog   mapped: 256 bytes, at least 1 bytes (experimental.mmapindexthreshold)
                  snapshot of 256 bytes
                  map of 4 nodes, 8.00 KB
    00manifest    read: it is inline, with revisions among its entries
  
  git repository $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
    exported      4 of 4 changesets, up to date
    refs          3
    objects       33 in 2 packs, * KB (glob)
    disk          about * KB before the next roll-up of packs, * KB during it (glob)
    map           4 changesets, 4 manifests, 4 file revisions in 1 segment, * KB (glob)
    lock          free
  
  nothing is wrong
  $ hg git::verify --full
  checked 4 changesets, 20 objects, 3 refs, 2 packs
  no differences

There is nothing to repair in what is whole, or was never made:

  $ hg admin::amalgam --repair | head -1
  indexes
  $ hg init ../other && hg -R ../other admin::amalgam --repair | tail -5
  git repository $TESTTMP/other/.hg/amalgam/git/cinnabar.git
    exported      nothing of 0 changesets (run 'hg git::export')
    lock          free
  
  nothing is wrong

What makes an export impossible is told, too:

  $ hg admin::amalgam --config amalgam.git.program=no-such-git | sed -n '/^wrong/,$p'
  wrong
    cannot run git program 'no-such-git': No such file or directory
    (install git, or set amalgam.git.program)
  $ git config -f .hg/amalgam/git/cinnabar.git/config filter.x.clean evil
  $ hg admin::amalgam | sed -n '/^wrong/,$p'
  wrong
    git store has settings that could run programs: filter.x.clean
    (remove them from '$TESTTMP/repo/.hg/amalgam/git/cinnabar.git/config')
  $ git config -f .hg/amalgam/git/cinnabar.git/config --unset filter.x.clean

All of it may be removed at any time, even while a server runs:

  $ commit=`hg log -r 2 -T '{gitnode}'`
  $ hg serve -d -p $HGPORT --pid-file=hg.pid -E errors.log
  $ cat hg.pid >> $DAEMON_PIDS
  $ ask() {
  >   "$PYTHON" -c 'import sys, urllib.request; \
  >     print(urllib.request.urlopen(sys.argv[1]).read().decode())' \
  >     "http://localhost:$HGPORT/log?style=raw&rev=gitnode($commit)" | grep '^\(# Mode\|change\)'
  > }
  $ ask
  # Mode revset expression search
  changeset:   ed51d10d1b1e564a7d57d664e19b47e88961757b
  $ rm -rf .hg/amalgam
  $ ask
  # Mode revset expression search
  $ hg admin::amalgam | grep exported
    exported      nothing of 4 changesets (run 'hg git::export')
  $ hg git::export
  exported 4 changesets: 24 objects, * in * seconds (glob)
  3 refs changed
  git repository: $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
  $ ask
  # Mode revset expression search
  changeset:   ed51d10d1b1e564a7d57d664e19b47e88961757b
  $ cat errors.log

Snapshots of indexes
====================

A snapshot that somebody has written to is compared with its index, and made anew:

  $ hg init ../large && cd ../large
  $ hg debugbuilddag -q +100
  $ printf '!' | dd of=`echo .hg/amalgam/index/00changelog-*.snap` bs=1 seek=70 conv=notrunc 2> /dev/null
  $ hg admin::amalgam | tail -1
  nothing is wrong
  $ cmp .hg/store/00changelog.i .hg/amalgam/index/00changelog-*.snap

A map of nodes that somebody has written to is not used any more:

  $ hg init ../larger && cd ../larger
  $ hg debugbuilddag -q +1100
  $ hg admin::amalgam | grep 'map of'
                  map of 1100 nodes, 16.0 KB
  $ printf '!' | dd of=`echo .hg/amalgam/index/00changelog-*.nodemap` bs=1 seek=8400 conv=notrunc 2> /dev/null
  $ hg admin::amalgam | sed -n '/^wrong/,$p'
  wrong
    node map of 00changelog: its data file is missing or has changed
    (run 'hg admin::amalgam --repair')
  $ hg admin::amalgam --repair | tail -1
  nothing is wrong
  $ cd ../large

Where none can be made, the index is read, and the reason is told:

  $ rm -r .hg/amalgam/index
  $ echo 'in the way' > .hg/amalgam/index
  $ hg admin::amalgam | grep 00changelog
    00changelog   read: no snapshot can be made of it: '$TESTTMP/large/.hg/amalgam/index' is not a directory
  $ hg log -r tip -T '{rev}\n'
  99
  $ rm .hg/amalgam/index
  $ touch .hg/store/journal
  $ hg admin::amalgam | grep 00changelog
    00changelog   read: it changed, and a transaction is running or interrupted
  $ rm .hg/store/journal
  $ hg debugupdatecaches
  $ ls .hg/amalgam/index | sed 's/-[0-9a-f]*/-UID/' | LC_ALL=C sort
  00changelog-UID.nodemap
  00changelog-UID.snap
  00changelog.docket
  00changelog.nodemap
  lock
