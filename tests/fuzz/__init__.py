"""Fuzzing of what parses bytes from disk or network: ``make fuzz``.

Rust targets are in ``rust/fuzztargets``, those in Python in ``targets``. Seeds are
committed, and so is each input that ever failed. ``make test`` parses all of them
again.
"""
