"""What results show: what differs, as lines, plots, and pages.

Reads results, and measures nothing.
"""
