//! Groups of changed lines, moved to the places where git shows them.
//!
//! A port of `xdl_change_compact()` in git's `xdiff/xdiffi.c`, without the indent heuristic.
//! After `LibXDiff`, Copyright (C) 2003 Davide Libenzi, as git changed it; LGPL-2.1-or-later.

use super::prepare::File;

/// Adjacent changed lines. An empty group is a position, before the unchanged line `end`.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    end: usize,
}

impl Group {
    const fn first(file: &File) -> Self {
        let mut group = Self { start: 0, end: 0 };
        group.extend_down(file);
        group
    }

    const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Advances to the next group, which may be empty; `false` at the end of the file.
    const fn next(&mut self, file: &File) -> bool {
        if self.end == file.lines.len() {
            return false;
        }
        self.start = self.end + 1;
        self.end = self.start;
        self.extend_down(file);
        true
    }

    /// Goes back to the previous group, which may be empty; `false` at the start of the file.
    const fn previous(&mut self, file: &File) -> bool {
        if self.start == 0 {
            return false;
        }
        self.end = self.start - 1;
        self.start = self.end;
        self.extend_up(file);
        true
    }

    /// Moves down by a line, if the diff stays correct, and merges with an adjacent group.
    fn slide_down(&mut self, file: &mut File) -> bool {
        if self.end == file.lines.len() || file.lines[self.start] != file.lines[self.end] {
            return false;
        }
        file.changed[self.start] = false;
        file.changed[self.end] = true;
        self.start += 1;
        self.end += 1;
        self.extend_down(file);
        true
    }

    /// Moves up by a line, if the diff stays correct, and merges with an adjacent group.
    fn slide_up(&mut self, file: &mut File) -> bool {
        if self.start == 0 || file.lines[self.start - 1] != file.lines[self.end - 1] {
            return false;
        }
        self.start -= 1;
        self.end -= 1;
        file.changed[self.start] = true;
        file.changed[self.end] = false;
        self.extend_up(file);
        true
    }

    const fn extend_down(&mut self, file: &File) {
        let changed = file.changed.as_slice();
        while self.end < changed.len() && changed[self.end] {
            self.end += 1;
        }
    }

    const fn extend_up(&mut self, file: &File) {
        let changed = file.changed.as_slice();
        while self.start > 0 && changed[self.start - 1] {
            self.start -= 1;
        }
    }
}

/// Moves each group of `file` down as far as possible, or to a place where `other` has changes,
/// too.
///
/// Both files have the same unchanged lines, so their groups are pairs.
pub(super) fn compact(file: &mut File, other: &File) {
    let mut group = Group::first(file);
    let mut opposite = Group::first(other);
    loop {
        if !group.is_empty() {
            compact_one(file, other, &mut group, &mut opposite);
        }
        if !group.next(file) {
            return;
        }
        opposite.next(other);
    }
}

fn compact_one(file: &mut File, other: &File, group: &mut Group, opposite: &mut Group) {
    let mut matches_other;
    let mut highest_end;
    loop {
        let len = group.end - group.start;
        while group.slide_up(file) {
            opposite.previous(other);
        }
        highest_end = group.end;
        matches_other = !opposite.is_empty();
        while group.slide_down(file) {
            opposite.next(other);
            matches_other |= !opposite.is_empty();
        }
        if group.end - group.start == len {
            break;
        }
    }
    if group.end != highest_end && matches_other {
        // the lowest place where both files have changes
        while opposite.is_empty() && group.slide_up(file) {
            opposite.previous(other);
        }
    }
}
