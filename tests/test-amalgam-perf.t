Timings with warm and with cold caches

  $ . "$TESTDIR/testlib/amalgam.sh"

The commands come with an extension of their own. Its page is there without it:

  $ hg init repo && cd repo
  $ hg help amalgam-perf | head -1
  time amalgam with warm and with cold caches
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
can be no snapshot of it. Times are in ms, or in microseconds if they are short:

  $ hg perf::amalgam-index --cache warm --config perf.stub=yes | sed -n '1,12p'
  ! open 00changelog (3 revisions, 0.0 MB), the last entry; median of 1
  ! too small to be mapped by default (less than 512 KB); 'mmap' and 'snapshot' map it nevertheless
  !                       warm
  !                              ?s     change   MB read    faults  major (glob)
  ! read                  * (glob)
  ! read, again           *%) * (glob)
  ! mmap                  *%) * (glob)
  ! amalgam               *%) * (glob)
  ! snapshot, none        *%) * (glob)
  ! snapshot, willneed    *%) * (glob)
  ! snapshot, populate    *%) * (glob)
  ! warm: no verdict with fewer than 3 samples (see perf.run-limits)
  $ hg perf::amalgam-index -m --cache warm | sed -n '2p;9p'
  ! inline, so it is never mapped: revisions are in the same file
  ! snapshot, none        the index was read, not mapped

Each row has to answer the same, and a process that fails is named:

  $ hg perf::amalgam-startup --cache warm 'log -r nowhere'
  abort: measured process failed: unknown revision 'nowhere'
  [20]

Nothing is left in the repository:

  $ ls .hg | grep amalgam
  [1]

Options are those of upstream's perf.py:

  $ hg perf::amalgam-index --config perf.stub=no --config perf.run-limits=3
  config error: invalid value '3' for perf.run-limits (expected SECONDS-PASSES, such as 3.0-100)
  [30]
