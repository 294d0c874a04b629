Timings with warm and with cold caches

  $ . "$TESTDIR/testlib/amalgam.sh"

The commands come with an extension of their own:

  $ hg init repo && cd repo
  $ hg perf::amalgam-index 2>&1 | head -1
  hg: unknown command 'perf::amalgam-index'
  $ cat >> "$HGRCPATH" << EOF
  > [extensions]
  > hgext3rd.amalgam.perf =
  > [perf]
  > stub = yes
  > EOF
  $ hg help amalgam-perf | head -1
  time amalgam with warm and with cold caches

  $ for n in 1 2 3; do echo $n > file; hg commit -qAm "change $n"; done

What could not be measured is told in place of a number. The manifest is inline, so that there
can be no snapshot of it:

  $ hg perf::amalgam-index --cache warm --config perf.stub=yes | sed -n '1,9p'
  ! open 00changelog (3 revisions, 0.0 MB), the last entry; median of 1
  !                       warm
  !                         seconds   change    MB read     faults  major
  ! read                  * (glob)
  ! read, again           *% * (glob)
  ! mmap                  *% * (glob)
  ! snapshot, none        *% * (glob)
  ! snapshot, willneed    *% * (glob)
  ! snapshot, populate    *% * (glob)
  $ hg perf::amalgam-index -m --cache warm | sed -n '4,7p'
  ! read                  * (glob)
  ! read, again           *% * (glob)
  ! mmap                  *% * (glob)
  ! snapshot, none        the index was read, not mapped

Each row has to answer the same, and a process that fails is named:

  $ hg perf::amalgam-startup --cache warm 'log -r nowhere'
  abort: measured process failed: unknown revision 'nowhere'
  [20]

Options are those of upstream's perf.py:

  $ hg perf::amalgam-index --config perf.stub=no --config perf.run-limits=3
  config error: invalid value '3' for perf.run-limits (expected SECONDS-PASSES, such as 3.0-100)
  [30]
