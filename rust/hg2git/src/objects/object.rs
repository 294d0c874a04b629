//! What is handed to the pack: one git object, as content or as a delta.

use gitpack::{ObjectKind, Oid};

use crate::objects::trees::Purpose;

/// An object on its way to the pack, not compressed yet.
#[derive(Debug)]
pub(crate) struct Object {
    pub kind: ObjectKind,
    pub oid: Oid,
    /// The object that `payload` is a delta against, handed over earlier; if `None`, the payload
    /// is the content.
    pub base: Option<Oid>,
    pub payload: Vec<u8>,
    /// Who needs it.
    pub purpose: Purpose,
}

impl Object {
    /// Memory that the object takes, in bytes.
    pub const fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.payload.len()) as u64
    }
}

/// What a pack has to know of an object beside its compressed payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectHead {
    pub kind: ObjectKind,
    pub oid: Oid,
    pub base: Option<Oid>,
    pub inflated_len: usize,
    pub purpose: Purpose,
}

impl From<Object> for ObjectHead {
    fn from(Object { kind, oid, base, payload, purpose }: Object) -> Self {
        Self { kind, oid, base, inflated_len: payload.len(), purpose }
    }
}
