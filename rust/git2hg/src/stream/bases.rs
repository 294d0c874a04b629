//! Choice of delta bases, by the rules of sparse revlogs.
//!
//! Those of `mercurial/revlogutils/deltas.py` in Mercurial 7.2: `_SparseDeltaSearch` and
//! `_builddeltainfo`, with the settings of new repositories. The delta of the changegroup is taken
//! if it is good; then the parents are tried, and then snapshots of the chains around.

use std::collections::BTreeMap;

use changegroup::line_delta;
use hashbrown::HashSet;

use super::revlogs::{Chosen, Incoming, Kind, NewRevlog};
use crate::error::Result;

/// `LIMIT_DELTA2TEXT`: ratio of the chunks of a chain to a text.
const MOST_CHAIN_TO_TEXT: u64 = 2;
/// `LIMIT_BASE2TEXT`: a base that is shorter by this factor gives no good delta.
const MOST_TEXT_TO_BASE: u64 = 500;
/// `storage.revlog.delta-parent-search.candidate-group-chunk-size`.
const TRIED_AT_ONCE: usize = 20;

/// Greatest compression of deltas that is likely.
const fn compression(kind: Kind) -> u64 {
    match kind {
        Kind::Manifest => 3,
        _ => 10,
    }
}

/// Search for the best delta of one revision.
struct Search {
    tested: HashSet<u32>,
    best: Option<Chosen>,
}

impl NewRevlog<'_> {
    /// The delta to store; `None` for the whole text.
    pub fn choose(&mut self, incoming: &mut Incoming<'_>) -> Result<Option<Chosen>> {
        if self.kind == Kind::Changelog || incoming.text_len() == 0 {
            return Ok(None);
        }
        let mut search = Search { tested: HashSet::new(), best: None };
        if let Some(source) = incoming.source
            && self.may_be_base(incoming, source)
        {
            search.tested.insert(source);
            self.try_base(incoming, source, false, &mut search)?;
        }
        if search.best.is_none() {
            let parents: Vec<u32> = incoming.parents.into_iter().flatten().collect();
            self.try_group(incoming, &parents, false, &mut search)?;
            if search.best.is_none() && !parents.is_empty() {
                self.try_snapshots(incoming, &parents, &mut search)?;
            }
        }
        Ok(search.best)
    }

    /// Whether a revision may be a good base, before a delta is made.
    fn may_be_base(&self, incoming: &Incoming<'_>, base: u32) -> bool {
        let written = &self.written[base as usize];
        let (text_len, len) = (incoming.text_len(), u64::from(written.entry.len));
        let most = text_len * MOST_CHAIN_TO_TEXT;
        let base_len = u64::from(written.entry.text_len);
        if most < len
            || written.chain_len >= self.settings.longest_chain
            || most < written.chain_bytes
            || base_len < text_len / MOST_TEXT_TO_BASE
        {
            return false;
        }
        if written.is_snapshot && !incoming.parents.contains(&Some(base)) {
            let shortest = text_len.saturating_sub(base_len) / compression(self.kind);
            return text_len.checked_shr(written.chain_len).unwrap_or(0) >= shortest
                && len >= shortest;
        }
        true
    }

    /// Tries a base, and keeps its delta if that is good and the shortest.
    fn try_base(
        &mut self,
        incoming: &mut Incoming<'_>,
        base: u32,
        as_snapshot: bool,
        search: &mut Search,
    ) -> Result<()> {
        let text_len = incoming.text_len();
        let mut level = None;
        let written = self.written[base as usize];
        if as_snapshot && !incoming.parents.contains(&Some(base)) {
            if !written.is_snapshot {
                return Ok(());
            }
            level = Some(written.chain_len + 1);
        }
        let mut made = Vec::new();
        let is_source = incoming.source.is_some_and(|it| it == base || self.with_bytes(it) == base);
        if !is_source {
            let (base_text, text) = (self.text(base)?, self.text_of(incoming)?);
            line_delta(&base_text, &text, &mut made);
        }
        let delta = if is_source { incoming.bytes } else { &made };
        // a snapshot is at most half as long as the text and as its base
        let most = level.map(|level| {
            let half = text_len.checked_shr(level).unwrap_or(0);
            half.min(u64::from(written.entry.len))
        });
        if most.is_some_and(|most| most < delta.len() as u64 / compression(self.kind)) {
            return Ok(());
        }
        let chunk = self.pack(delta);
        let len = chunk.len() as u64;
        let is_good = len <= text_len
            && written.chain_bytes + len <= text_len * MOST_CHAIN_TO_TEXT
            && written.chain_len < self.settings.longest_chain
            && most.is_none_or(|most| len <= most);
        if is_good && search.best.as_ref().is_none_or(|best| chunk.len() < best.chunk.len()) {
            search.best = Some(Chosen { base, chunk, level });
        }
        Ok(())
    }

    /// Tries bases, some at once for as long as they get better.
    fn try_group(
        &mut self,
        incoming: &mut Incoming<'_>,
        bases: &[u32],
        as_snapshot: bool,
        search: &mut Search,
    ) -> Result<()> {
        let mut group = Vec::new();
        for &base in bases {
            let base = self.with_bytes(base);
            if search.tested.insert(base) && self.may_be_base(incoming, base) {
                group.push(base);
            }
        }
        for bases in group.chunks(TRIED_AT_ONCE) {
            let before = search.best.as_ref().map(|best| best.base);
            for &base in bases {
                self.try_base(incoming, base, as_snapshot, search)?;
            }
            if search.best.as_ref().map(|best| best.base) == before {
                break;
            }
        }
        Ok(())
    }

    /// Tries snapshots, from those of the parents' chains on (`_iter_snapshots_base`).
    fn try_snapshots(
        &mut self,
        incoming: &mut Incoming<'_>,
        parents: &[u32],
        search: &mut Search,
    ) -> Result<()> {
        let chains: Vec<Vec<u32>> = parents.iter().map(|parent| self.chain(*parent)).collect();
        let mut levels: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for chain in &chains {
            for (level, &number) in chain.iter().enumerate() {
                if !self.is_snapshot(number) {
                    break;
                }
                levels.entry(level).or_default().push(number);
            }
        }
        let first = chains.iter().filter_map(|chain| chain.first().copied()).min().unwrap_or(0) + 1;
        let own: HashSet<u32> = chains.iter().flatten().copied().collect();
        if let Some(other) = (first..self.len()).rev().find(|number| !own.contains(number)) {
            let deepest = levels.keys().max().copied().unwrap_or(0);
            for (level, number) in self.chain(other).into_iter().enumerate() {
                if number < first {
                    continue;
                }
                if level > deepest || !self.is_snapshot(number) {
                    break;
                }
                levels.entry(level).or_default().push(number);
            }
        }
        let mut floor = first;
        for snapshots in levels.into_values().rev() {
            let mut snapshots = snapshots;
            snapshots.sort_unstable();
            snapshots.dedup();
            let siblings = self.above(snapshots.iter().map(|it| Some(*it)), floor);
            for group in [&siblings, &snapshots] {
                self.try_group(incoming, group, true, search)?;
                if search.best.is_some() {
                    return self.refine(incoming, search);
                }
            }
            floor = snapshots[0] + 1;
        }
        let whole = self.above([None], first);
        self.try_group(incoming, &whole, true, search)?;
        self.refine(incoming, search)
    }

    /// Snapshots against some bases, from a revision on.
    fn above(&self, bases: impl IntoIterator<Item = Option<u32>>, floor: u32) -> Vec<u32> {
        let of = |base| self.snapshots.get(&base).map_or(&[][..], |it| it);
        let found = bases.into_iter().flat_map(of).copied().filter(|number| *number >= floor);
        let mut found: Vec<u32> = found.collect();
        found.sort_unstable();
        found
    }

    /// Tries the bases below the best snapshot, and then the snapshots above it.
    fn refine(&mut self, incoming: &mut Incoming<'_>, search: &mut Search) -> Result<()> {
        let best = |search: &Search| search.best.as_ref().map(|best| best.base);
        if search.best.as_ref().is_none_or(|best| best.level.is_none()) {
            return Ok(());
        }
        for is_up in [false, true] {
            let mut before = None;
            while let Some(base) = best(search).filter(|base| before != Some(*base)) {
                before = Some(base);
                let group = match self.base(base) {
                    _ if is_up => self.above([Some(base)], 0),
                    Some(below) => vec![below],
                    None => break,
                };
                self.try_group(incoming, &group, true, search)?;
            }
        }
        Ok(())
    }
}
