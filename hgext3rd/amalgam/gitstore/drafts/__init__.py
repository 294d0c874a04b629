"""Drafts in the git store: what each of them uses, and how some of them leave.

``uses`` asks git which objects a changeset introduces, ``counts`` keeps how many drafts
use each object. ``departure`` tells from both what goes with some drafts, and ``packs``
makes packs without that.
"""
