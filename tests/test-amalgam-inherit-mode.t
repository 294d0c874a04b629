What amalgam writes has the permissions of .hg/store

  $ . "$TESTDIR/testlib/amalgam.sh"

  $ cat > printmodes.py << 'END'
  > import os, re, sys
  > for root, dirs, files in sorted(os.walk(sys.argv[1])):
  >     shown = {name: re.sub(r"[0-9a-f]{16,40}", "ID", name) for name in ["", *files]}
  >     for name in sorted(shown, key=shown.get):
  >         mode = os.lstat(os.path.join(root, name)).st_mode & 0o7777
  >         print("%05o %s" % (mode, os.path.join(root, shown[name])))
  > END

Just in case somebody has a strange $TMPDIR:

  $ mkdir dir && chmod g-s dir && cd dir

A server that publishes, so that packs have no .keep and git may repack them:

  $ cat >> "$HGRCPATH" << 'END'
  > [phases]
  > new-commit = public
  > END

A store that a group may write, by a user whose umask gives nothing to anybody:

  $ umask 077
  $ hg init repo && cd repo
  $ chmod 0770 .hg/store
  $ echo one > file && hg commit -qAm one -d '0 0'
  $ hg git::export
  exported 1 changeset: 15 objects, * KB in * seconds (glob)
  1 ref changed
  git repository: $TESTTMP/dir/repo/.hg/amalgam/git/cinnabar.git

The group may do what it may do with .hg/store: write what changes, read what does not.

  $ "$PYTHON" ../../printmodes.py .hg/amalgam
  00770 .hg/amalgam/
  00660 .hg/amalgam/last-export
  00770 .hg/amalgam/git/
  00770 .hg/amalgam/git/cinnabar.git/
  00660 .hg/amalgam/git/cinnabar.git/HEAD
  00660 .hg/amalgam/git/cinnabar.git/config
  00660 .hg/amalgam/git/cinnabar.git/packed-refs
  00770 .hg/amalgam/git/cinnabar.git/hooks/
  00750 .hg/amalgam/git/cinnabar.git/hooks/pre-receive
  00770 .hg/amalgam/git/cinnabar.git/objects/
  00770 .hg/amalgam/git/cinnabar.git/objects/info/
  00770 .hg/amalgam/git/cinnabar.git/objects/pack/
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.idx
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.idx
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.keep
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.keep
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.pack
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.pack
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.rev
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.rev
  00770 .hg/amalgam/git/cinnabar.git/refs/
  00770 .hg/amalgam/git/cinnabar.git/refs/heads/
  00770 .hg/amalgam/git/cinnabar.git/refs/tags/
  00770 .hg/amalgam/map/
  00440 .hg/amalgam/map/cinnabar-ID.map
  00440 .hg/amalgam/map/cinnabar-metadata-ID.map
  00660 .hg/amalgam/map/cinnabar.docket
  00660 .hg/amalgam/map/cinnabar.names
  00660 .hg/amalgam/map/cinnabar.settled
  00660 .hg/amalgam/map/cinnabar.tips

What git itself writes there follows, too:

  $ git -C .hg/amalgam/git/cinnabar.git config core.sharedRepository
  0660
  $ git -C .hg/amalgam/git/cinnabar.git repack -q -a -d --no-write-bitmap-index
  $ "$PYTHON" ../../printmodes.py .hg/amalgam/git/cinnabar.git/objects/pack
  00770 .hg/amalgam/git/cinnabar.git/objects/pack/
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.idx
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.idx
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.keep
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.keep
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.pack
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.pack
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.rev
  00440 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.rev
  $ rm -r .hg/amalgam && hg git::export > ../out

When the administrator opens the store to everybody, new files follow at once:

  $ chmod -R a+rX .hg
  $ echo two > file && hg commit -qm two -d '0 0'
  $ hg git::export > ../out
  $ git -C .hg/amalgam/git/cinnabar.git config core.sharedRepository
  0664
  $ "$PYTHON" ../../printmodes.py .hg/amalgam | grep -v '/$'
  00664 .hg/amalgam/last-export
  00664 .hg/amalgam/git/cinnabar.git/HEAD
  00664 .hg/amalgam/git/cinnabar.git/config
  00664 .hg/amalgam/git/cinnabar.git/packed-refs
  00755 .hg/amalgam/git/cinnabar.git/hooks/pre-receive
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.idx
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.idx
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.idx
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.keep
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.keep
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.keep
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.pack
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.pack
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.pack
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.rev
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.rev
  00444 .hg/amalgam/git/cinnabar.git/objects/pack/pack-ID.rev
  00444 .hg/amalgam/map/cinnabar-ID.map
  00444 .hg/amalgam/map/cinnabar-metadata-ID.map
  00664 .hg/amalgam/map/cinnabar.docket
  00664 .hg/amalgam/map/cinnabar.names
  00664 .hg/amalgam/map/cinnabar.settled
  00664 .hg/amalgam/map/cinnabar.tips
  $ cd ..

A store of one's own stays so, whatever the umask says now:

  $ umask 077
  $ hg init private && cd private
  $ umask 022
  $ hg commit -qm one -d '0 0' --config ui.allowemptycommit=yes
  $ hg git::export > ../out
  $ "$PYTHON" ../../printmodes.py .hg/amalgam | cut -d' ' -f1 | sort -u
  00400
  00600
  00700
  $ cd ..

The setgid bit is passed on. Not all systems have it for directories, so they are
compared only with .hg/store:

  $ umask 077
  $ hg init setgid && cd setgid
  $ chmod g+rwx .hg/store
  $ chmod g+s .hg/store 2> /dev/null || true
  $ hg commit -qm one -d '0 0' --config ui.allowemptycommit=yes
  $ hg git::export > ../out
  $ mode() { "$PYTHON" -c 'import os, sys; print("%05o" % os.stat(sys.argv[1]).st_mode)' "$1"; }
  $ mode .hg/store > expected
  $ find .hg/amalgam -type d | while read -r directory; do
  >   mode "$directory" | cmp - expected
  > done
  $ "$PYTHON" ../../printmodes.py .hg/amalgam | grep -v '/$' | cut -d' ' -f1 | sort -u
  00440
  00660
  00750

Elsewhere nothing above protects the files. They are for those who get to the store, and here ".hg"
keeps the group out:

  $ hg git::export > ../out --config amalgam.git.path=../elsewhere/git
  $ find ../elsewhere -type d | while read -r directory; do
  >   mode "$directory"
  > done | sort -u
  4?700 (glob)
  $ "$PYTHON" ../../printmodes.py ../elsewhere | grep -v '/$' | cut -d' ' -f1 | sort -u
  00400
  00600
  00700
