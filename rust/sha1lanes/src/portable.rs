//! One message after the other through the `sha1` crate, on any CPU.
//!
//! Owns only the glue: the crate chooses SHA-NI, the `sha2` instructions of aarch64, or plain code.

use sha1::{Digest as _, Sha1};

use crate::{Digest, Lanes, Message, Pieced};

/// The implementation behind [`crate::portable()`].
#[derive(Debug)]
pub(crate) struct Portable;

impl Lanes for Portable {
    fn digest(&self, messages: &[Message<'_>], digests: &mut [Digest]) {
        assert_eq!(messages.len(), digests.len(), "one digest per message");
        for (message, into) in messages.iter().zip(digests) {
            *into = digest(*message);
        }
    }

    fn digest_pieced(&self, messages: &[Pieced<'_>], digests: &mut [Digest]) {
        assert_eq!(messages.len(), digests.len(), "one digest per message");
        for (message, into) in messages.iter().zip(digests) {
            let mut hasher = Sha1::new_with_prefix(message.head);
            message.pieces.iter().for_each(|piece| hasher.update(piece));
            *into = hasher.finalize().into();
        }
    }

    fn name(&self) -> &'static str {
        "portable"
    }
}

/// The SHA-1 of one message.
pub(crate) fn digest(message: Message<'_>) -> Digest {
    let mut hasher = Sha1::new();
    hasher.update(message.head);
    hasher.update(message.body);
    hasher.finalize().into()
}
