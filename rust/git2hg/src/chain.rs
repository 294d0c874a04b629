//! Texts made by chains of deltas.

use std::sync::Arc;

use parallel::Buffer;
use revlog::patch::{Broken, apply_chain};

/// Bytes of deltas that are in memory at once.
const DELTAS_AT_ONCE: usize = 4 << 20;

/// Text that deltas make of `text`, without those in between. `room` gives empty buffers.
pub(crate) fn applied<E: From<Broken>>(
    mut text: Arc<Buffer>,
    deltas: impl Iterator<Item = Result<Buffer, E>>,
    room: impl Fn() -> Buffer,
) -> Result<Arc<Buffer>, E> {
    let mut deltas = deltas.peekable();
    while deltas.peek().is_some() {
        let (mut some, mut bytes) = (Vec::new(), 0);
        while let Some(delta) = deltas.next_if(|_| bytes < DELTAS_AT_ONCE) {
            let delta = delta?;
            bytes += delta.len();
            some.push(delta);
        }
        let mut next = room();
        apply_chain(&text, &some, &mut next)?;
        text = Arc::new(next);
    }
    Ok(text)
}
