//! SHA-1 of many independent messages at once, and of one, with and without collision detection.
//!
//! Owns: which implementation this CPU gets, and every intrinsic of the project. The SHA
//! extensions of x86 wait for their own results; four messages side by side hide that wait, and a
//! core hashes 2.5 times as much (`examples/throughput.rs`).
//!
//! Must not know: what the messages mean. Object headers, parent nodes and the choice of what to
//! check for collisions are the caller's, see `docs/decisions/sha1.rst`. Threads are the caller's
//! as well: all here runs on the thread that calls.
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

#[cfg(any(target_arch = "x86_64", test))]
mod blocks;
mod collision;
#[cfg(any(target_arch = "x86_64", test))]
mod interleave;
mod portable;
#[cfg(target_arch = "x86_64")]
mod shani;
#[cfg(test)]
mod strategies;

pub use collision::{Collision, collides, digest_checked};

/// One message: the digest is that of `head` followed by `body`.
///
/// Both are read in place. Either may be empty; `head` is meant for the few bytes that a format
/// puts before a text it must not copy.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// First part, such as `blob 123\0`.
    pub head: &'a [u8],
    /// Second part, of any length.
    pub body: &'a [u8],
}

/// A SHA-1 in its usual byte order.
pub type Digest = [u8; 20];

/// Hashes many independent messages.
pub trait Lanes: Send + Sync + std::fmt::Debug {
    /// Sets `digests[i]` to the SHA-1 of `messages[i]`.
    ///
    /// Messages start in the given order, and a few are under way at once. One long message at the
    /// end has no company left and runs at the speed of one: put long ones first.
    ///
    /// # Panics
    ///
    /// If the two slices differ in length.
    fn digest(&self, messages: &[Message<'_>], digests: &mut [Digest]);

    /// What runs, for logs: `sha-ni` or `portable`.
    fn name(&self) -> &'static str;
}

/// The fastest implementation that this CPU can run, asked at run time and remembered.
#[must_use]
pub fn best() -> &'static dyn Lanes {
    #[cfg(target_arch = "x86_64")]
    if let Some(lanes) = shani::detect() {
        return lanes;
    }
    portable()
}

/// The `sha1` crate, one message after the other. It finds the CPU's instructions by itself.
#[must_use]
pub fn portable() -> &'static dyn Lanes {
    &portable::Portable
}

/// The SHA-1 of a single message, which nothing can be interleaved with.
#[must_use]
pub fn digest_one(message: Message<'_>) -> Digest {
    portable::digest(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strategies::{pool, spans};

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
            prop_assert_eq!(&digests(best(), &messages), &expected);
            prop_assert_eq!(&digests(portable(), &messages), &expected);
            for (message, digest) in messages.iter().zip(expected) {
                prop_assert_eq!(digest_one(*message), digest);
                prop_assert_eq!(digest_checked(*message), Ok(digest));
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
        for lanes in [best(), portable()] {
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
    fn a_cpu_with_the_sha_extensions_uses_them() {
        #[cfg(target_arch = "x86_64")]
        assert_eq!(best().name() == "sha-ni", is_x86_feature_detected!("sha"));
        #[cfg(not(target_arch = "x86_64"))]
        assert_eq!(best().name(), portable().name());
    }

    #[test]
    #[should_panic(expected = "one digest per message")]
    fn a_missing_digest_is_refused_by_the_best() {
        best().digest(&[Message { head: &[], body: &[] }], &mut []);
    }

    #[test]
    #[should_panic(expected = "one digest per message")]
    fn a_missing_digest_is_refused_by_the_portable() {
        portable().digest(&[Message { head: &[], body: &[] }], &mut []);
    }

    #[test]
    #[cfg_attr(debug_assertions, ignore = "minutes without optimisation, two seconds with it")]
    fn a_body_over_2_gib_is_hashed() {
        let body = vec![0; (1 << 31) + 77]; // never written, so it takes next to no memory
        let messages = [b"long".as_slice(), b"longer"].map(|head| Message { head, body: &body });
        assert_eq!(digests(best(), &messages), digests(portable(), &messages));
    }
}
