Which indexes are mapped into memory, and which are read

  $ . "$TESTDIR/testlib/amalgam.sh"

A command opens repositories, asks amalgam what was decided, and says so if the kernel
knows otherwise:

  $ cat >> "$HGRCPATH" << EOF
  > [extensions]
  > indexmaps = $TESTDIR/testlib/indexmaps.py
  > EOF
  $ maps() {
  >   hg debugindexmaps "$@"
  > }

Four changesets make two indexes of 256 bytes. Manifests would be inline at that size:

  $ hg init repo
  $ cd repo
  $ for n in 1 2 3 4; do
  >   echo $n > file
  >   hg commit -qAm $n --config indexmaps.split=yes
  > done
  $ wc -c < .hg/store/00changelog.i
  256
  $ wc -c < .hg/store/00manifest.i
  256

By itself amalgam changes nothing: Mercurial's own settings decide.

  $ maps
  00changelog: read: 256 bytes, less than 512 KB (storage.revlog.mmap.index:size-threshold)
  00manifest: read: 256 bytes, less than 512 KB (storage.revlog.mmap.index:size-threshold)

  $ maps --config storage.revlog.mmap.index=no
  00changelog: read: storage.revlog.mmap.index switches mapping off
  00manifest: read: storage.revlog.mmap.index switches mapping off

  $ maps --config storage.revlog.mmap.index:size-threshold=100
  00changelog: mapped: 256 bytes, at least 100 bytes (storage.revlog.mmap.index:size-threshold)
  00manifest: mapped: 256 bytes, at least 100 bytes (storage.revlog.mmap.index:size-threshold)

Yes and no
==========

Yes maps, whatever Mercurial's own switch says, from Mercurial's threshold on:

  $ maps --config experimental.mmapindex=yes
  00changelog: read: 256 bytes, less than 1.00 MB (storage.revlog.mmap.index:size-threshold)
  00manifest: read: 256 bytes, less than 1.00 MB (storage.revlog.mmap.index:size-threshold)

  $ maps --config experimental.mmapindex=yes --config storage.revlog.mmap.index=no \
  >   --config storage.revlog.mmap.index:size-threshold=100
  00changelog: mapped: 256 bytes, at least 100 bytes (storage.revlog.mmap.index:size-threshold)
  00manifest: mapped: 256 bytes, at least 100 bytes (storage.revlog.mmap.index:size-threshold)

No maps nothing, whatever the others say:

  $ maps --config experimental.mmapindex=no --config experimental.mmapindexthreshold=0 \
  >   --config storage.revlog.mmap.index=yes
  00changelog: read: experimental.mmapindex switches mapping off
  00manifest: read: experimental.mmapindex switches mapping off

A threshold alone means yes, as it did in 2017:

  $ maps --config experimental.mmapindexthreshold=1 --config storage.revlog.mmap.index=no
  00changelog: mapped: 256 bytes, at least 1 bytes (experimental.mmapindexthreshold)
  00manifest: mapped: 256 bytes, at least 1 bytes (experimental.mmapindexthreshold)

What is mapped answers as what is read:

  $ hg log -T '{rev} {node|short} {files}\n' > read
  $ hg log -T '{rev} {node|short} {files}\n' --config experimental.mmapindexthreshold=0 \
  >   | diff read -
  $ hg verify -q --config experimental.mmapindexthreshold=0

Both sides of the threshold
===========================

An index of exactly the threshold is mapped, one byte less is not:

  $ cat >> .hg/hgrc << EOF
  > [experimental]
  > mmapindex = yes
  > EOF
  $ maps --config experimental.mmapindexthreshold=256
  00changelog: mapped: 256 bytes, at least 256 bytes (experimental.mmapindexthreshold)
  00manifest: mapped: 256 bytes, at least 256 bytes (experimental.mmapindexthreshold)
  $ maps --config experimental.mmapindexthreshold=257
  00changelog: read: 256 bytes, less than 257 bytes (experimental.mmapindexthreshold)
  00manifest: read: 256 bytes, less than 257 bytes (experimental.mmapindexthreshold)

Each index is looked at by itself. This commit is nothing but a changeset:

  $ hg branch -q other
  $ hg commit -qm 'no file'
  $ maps --config experimental.mmapindexthreshold=257
  00changelog: mapped: 320 bytes, at least 257 bytes (experimental.mmapindexthreshold)
  00manifest: read: 256 bytes, less than 257 bytes (experimental.mmapindexthreshold)

Sizes have units:

  $ maps --config experimental.mmapindexthreshold=1kb
  00changelog: read: 320 bytes, less than 1.00 KB (experimental.mmapindexthreshold)
  00manifest: read: 256 bytes, less than 1.00 KB (experimental.mmapindexthreshold)

Threshold 0 is every index but an empty one
===========================================

  $ maps --config experimental.mmapindexthreshold=0
  00changelog: mapped: 320 bytes, at least 0 bytes (experimental.mmapindexthreshold)
  00manifest: mapped: 256 bytes, at least 0 bytes (experimental.mmapindexthreshold)

A new repository has no index yet, and one whose changesets are all stripped has an
empty one:

  $ cat >> "$HGRCPATH" << EOF
  > [experimental]
  > mmapindexthreshold = 0
  > EOF
  $ hg init ../empty
  $ maps ../empty
  00changelog: not there yet
  00manifest: not there yet
  $ hg clone -q -r 0 . ../stripped
  $ hg -R ../stripped --config extensions.strip= strip -q --no-backup 0
  $ wc -c < ../stripped/.hg/store/00changelog.i
  0
  $ maps ../stripped
  00changelog: read: it is empty
  00manifest: read: it is empty

Inline indexes are read, also by threshold 0
============================================

  $ hg init ../inline
  $ echo content > ../inline/file
  $ hg -R ../inline commit -qAm one
  $ maps ../inline
  00changelog: mapped: 64 bytes, at least 0 bytes (experimental.mmapindexthreshold)
  00manifest: read: it is inline, with revisions among its entries

Mapping starts when Mercurial splits it:

  $ echo more > ../inline/file
  $ hg -R ../inline commit -qm two --config indexmaps.split=yes
  $ maps ../inline
  00changelog: mapped: 128 bytes, at least 0 bytes (experimental.mmapindexthreshold)
  00manifest: mapped: 128 bytes, at least 0 bytes (experimental.mmapindexthreshold)

A file system that is not safe
==============================

On NFS a mapped file that somebody else replaces kills the process, so Mercurial maps
nothing there, and nor do we:

  $ maps --config indexmaps.unsafe=yes
  00changelog: read: mapping is not safe on its file system
  00manifest: read: mapping is not safe on its file system

Bundles and shares
==================

A bundle adds to the index that lies below it, and a share has none of its own:

  $ hg bundle -q --base 2 -r tip ../new.hg
  $ hg clone -q -r 2 . ../old --config indexmaps.split=yes
  $ hg -R bundle:../old+../new.hg log -T '{rev} {node|short} {files}\n' -r 3:0 \
  >   | diff read -
  $ hg share -q -U ../old ../shared --config extensions.share=
  $ maps ../shared
  00changelog: mapped: 192 bytes, at least 0 bytes (experimental.mmapindexthreshold)
  00manifest: mapped: 192 bytes, at least 0 bytes (experimental.mmapindexthreshold)

Who decides
===========

An extension is loaded for the whole process. Only those repositories are concerned whose
own configuration enables it:

  $ hg clone -q . ../without
  $ cat >> .hg/hgrc << EOF
  > [extensions]
  > amalgam =
  > EOF
  $ sed '/^amalgam =/d' "$HGRCPATH" > ../hgrc-without
  $ HGRCPATH=../hgrc-without hg debugindexmaps ../without . ../without
  left to Mercurial
  00changelog: mapped: 320 bytes, at least 0 bytes (experimental.mmapindexthreshold)
  00manifest: mapped: 256 bytes, at least 0 bytes (experimental.mmapindexthreshold)
  left to Mercurial

A value that makes no sense is not used, and no command fails because of it:

  $ maps --config experimental.mmapindex=maybe | head -1
  warning: invalid value 'maybe' for experimental.mmapindex (expected yes or no)
  00changelog: mapped: 320 bytes, at least 0 bytes (experimental.mmapindexthreshold)
  $ maps --config experimental.mmapindexthreshold=much | head -1
  warning: invalid value 'much' for experimental.mmapindexthreshold (expected a size such as 1 MB; 0 maps every index)
  00changelog: read: 320 bytes, less than 1.00 MB (storage.revlog.mmap.index:size-threshold)
  $ maps --config experimental.mmapindexthreshold=-1 | head -1
  warning: invalid value '-1' for experimental.mmapindexthreshold (expected a size such as 1 MB; 0 maps every index)
  00changelog: read: 320 bytes, less than 1.00 MB (storage.revlog.mmap.index:size-threshold)
  $ hg status -q --config amalgam.index.prefault=wilneed
  warning: invalid value 'wilneed' for amalgam.index.prefault (expected none, willneed or populate)
  (did you mean 'willneed'?)

The log has one line for each decision
======================================

  $ hg cat -q -r 0 file --config extensions.blackbox= --config experimental.mmapindexthreshold=257
  1
  $ hg blackbox --config extensions.blackbox= | sed -n 's/.*> 00/00/p'
  00changelog: mapped: 320 bytes, at least 257 bytes (experimental.mmapindexthreshold)
  00manifest: read: 256 bytes, less than 257 bytes (experimental.mmapindexthreshold)

Descriptors do not pile up
==========================

A mapping holds no descriptor. This process opens a repository a thousand times, half of
them while the other one is in use:

  $ cat > ../pile.py << EOF
  > import gc
  > import sys
  > from mercurial import extensions, ui as uimod
  > sys.path.insert(0, "$TESTDIR/testlib")
  > import indexmaps
  > ui = uimod.ui.load()
  > extensions.loadall(ui)
  > def opened():
  >     repo = indexmaps.open_repository(ui, b".")
  >     assert len(repo) == 5 and len(repo.manifestlog.getstorage(b"")) == 4
  >     return repo
  > descriptors = mappings = 0
  > kept = opened()
  > for _turn in range(1000):
  >     opened()
  >     descriptors = max(descriptors, indexmaps.open_indexes())
  >     mappings = max(mappings, len(indexmaps.mapped_files()))
  > print("descriptors at most:", descriptors)
  > print("mappings at most:", "less than 100" if mappings < 100 else mappings)
  > gc.collect()
  > print("one in use:", len(indexmaps.mapped_files()))
  > del kept
  > gc.collect()
  > print("none in use:", len(indexmaps.mapped_files()))
  > EOF
  $ "$PYTHON" ../pile.py
  descriptors at most: 0
  mappings at most: less than 100
  one in use: 2
  none in use: 0
