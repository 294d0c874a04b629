//! The comparison: "An O(ND) Difference Algorithm and its Variations" by Eugene Myers, with limits.
//!
//! A port of `xdl_recs_cmp()` and `xdl_split()` in git's `xdiff/xdiffi.c`, with a list of regions
//! in place of the recursion. The names of variables are those of the C code.
//! After `LibXDiff`, Copyright (C) 2003 Davide Libenzi, as git changed it; LGPL-2.1-or-later.
#![expect(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::similar_names,
    reason = "a port that can be read beside the original; no text has 2^63 lines"
)]

use super::prepare::{File, bogosqrt};

const MAX_COST_MIN: isize = 256;
const HEUR_MIN_COST: isize = 256;
const LINE_MAX: isize = isize::MAX;
const SNAKE_CNT: isize = 20;
const K_HEUR: isize = 4;

/// A part of both texts, in positions of the lines to compare.
#[derive(Clone, Copy)]
struct Region {
    off1: isize,
    lim1: isize,
    off2: isize,
    lim2: isize,
    need_min: bool,
}

/// The point that divides a region, and whether each half needs a minimal diff.
struct Split {
    i1: isize,
    i2: isize,
    min_lo: bool,
    min_hi: bool,
}

/// Marks the lines of each file that differ from the other.
pub(super) fn compare(file1: &mut File, file2: &mut File) {
    let lines = |file: &File| file.compared.iter().map(|at| file.lines[*at]).collect::<Vec<_>>();
    let (lines1, lines2) = (lines(file1), lines(file2));
    let ndiags = lines1.len() + lines2.len() + 3;
    let mut search = Search {
        forward: Diagonals::new(ndiags, lines2.len()),
        backward: Diagonals::new(ndiags, lines2.len()),
        mxcost: (bogosqrt(ndiags) as isize).max(MAX_COST_MIN),
        lines1: &lines1,
        lines2: &lines2,
    };
    let (lim1, lim2) = (lines1.len() as isize, lines2.len() as isize);
    let mut regions = vec![Region { off1: 0, lim1, off2: 0, lim2, need_min: false }];
    while let Some(region) = regions.pop() {
        let region = search.shrink(region);
        let Region { off1, lim1, off2, lim2, .. } = region;
        if off1 == lim1 {
            let range = off2 as usize..lim2 as usize;
            file2.compared[range].iter().for_each(|at| file2.changed[*at] = true);
        } else if off2 == lim2 {
            let range = off1 as usize..lim1 as usize;
            file1.compared[range].iter().for_each(|at| file1.changed[*at] = true);
        } else {
            let Split { i1, i2, min_lo, min_hi } = search.split(region);
            regions.push(Region { lim1: i1, lim2: i2, need_min: min_lo, ..region });
            regions.push(Region { off1: i1, off2: i2, need_min: min_hi, ..region });
        }
    }
}

/// The furthest line of the first text that was reached on each diagonal.
struct Diagonals {
    reached: Vec<isize>,
    /// Index of diagonal 0.
    middle: isize,
}

impl Diagonals {
    fn new(ndiags: usize, lines2: usize) -> Self {
        Self { reached: vec![0; ndiags + 1], middle: lines2 as isize + 1 }
    }

    fn get(&self, d: isize) -> isize {
        self.reached[(self.middle + d) as usize]
    }

    fn set(&mut self, d: isize, i1: isize) {
        self.reached[(self.middle + d) as usize] = i1;
    }
}

struct Search<'a> {
    lines1: &'a [u32],
    lines2: &'a [u32],
    forward: Diagonals,
    backward: Diagonals,
    mxcost: isize,
}

impl Search<'_> {
    fn is_equal(&self, i1: isize, i2: isize) -> bool {
        self.lines1[i1 as usize] == self.lines2[i2 as usize]
    }

    /// Removes equal lines at both ends of a region.
    fn shrink(&self, mut region: Region) -> Region {
        let Region { off1, lim1, off2, lim2, .. } = &mut region;
        while off1 < lim1 && off2 < lim2 && self.is_equal(*off1, *off2) {
            *off1 += 1;
            *off2 += 1;
        }
        while off1 < lim1 && off2 < lim2 && self.is_equal(*lim1 - 1, *lim2 - 1) {
            *lim1 -= 1;
            *lim2 -= 1;
        }
        region
    }

    /// Finds the point where the paths from both ends meet, or a good point at the cost limit.
    fn split(&mut self, region: Region) -> Split {
        let Region { off1, lim1, off2, lim2, need_min } = region;
        let (dmin, dmax) = (off1 - lim2, lim1 - off2);
        let (fmid, bmid) = (off1 - off2, lim1 - lim2);
        let odd = (fmid - bmid) & 1 != 0;
        let (mut fmin, mut fmax) = (fmid, fmid);
        let (mut bmin, mut bmax) = (bmid, bmid);
        self.forward.set(fmid, off1);
        self.backward.set(bmid, lim1);
        let mut ec = 0;
        loop {
            ec += 1;
            let mut got_snake = false;

            extend(&mut self.forward, &mut fmin, &mut fmax, dmin, dmax, -1);
            for d in (fmin..=fmax).rev().step_by(2) {
                let (below, above) = (self.forward.get(d - 1), self.forward.get(d + 1));
                let mut i1 = if below >= above { below + 1 } else { above };
                let prev1 = i1;
                let mut i2 = i1 - d;
                while i1 < lim1 && i2 < lim2 && self.is_equal(i1, i2) {
                    i1 += 1;
                    i2 += 1;
                }
                got_snake |= i1 - prev1 > SNAKE_CNT;
                self.forward.set(d, i1);
                if odd && bmin <= d && d <= bmax && self.backward.get(d) <= i1 {
                    return Split { i1, i2, min_lo: true, min_hi: true };
                }
            }

            extend(&mut self.backward, &mut bmin, &mut bmax, dmin, dmax, LINE_MAX);
            for d in (bmin..=bmax).rev().step_by(2) {
                let (below, above) = (self.backward.get(d - 1), self.backward.get(d + 1));
                let mut i1 = if below < above { below } else { above - 1 };
                let prev1 = i1;
                let mut i2 = i1 - d;
                while i1 > off1 && i2 > off2 && self.is_equal(i1 - 1, i2 - 1) {
                    i1 -= 1;
                    i2 -= 1;
                }
                got_snake |= prev1 - i1 > SNAKE_CNT;
                self.backward.set(d, i1);
                if !odd && fmin <= d && d <= fmax && i1 <= self.forward.get(d) {
                    return Split { i1, i2, min_lo: true, min_hi: true };
                }
            }

            if need_min {
                continue;
            }
            if got_snake && ec > HEUR_MIN_COST {
                if let Some((i1, i2)) = self.interesting_forward(region, (fmin, fmax), ec) {
                    return Split { i1, i2, min_lo: true, min_hi: false };
                }
                if let Some((i1, i2)) = self.interesting_backward(region, (bmin, bmax), ec) {
                    return Split { i1, i2, min_lo: false, min_hi: true };
                }
            }
            if ec >= self.mxcost {
                return self.furthest(region, (fmin, fmax), (bmin, bmax));
            }
        }
    }

    /// Finds a point after a long snake, at a distance that justifies the cost so far.
    fn interesting_forward(
        &self,
        Region { off1, lim1, off2, lim2, .. }: Region,
        (fmin, fmax): (isize, isize),
        ec: isize,
    ) -> Option<(isize, isize)> {
        let fmid = off1 - off2;
        let (mut best, mut found) = (0, None);
        for d in (fmin..=fmax).rev().step_by(2) {
            let i1 = self.forward.get(d);
            let i2 = i1 - d;
            let v = (i1 - off1) + (i2 - off2) - (d - fmid).abs();
            if v > K_HEUR * ec
                && v > best
                && (off1 + SNAKE_CNT..lim1).contains(&i1)
                && (off2 + SNAKE_CNT..lim2).contains(&i2)
                && (1..=SNAKE_CNT).all(|k| self.is_equal(i1 - k, i2 - k))
            {
                best = v;
                found = Some((i1, i2));
            }
        }
        found
    }

    /// As [`Self::interesting_forward`], from the end.
    fn interesting_backward(
        &self,
        Region { off1, lim1, off2, lim2, .. }: Region,
        (bmin, bmax): (isize, isize),
        ec: isize,
    ) -> Option<(isize, isize)> {
        let bmid = lim1 - lim2;
        let (mut best, mut found) = (0, None);
        for d in (bmin..=bmax).rev().step_by(2) {
            let i1 = self.backward.get(d);
            let i2 = i1 - d;
            let v = (lim1 - i1) + (lim2 - i2) - (d - bmid).abs();
            if v > K_HEUR * ec
                && v > best
                && (off1 + 1..=lim1 - SNAKE_CNT).contains(&i1)
                && (off2 + 1..=lim2 - SNAKE_CNT).contains(&i2)
                && (0..SNAKE_CNT).all(|k| self.is_equal(i1 + k, i2 + k))
            {
                best = v;
                found = Some((i1, i2));
            }
        }
        found
    }

    /// Finds the furthest point that was reached from either end.
    fn furthest(
        &self,
        Region { off1, lim1, off2, lim2, .. }: Region,
        (fmin, fmax): (isize, isize),
        (bmin, bmax): (isize, isize),
    ) -> Split {
        let (mut fbest, mut fbest1) = (-1, -1);
        for d in (fmin..=fmax).rev().step_by(2) {
            let mut i1 = self.forward.get(d).min(lim1);
            let mut i2 = i1 - d;
            if lim2 < i2 {
                (i1, i2) = (lim2 + d, lim2);
            }
            if fbest < i1 + i2 {
                (fbest, fbest1) = (i1 + i2, i1);
            }
        }
        let (mut bbest, mut bbest1) = (LINE_MAX, LINE_MAX);
        for d in (bmin..=bmax).rev().step_by(2) {
            let mut i1 = self.backward.get(d).max(off1);
            let mut i2 = i1 - d;
            if i2 < off2 {
                (i1, i2) = (off2 + d, off2);
            }
            if i1 + i2 < bbest {
                (bbest, bbest1) = (i1 + i2, i1);
            }
        }
        if (lim1 + lim2) - bbest < fbest - (off1 + off2) {
            Split { i1: fbest1, i2: fbest - fbest1, min_lo: true, min_hi: false }
        } else {
            Split { i1: bbest1, i2: bbest - bbest1, min_lo: false, min_hi: true }
        }
    }
}

/// Widens the range of diagonals by one on both sides, or narrows it at the border of the region.
///
/// The new neighbours of the range are set to `unreached`.
fn extend(
    diagonals: &mut Diagonals,
    min: &mut isize,
    max: &mut isize,
    dmin: isize,
    dmax: isize,
    unreached: isize,
) {
    if *min > dmin {
        *min -= 1;
        diagonals.set(*min - 1, unreached);
    } else {
        *min += 1;
    }
    if *max < dmax {
        *max += 1;
        diagonals.set(*max + 1, unreached);
    } else {
        *max -= 1;
    }
}
