//! SHA-1 of many independent messages at once, and of one, with and without collision detection.
//!
//! Owns: the choice of an implementation for this CPU, and every intrinsic of the project. The SHA
//! extensions of x86 wait for their own results; four messages side by side hide that wait, and a
//! core hashes 2.5 times as much. The columns of AVX-512 registers, sixteen messages wide, are
//! another 1.4 to 2.3 times as fast (`examples/throughput.rs`).
//!
//! Must not know: the meaning of the messages. Callers write object headers and parent nodes, and
//! choose the messages to check for collisions, see `docs/decisions/sha1.rst`. Callers also own
//! the threads: everything here runs on the calling thread.
//!
//! The hash itself: FIPS 180-4, sections 5.1.1 (padding), 5.3.1 and 6.1.
//!
//! ```
//! use sha1lanes::{Message, best, digest_one};
//!
//! let text = b"hello\n".as_slice();
//! let hg_node = Message { head: &[0; 40], body: text };
//! let git_oid = Message { head: b"blob 6\0", body: text };
//! let mut digests = [[0; 20]; 2];
//! best().digest(&[hg_node, git_oid], &mut digests);
//! assert_eq!(digests, [hg_node, git_oid].map(digest_one));
//! ```

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", test))]
mod blocks;
mod collision;
#[cfg(any(target_arch = "x86_64", test))]
mod interleave;
mod knownanswers;
mod portable;
#[cfg(test)]
mod recorder;
#[cfg(target_arch = "x86_64")]
mod shani;
#[cfg(test)]
mod strategies;
#[cfg(any(target_arch = "x86_64", test))]
mod wide;

use std::sync::OnceLock;

pub use collision::{CheckedHasher, Collision, collides, digest_checked};

/// One message: `head` followed by `body`.
///
/// Both are read in place. Either may be empty. `head` is meant for the few bytes that a format
/// puts before a text, so that the text need not be copied.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// First part, such as `blob 123\0`.
    pub head: &'a [u8],
    /// Second part, of any length.
    pub body: &'a [u8],
}

/// A message in many pieces: `head` followed by all of `pieces`.
#[derive(Clone, Copy, Debug)]
pub struct Pieced<'a> {
    /// First part, as in a [`Message`].
    pub head: &'a [u8],
    /// The parts after it, of any length. They are copied, some blocks at a time.
    pub pieces: &'a [&'a [u8]],
}

/// A SHA-1 in its usual byte order.
pub type Digest = [u8; 20];

/// Hashes many independent messages.
pub trait Lanes: Send + Sync + std::fmt::Debug {
    /// Sets `digests[i]` to the SHA-1 of `messages[i]`.
    ///
    /// At most sixteen messages are hashed at the same time. Give many messages in one call. More
    /// than eight begin with the longest. Eight or fewer begin in the given order: a long message
    /// at the end is hashed alone, at the speed of one.
    ///
    /// # Panics
    ///
    /// If the two slices differ in length.
    fn digest(&self, messages: &[Message<'_>], digests: &mut [Digest]);

    /// As [`Lanes::digest`], for messages in many pieces.
    ///
    /// # Panics
    ///
    /// If the two slices differ in length.
    fn digest_pieced(&self, messages: &[Pieced<'_>], digests: &mut [Digest]);

    /// The name of the implementation, for logs: `avx-512`, `sha-ni` or `portable`.
    fn name(&self) -> &'static str;
}

/// The fastest implementation that this CPU can run and that gives the known answers.
///
/// The first call takes about 0.2 ms. The answer is cached.
#[must_use]
pub fn best() -> &'static dyn Lanes {
    chosen().best
}

/// Names of the implementations that fail the known-answer test on this CPU.
///
/// They are not used, although the CPU claims to run them. If `portable` is among them, every
/// implementation failed, and `portable` is used nevertheless.
#[must_use]
pub fn refused() -> &'static [&'static str] {
    &chosen().refused
}

fn chosen() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(|| Choice::of(implementations()))
}

/// The implementation in use, and the names of faster ones that gave wrong answers.
#[derive(Debug)]
struct Choice {
    best: &'static dyn Lanes,
    refused: Vec<&'static str>,
}

impl Choice {
    /// Chooses the first of `implementations` that gives the known answers.
    fn of(implementations: impl Iterator<Item = &'static dyn Lanes>) -> Self {
        let mut refused = Vec::new();
        for lanes in implementations {
            if knownanswers::is_passed(lanes) {
                return Self { best: lanes, refused };
            }
            refused.push(lanes.name());
        }
        Self { best: portable(), refused }
    }
}

/// All implementations that this CPU can run, the fastest first.
pub fn implementations() -> impl Iterator<Item = &'static dyn Lanes> {
    #[cfg(target_arch = "x86_64")]
    let native = [
        avx512::detect().map(|lanes| lanes as &dyn Lanes),
        shani::detect().map(|lanes| lanes as &dyn Lanes),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let native: [Option<&'static dyn Lanes>; 0] = [];
    native.into_iter().flatten().chain([portable()])
}

/// The `sha1` crate, one message after the other. The crate detects the CPU's instructions itself.
#[must_use]
pub fn portable() -> &'static dyn Lanes {
    &portable::Portable
}

/// The SHA-1 of a single message, without interleaving.
#[must_use]
pub fn digest_one(message: Message<'_>) -> Digest {
    portable::digest(message)
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use proptest::prelude::*;

    use super::*;
    use crate::strategies::{pool, spans};

    /// A number of messages that the widest kernel takes.
    const ENOUGH_FOR_ALL: usize = 17;

    fn hex(digest: Digest) -> String {
        digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    }

    fn digests(lanes: &dyn Lanes, messages: &[Message<'_>]) -> Vec<Digest> {
        let mut digests = vec![[0; 20]; messages.len()];
        lanes.digest(messages, &mut digests);
        digests
    }

    proptest! {
        #[test]
        fn all_implementations_agree(spans in spans()) {
            let pool = pool();
            let messages: Vec<_> = spans.iter().map(|span| span.of(&pool)).collect();
            let expected: Vec<Digest> = messages
                .iter()
                .map(|message| [message.head, message.body].concat())
                .map(|bytes| sha1dc::digest(&bytes).expect("no collision").to_bytes())
                .collect();
            for lanes in implementations() {
                prop_assert_eq!(&digests(lanes, &messages), &expected, "{}", lanes.name());
            }
            let pieces: Vec<Vec<_>> =
                messages.iter().map(|message| message.body.chunks(1000).collect()).collect();
            let pieced: Vec<_> = messages
                .iter()
                .zip(&pieces)
                .map(|(message, pieces)| Pieced { head: message.head, pieces })
                .collect();
            for lanes in implementations() {
                let mut found = vec![[0; 20]; pieced.len()];
                lanes.digest_pieced(&pieced, &mut found);
                prop_assert_eq!(&found, &expected, "{} in pieces", lanes.name());
            }
            for (message, digest) in messages.iter().zip(expected) {
                prop_assert_eq!(digest_one(*message), digest);
                prop_assert_eq!(digest_checked(*message), Ok(digest));
            }
        }
    }

    #[test]
    fn pieces_of_any_lengths_and_number_give_the_digest_of_all() {
        let pool = pool();
        for count in [0, 1, 8, 9, 16, 17, 31, 32, 33, 65] {
            let pieces: Vec<Vec<&[u8]>> = (0..count)
                .map(|number| {
                    let lens = [0, 1, 0, 63, 64, 1, number, 512, 40 * number, 0];
                    let mut rest = &pool[64..];
                    let mut cut = |len| rest.split_off(..len).expect("is long enough");
                    lens[number % 7..].iter().map(|len| cut(*len)).collect()
                })
                .collect();
            let messages: Vec<_> = (0..)
                .zip(&pieces)
                .map(|(number, pieces)| Pieced { head: &pool[..number % 3 * 32], pieces })
                .collect();
            let expected: Vec<_> = messages
                .iter()
                .map(|message| [message.head, &message.pieces.concat()].concat())
                .map(|bytes| sha1dc::digest(&bytes).expect("no collision").to_bytes())
                .collect();
            for lanes in implementations() {
                let mut found = vec![[0; 20]; count];
                lanes.digest_pieced(&messages, &mut found);
                assert_eq!(found, expected, "{count}, {}", lanes.name());
            }
        }
    }

    #[test]
    fn published_digests_are_reached() {
        // FIPS 180-2, appendix A, and two git objects that any git knows.
        let million = vec![b'a'; 1_000_000];
        let vectors: [(&[u8], &[u8], &str); 6] = [
            (b"", b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                b"abcdbcdecdefdefgefghfghighij",
                b"hijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
            (b"", &million, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
            (b"", b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (b"blob 0\0", b"", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (b"tree 0\0", b"", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
        ];
        let messages = vectors.map(|(head, body, _)| Message { head, body });
        let expected = vectors.map(|(_, _, hex)| hex.to_owned());
        for lanes in implementations() {
            let found: Vec<_> = digests(lanes, &messages).into_iter().map(hex).collect();
            assert_eq!(found, expected, "{}", lanes.name());
        }
    }

    #[test]
    fn the_null_parents_and_an_empty_text_give_the_node_of_hg() {
        let message = Message { head: &[0; 40], body: b"" };
        assert_eq!(hex(digest_one(message)), "b80de5d138758541c5f05265ad144ab9fa86d1db");
        assert_eq!(digests(best(), &[message]), [digest_one(message)]);
    }

    #[test]
    fn a_cpu_gets_what_its_features_allow() {
        let mut expected = vec!["portable"];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("sha") {
            expected.insert(0, "sha-ni");
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                expected.insert(0, "avx-512");
            }
        }
        let names: Vec<_> = implementations().map(Lanes::name).collect();
        assert_eq!(names, expected);
        assert_eq!((best().name(), refused()), (expected[0], &[][..]));
    }

    #[test]
    fn a_missing_digest_is_refused() {
        for lanes in implementations() {
            for count in [1, 16, 32] {
                let messages = vec![Message { head: &[], body: &[] }; count];
                let refused = std::panic::catch_unwind(AssertUnwindSafe(|| {
                    lanes.digest(&messages, &mut vec![[0; 20]; count - 1]);
                }));
                let message = refused.expect_err("refused").downcast::<String>().expect("text");
                assert!(message.contains("one digest per message"), "{message}");
            }
        }
    }

    #[test]
    #[cfg_attr(debug_assertions, ignore = "minutes without optimisation, two seconds with it")]
    fn a_body_over_2_gib_is_hashed() {
        let body = vec![0; (1 << 31) + 77]; // never written, so it takes next to no memory
        let heads = ["one", "two", "three"].iter().cycle().take(ENOUGH_FOR_ALL);
        let messages: Vec<_> =
            heads.map(|head| Message { head: head.as_bytes(), body: &body }).collect();
        let mut expected = digests(portable(), &messages[..3]);
        expected = expected.into_iter().cycle().take(messages.len()).collect();
        for lanes in implementations() {
            if lanes.name() != "portable" {
                assert_eq!(digests(lanes, &messages), expected);
            }
        }
    }
}
