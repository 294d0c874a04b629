//! Nodes of new manifests, computed beside the conversion.
//!
//! A node costs the whole text, everything else about a manifest only its differences. So long texts
//! wait for a thread of their own. It hashes all texts at once whose parents have nodes: of lines of
//! history that take turns, several cost little more than one (`sha1lanes`).

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use revlog::{Node, node::nodes_of_pieces};

use crate::build::manifesttext::ManifestText;
use crate::error::{Error, Result};

/// Texts hashed at once: more are no faster.
const MOST_HASHED: usize = 64;
/// Texts that wait or are being hashed.
const MOST_OPEN: usize = 2 * MOST_HASHED;
/// A shorter text is hashed before the thread would wake up.
const SHORTEST_WAITING: usize = 32 << 10;

/// Parent of a new manifest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParentNode {
    Known(Node),
    /// Its place among the new manifests.
    New(usize),
}

/// Nodes of new manifests, by their places.
#[derive(Debug)]
pub(crate) struct ManifestNodes {
    shared: Arc<Shared>,
    thread: Hashing,
}

#[derive(Debug)]
enum Hashing {
    NotStarted,
    OnThread(JoinHandle<()>),
    /// The system starts no thread.
    AtOnce,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// `None` until the text is hashed.
    nodes: Vec<Option<Node>>,
    /// Texts to hash, in order.
    waiting: Vec<WaitingText>,
    /// Number of texts that wait or are being hashed.
    open: usize,
    /// Whether one side has ended.
    is_over: bool,
}

#[derive(Debug)]
struct WaitingText {
    place: usize,
    parents: [ParentNode; 2],
    text: ManifestText,
}

impl ManifestNodes {
    /// Starts with no manifests, and with no thread before a text is long enough for it.
    pub fn new() -> Self {
        Self { shared: Arc::default(), thread: Hashing::NotStarted }
    }

    /// Adds the next manifest, with a node that is known.
    pub fn add_known(&self, node: Node) {
        self.shared.lock().nodes.push(Some(node));
    }

    /// Adds the next manifest.
    pub fn add(&mut self, parents: [ParentNode; 2], text: &ManifestText) {
        let known = self.shared.lock().known(parents);
        if let Some([p1, p2]) = known
            && (text.len() < SHORTEST_WAITING || !self.has_thread())
        {
            return self.add_known(text.node(p1, p2));
        }
        self.shared.change(|state| {
            let place = state.nodes.len();
            state.nodes.push(None);
            state.waiting.push(WaitingText { place, parents, text: text.clone() });
            state.open += 1;
        });
    }

    /// Node of a manifest, if its text is hashed.
    pub fn known(&self, place: usize) -> Option<Node> {
        self.shared.lock().nodes[place]
    }

    /// Node of a manifest, as soon as its text is hashed.
    ///
    /// # Errors
    ///
    /// That the thread has ended.
    pub fn get(&self, place: usize) -> Result<Node> {
        let state = self.shared.wait(|state| state.nodes[place].is_some())?;
        state.nodes[place].ok_or_else(is_dead)
    }

    /// Waits until at most `most_open` texts are not hashed, and at most [`MOST_OPEN`].
    ///
    /// # Errors
    ///
    /// That the thread has ended.
    pub fn wait(&self, most_open: usize) -> Result<()> {
        self.shared.wait(|state| state.open <= most_open.min(MOST_OPEN)).map(|_| ())
    }

    /// Whether a thread hashes; starts it.
    fn has_thread(&mut self) -> bool {
        if matches!(self.thread, Hashing::NotStarted) {
            let shared = Arc::clone(&self.shared);
            let started = Builder::new().spawn(move || hash_texts(&shared));
            self.thread = started.map_or(Hashing::AtOnce, Hashing::OnThread);
        }
        matches!(self.thread, Hashing::OnThread(_))
    }
}

impl Drop for ManifestNodes {
    fn drop(&mut self) {
        self.shared.change(|state| state.is_over = true);
        if let Hashing::OnThread(thread) = mem::replace(&mut self.thread, Hashing::AtOnce) {
            // a panic has been reported as an error
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until something holds.
    fn wait(&self, holds: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        while !holds(&state) {
            if state.is_over {
                return Err(is_dead());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }
}

impl State {
    /// Nodes of parents, if their texts are hashed.
    fn known(&self, parents: [ParentNode; 2]) -> Option<[Node; 2]> {
        let known = |parent| match parent {
            ParentNode::Known(node) => Some(node),
            ParentNode::New(place) => self.nodes[place],
        };
        Some([known(parents[0])?, known(parents[1])?])
    }

    /// Takes the first texts whose parents have nodes, with these.
    fn take_ready(&mut self) -> Vec<([Node; 2], WaitingText)> {
        let mut ready = Vec::new();
        let mut rest = Vec::with_capacity(self.waiting.len());
        for waiting in mem::take(&mut self.waiting) {
            match self.known(waiting.parents) {
                Some(parents) if ready.len() < MOST_HASHED => ready.push((parents, waiting)),
                _ => rest.push(waiting),
            }
        }
        self.waiting = rest;
        ready
    }
}

/// Ends the other side when its thread ends.
struct EndOnDrop<'a>(&'a Shared);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_over = true);
    }
}

fn hash_texts(shared: &Shared) {
    let _ends = EndOnDrop(shared);
    // the first text that waits has parents with nodes
    while let Ok(mut state) = shared.wait(|state| !state.waiting.is_empty()) {
        if state.is_over {
            return;
        }
        let ready = state.take_ready();
        drop(state);
        let texts = ready.iter().map(|(parents, waiting)| (*parents, waiting.text.pieces()));
        let nodes = nodes_of_pieces(texts);
        shared.change(|state| {
            for ((_, waiting), node) in ready.iter().zip(nodes) {
                state.nodes[waiting.place] = Some(node);
            }
            state.open -= ready.len();
        });
    }
}

fn is_dead() -> Error {
    Error::Wrong("the thread that hashes manifests has ended".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use revlog::Tally;

    use super::*;

    proptest! {
        #[test]
        fn nodes_do_not_depend_on_what_waits(
            drawn in proptest::collection::vec(
                (any::<[usize; 2]>(), 0..4_usize, prop_oneof![Just(0), Just(MOST_OPEN), 0..9_usize]),
                1..200,
            ),
        ) {
            let (mut nodes, mut expected) = (ManifestNodes::new(), Vec::<Node>::new());
            for (number, (parents, len, most_open)) in drawn.into_iter().enumerate() {
                let parents = parents.map(|parent| (parent % (number + 1)).checked_sub(1));
                let text = number.to_string().repeat(len * SHORTEST_WAITING / 4);
                let text = ManifestText::new(text.as_bytes(), &Tally::default());
                let [p1, p2] = parents.map(|it| it.map_or(Node::NULL, |it| expected[it]));
                expected.push(text.node(p1, p2));
                let known = ParentNode::Known(Node::NULL);
                if len == 3 && number % 5 == 0 {
                    nodes.add_known(expected[number]);
                } else {
                    nodes.add(parents.map(|it| it.map_or(known, ParentNode::New)), &text);
                }
                nodes.wait(most_open).expect("goes on");
                prop_assert!(nodes.known(number).is_none_or(|node| node == expected[number]));
            }
            for (place, node) in expected.into_iter().enumerate().rev() {
                prop_assert_eq!(nodes.get(place).expect("is hashed"), node);
            }
        }
    }

    #[test]
    fn a_dead_thread_is_an_error() {
        let mut nodes = ManifestNodes::new();
        let text = ManifestText::new(&vec![b'a'; SHORTEST_WAITING], &Tally::default());
        nodes.thread = Hashing::AtOnce;
        nodes.shared.change(|state| {
            state.nodes.push(None);
            state.open = 1;
        });
        nodes.add([ParentNode::New(0); 2], &text);
        drop(EndOnDrop(&nodes.shared));
        assert!(nodes.get(1).is_err() && nodes.wait(1).is_err());
        nodes.wait(2).expect("no text is awaited");
    }
}
