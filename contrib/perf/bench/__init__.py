"""A harness that settles arguments about speed and memory.

In reading order: ``benchmark`` is what a measurement is, ``benchmarks`` are those there
are; ``subject`` is whose work is measured, ``repository`` on what; ``runner`` runs them
in passes of random order, under the ``instruments``; ``results`` are written and read;
``judgement`` says what differs, and ``report`` shows it. ``__main__`` is the command
line. Nothing here imports Mercurial: whatever is measured is a process.
"""
