//! Round trip alone, for `fuzztargets`.

use std::fs::File;
use std::io;

use dialect::Cinnabar;
use gitpack::Oid;
use revlog::{Node, RevlogKind};

use crate::read::trees::GitTrees;
use crate::request::ConversionRequest;
use crate::verify::{Fault, verify};

/// Commits whose ids are looked for: the changegroup is read once more for each.
const MOST_COMMITS: u8 = 8;
const TREE_BYTES: usize = 1 << 20;
const OTHER_COMMIT: &[u8] = b"it is exported as ";

/// Verifies a changegroup with these changesets, which needs nothing of the store. The ids of its
/// commits are found one by one, so that all are read. Returns the fault.
///
/// # Panics
///
/// If a fault has another commit than the first one with an unknown id.
#[must_use]
pub fn round_trip(request: &ConversionRequest<'_>, group: &File, nodes: &[Node]) -> Option<String> {
    let manifest = match request.store.open(RevlogKind::Manifest) {
        Ok(manifest) => manifest,
        Err(problem) => return Some(problem.to_string()),
    };
    let unknown = |number: u8| Oid::from_bytes([number; 20]);
    let mut expected: Vec<(Oid, Node)> =
        (1..=MOST_COMMITS).map(unknown).zip(nodes.iter().copied()).collect();
    let mut known = 0;
    loop {
        let trees = GitTrees::new(io::sink(), io::empty(), TREE_BYTES);
        let found = verify::<Cinnabar>(
            (group, 0),
            (request, &manifest),
            &[],
            &trees,
            &expected,
            &|_, _| false,
        );
        let Fault { oid, message } = match found {
            Ok(None) => return None,
            Ok(Some(fault)) => fault,
            Err(problem) => return Some(problem.to_string()),
        };
        if let Some(oid) = oid {
            assert_eq!(oid, expected[known].0, "a commit before was right");
        }
        let other = message.as_bytes().strip_prefix(OTHER_COMMIT).and_then(Node::from_hex);
        match other.map(|node| Oid::from_bytes(*node.as_bytes())) {
            // a repeated id is the fault
            Some(oid) if expected[..known].iter().all(|(before, _)| *before != oid) => {
                expected[known].0 = oid;
                known += 1;
            }
            _ => return Some(message),
        }
    }
}
