//! A changegroup that is converted to commits.

use std::collections::HashMap;
use std::ops::Range;

use changegroup::{END, GroupVersion, RevisionChunk};
use dialect::ImportSettings;
use git2hg::fuzzing::round_trip;
use git2hg::{AtLimit, ConversionRequest};
use parallel::Buffer;
use revlog::{Delta, Encoding, Node, Store, node};

use crate::TEXT_BYTES;
use crate::scratch::{Planted, directory, opened};

const HEX_LEN: usize = 40;

/// A byte for the version, and a changegroup. Where revisions have other nodes than their texts,
/// they get these: no input would survive otherwise.
pub(crate) fn changegroup(input: &[u8]) {
    if let Some(problem) = problem_of(input) {
        assert!(problem.len() <= 10_000, "a message is read by people");
    }
}

fn problem_of(input: &[u8]) -> Option<String> {
    let (version, group) = input.split_first()?;
    let version = if version % 2 == 0 { GroupVersion::V02 } else { GroupVersion::V03 };
    let mut sealed = Sealed { bytes: group.to_vec(), version, nodes: HashMap::new() };
    let nodes = sealed.seal();
    let planted = Planted::new(directory().join("changegroup"), &sealed.bytes);
    let store = Store::new(&directory(), Encoding::DotEncode);
    let request = ConversionRequest {
        store: &store,
        known: &[],
        packs: None,
        verifies: false,
        version,
        dir: &opened(),
        memory_bytes: TEXT_BYTES,
        most_file_bytes: u64::MAX,
        branch: None,
        round_trip: true,
        import: ImportSettings::default(),
        is_exact: false,
        at_limit: AtLimit::Fail,
    };
    round_trip(&request, &planted.open(), &nodes)
}

/// A changegroup whose nodes become those of its texts.
struct Sealed {
    bytes: Vec<u8>,
    version: GroupVersion,
    /// By the nodes of the input.
    nodes: HashMap<Node, Node>,
}

impl Sealed {
    /// Changes the changegroup as far as it can be parsed; returns the nodes of changesets.
    fn seal(&mut self) -> Vec<Node> {
        let mut at = 0;
        let mut groups = vec![self.group(&mut at), self.group(&mut at)];
        if self.version == GroupVersion::V03 {
            self.chunk(&mut at);
        }
        while self.chunk(&mut at).is_some() {
            groups.push(self.group(&mut at));
        }
        // manifests have the nodes of files, changesets those of manifests
        for group in groups.iter().rev().take(groups.len() - 2).chain([&groups[1], &groups[0]]) {
            self.seal_group(group);
        }
        for chunk in groups.iter().flatten() {
            self.change(chunk, |chunk, known| chunk.link = known(chunk.link));
        }
        groups[0].iter().filter_map(|chunk| Some(self.parsed(chunk)?.0.node)).collect()
    }

    /// The data of the next chunk; `None` at an end.
    fn chunk(&self, at: &mut usize) -> Option<Range<usize>> {
        let rest = self.bytes.get(*at..)?;
        let len = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        let chunk = *at + END.len()..*at + len.max(END.len()).min(rest.len());
        *at = chunk.end;
        (len > END.len()).then_some(chunk)
    }

    fn group(&self, at: &mut usize) -> Vec<Range<usize>> {
        std::iter::from_fn(|| self.chunk(at)).collect()
    }

    fn parsed(&self, chunk: &Range<usize>) -> Option<(RevisionChunk, &[u8])> {
        RevisionChunk::parse(self.version, &self.bytes[chunk.clone()])
    }

    /// Changes the bytes before a delta.
    fn change(
        &mut self,
        chunk: &Range<usize>,
        change: impl FnOnce(&mut RevisionChunk, &dyn Fn(Node) -> Node),
    ) {
        let Some((mut head, delta)) = self.parsed(chunk) else { return };
        let mut made = Vec::new();
        change(&mut head, &|node| *self.nodes.get(&node).unwrap_or(&node));
        head.push_head(self.version, delta.len(), &mut made).expect("it was as long before");
        let fields = &made[END.len()..];
        self.bytes[chunk.start..chunk.start + fields.len()].copy_from_slice(fields);
    }

    fn seal_group(&mut self, group: &[Range<usize>]) {
        let mut texts = HashMap::from([(Node::NULL, Buffer::default())]);
        for chunk in group {
            self.change(chunk, |chunk, known| {
                chunk.parents = chunk.parents.map(known);
                chunk.base = known(chunk.base);
            });
            self.name_again(chunk);
            let Some((head, delta)) = self.parsed(chunk) else { continue };
            let Some(base) = texts.get(&head.base) else { continue };
            let Ok(delta) = Delta::parse(delta, base.len()) else { continue };
            let mut text = Buffer::default();
            delta.apply(base, &mut text).expect("is memory");
            let [p1, p2] = head.parents;
            let node = node::node_of(p1, p2, &text);
            self.nodes.insert(head.node, node);
            self.change(chunk, |chunk, _| chunk.node = node);
            texts.insert(node, text);
        }
    }

    /// Replaces the nodes of others in a delta.
    fn name_again(&mut self, chunk: &Range<usize>) {
        let delta = &mut self.bytes[chunk.clone()];
        for at in 0..(delta.len() + 1).saturating_sub(HEX_LEN) {
            let digits = &mut delta[at..at + HEX_LEN];
            if let Some(node) = Node::from_hex(digits).and_then(|node| self.nodes.get(&node)) {
                digits.copy_from_slice(node.to_string().as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: [&[u8]; 2] = [
        include_bytes!("../../fuzz/seeds/round_trip/merge"),
        include_bytes!("../../fuzz/seeds/round_trip/merge-flags"),
    ];

    #[test]
    fn what_is_read_is_as_it_should_be_up_to_its_end() {
        for seed in SEEDS {
            assert_eq!(problem_of(seed), None);
            assert_eq!(problem_of(&seed[..seed.len() - 1]).as_deref(), Some("it is cut"));
        }
    }

    #[test]
    fn another_text_gets_its_node_and_so_do_those_that_name_it() {
        for seed in SEEDS {
            let mut other = seed.to_vec();
            let at = seed.windows(5).position(|text| text == b"more\n").expect("is a file");
            other[at] = b'M';
            assert_eq!(problem_of(&other), None);
        }
    }
}
