//! Detection of SHA-1 collision attacks, as git does it with SHA1DC.
//!
//! Owns the glue to the `sha1dc` crate, a faster form of the `sha1collisiondetection` that git
//! uses. Both need only one message of a pair: they recognise the blocks that the 32 known kinds of
//! attack make. They do not detect collisions by an unknown attack or by chance. The caller decides
//! the consequences of a collision.

use sha1dc::Hasher;

use crate::{Digest, Message};

/// The message carries a collision attack; another one with the same SHA-1 exists or was prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The plain SHA-1, which must not be used as the id of this message.
    pub digest: Digest,
}

impl std::fmt::Display for Collision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SHA-1 collision attack in message with digest ")?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::error::Error for Collision {}

/// The SHA-1 of a message that carries no known attack.
///
/// Messages take 1.2 times as long as in [`crate::digest_one`]. Compared with the widest lanes of
/// [`crate::best`], long messages take four times as long, and messages of 300 bytes twice.
///
/// # Errors
///
/// [`Collision`] for the messages that git refuses with "SHA-1 appears to be part of a collision
/// attack".
pub fn digest_checked(message: Message<'_>) -> Result<Digest, Collision> {
    let mut hasher = CheckedHasher::default();
    hasher.update(message.head);
    hasher.update(message.body);
    hasher.finish()
}

/// [`digest_checked`] for a message that comes in pieces.
#[derive(Clone, Default)]
pub struct CheckedHasher(Hasher);

impl std::fmt::Debug for CheckedHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckedHasher").finish_non_exhaustive()
    }
}

impl CheckedHasher {
    /// Appends a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The SHA-1 of all pieces.
    ///
    /// # Errors
    ///
    /// As [`digest_checked`].
    pub fn finish(self) -> Result<Digest, Collision> {
        match self.0.finalize() {
            Ok(digest) => Ok(digest.to_bytes()),
            Err(found) => Err(Collision { digest: found.digest().to_bytes() }),
        }
    }
}

/// Whether the message carries a collision attack; see [`digest_checked`], which costs the same.
///
/// An attack works at one place of one message. The two published PDFs collide as plain files,
/// not as git blobs, because `blob 422435\0` comes before their bytes. So pass exactly the message
/// whose digest is used.
#[must_use]
pub fn collides(message: Message<'_>) -> bool {
    digest_checked(message).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest_one;

    // SHAttered, by Stevens, Bursztein, Karpman, Albertini and Markov, 2017: the first 320 bytes of
    // shattered-1.pdf and shattered-2.pdf from https://shattered.io, here from the test data of the
    // crate sha1-checked 0.10.0. The two near-collision blocks are bytes 192 to 319.
    /// Bytes 0 to 191 of both.
    const PREFIX: &str = "\
        255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f\
        4865696768742033203020522f547970652034203020522f537562747970652035203020522f4669\
        6c7465722036203020522f436f6c6f7253706163652037203020522f4c656e677468203820302052\
        2f42697473506572436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d31\
        20697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01";
    /// Bytes 192 to 319 of the first.
    const FIRST: &str = "\
        7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5\
        df45c14f26fedfb3dc38e96ac22fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331\
        fea48037b8b5d71f0e332edf93ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af\
        3f98cda4bc4629b1";
    /// Bytes 192 to 319 of the second.
    const SECOND: &str = "\
        7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c5\
        6b45c1530afedfb76038e972722fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be335\
        42a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf\
        3f98cda8044629a1";

    fn bytes(hex: [&str; 2]) -> Vec<u8> {
        let digits = hex.concat();
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        assert!(rest.is_empty(), "two digits a byte");
        pairs
            .iter()
            .map(|pair| str::from_utf8(pair).expect("ASCII"))
            .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
            .collect()
    }

    #[test]
    fn both_texts_of_a_published_collision_are_reported() {
        let [first, second] = [FIRST, SECOND].map(|tail| bytes([PREFIX, tail]));
        assert_ne!(first, second);
        for text in [&first, &second] {
            let message = Message { head: &[], body: text };
            assert!(collides(message));
            let digest = digest_one(Message { head: &[], body: &first });
            assert_eq!(digest_checked(message), Err(Collision { digest }));
        }
    }

    #[test]
    fn a_collision_is_reported_wherever_the_head_ends() {
        let text = bytes([PREFIX, FIRST]);
        for (head, body) in (0..=text.len()).map(|at| text.split_at(at)) {
            assert!(collides(Message { head, body }), "split after {} bytes", head.len());
        }
    }

    #[test]
    fn a_collision_is_reported_with_more_text_behind_it() {
        let text = [bytes([PREFIX, SECOND]), vec![b'x'; 1000]].concat();
        assert!(collides(Message { head: &[], body: &text }));
    }

    #[test]
    fn a_collision_made_for_another_head_is_none() {
        for text in [FIRST, SECOND].map(|tail| bytes([PREFIX, tail])) {
            let blob = Message { head: b"blob 320\0", body: &text };
            assert_eq!(digest_checked(blob), Ok(digest_one(blob)));
        }
    }

    #[test]
    fn ordinary_texts_are_not_reported() {
        let source = include_bytes!("collision.rs");
        for end in 0..source.len() {
            let message = Message { head: b"blob 1\0", body: &source[..end] };
            assert!(!collides(message), "first {end} bytes of this file");
        }
    }

    #[test]
    fn a_collision_names_its_digest() {
        let collision = Collision { digest: [0xab; 20] };
        assert_eq!(
            collision.to_string(),
            format!("SHA-1 collision attack in message with digest {}", "ab".repeat(20)),
        );
    }
}
