"""What results show: what differs, as lines, plots, a page, and README's headline.

Reads results, and measures nothing.
"""
