Nodes are looked up in a map on disk, and Mercurial's own is read without Rust

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ cat >> $HGRCPATH << END
  > [experimental]
  > mmapindexthreshold = 0
  > END

A map is made with the first transaction, and kept up to date:

  $ hg init repo && cd repo
  $ for name in a b c d; do echo $name > $name; hg commit -qAm $name; done
  $ ls .hg/amalgam/index | sed 's/-[0-9a-f]\{16\}/-UID/' | grep '00changelog.*nodemap'
  00changelog-UID.nodemap
  00changelog.nodemap

It answers what hg asks, abbreviations included:

  $ hg log -T '{rev} {shortest(node, 1)}\n' > with
  $ hg log -T '{rev} {shortest(node, 1)}\n' --config extensions.amalgam=! > without
  $ cmp with without
  $ for node in $(hg log -T '{node|short}\n'); do hg log -r $node -T '{desc}'; done; echo
  dcba
  $ hg log -r 0123456789
  abort: unknown revision '0123456789'
  [10]
  $ hg log -r ffffffffffffffff -T '{rev}\n'
  2147483647
  $ hg log -r 0000000000 -T '{rev}\n'
  -1

So it does where the prefix has to be unique among some revisions only:

  $ hg log -T '{shortest(node, 1)}\n' --config experimental.revisions.disambiguatewithin='0:1' > with
  $ hg log -T '{shortest(node, 1)}\n' --config experimental.revisions.disambiguatewithin='0:1' \
  >   --config extensions.amalgam=! > without
  $ cmp with without

After a strip, what is gone is not found, and what comes next is:

  $ node=$(hg log -r tip -T '{node}')
  $ hg debugstrip -q -r 2
  $ hg log -r $node
  abort: unknown revision '[0-9a-f]{40}' (re)
  [10]
  $ echo e > e && hg commit -qAm e
  $ hg log -r $(hg log -r tip -T '{node|short}') -T '{rev} {desc}\n'
  2 e

A map that is damaged is not believed:

  $ for map in .hg/amalgam/index/*-*.nodemap; do chmod u+w $map; printf 'xxxxxxxx' | dd of=$map bs=1 seek=100 conv=notrunc 2>/dev/null; done
  $ for node in $(hg log -T '{node|short}\n'); do hg log -r $node -T '{desc}'; done; echo
  eba

Without it, hg looks nodes up itself:

  $ hg log -r $(hg log -r tip -T '{node|short}') -T '{desc}\n' --config amalgam.index.node-map=no
  e
  $ cd ..
