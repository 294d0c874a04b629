//! A git object on its way to the pack, as content or as a delta.

use gitpack::{ObjectKind, Oid};

use crate::objects::trees::Purpose;

/// An object for the pack, not compressed yet.
#[derive(Debug)]
pub(crate) struct Object {
    pub kind: ObjectKind,
    pub oid: Oid,
    /// The base of the delta in `payload`, passed on earlier; if `None`, the payload is the
    /// content.
    pub base: Option<Oid>,
    pub payload: Vec<u8>,
    /// The readers that need it.
    pub purpose: Purpose,
}

impl Object {
    /// An object that git clients need, with its content.
    pub const fn whole(kind: ObjectKind, oid: Oid, payload: Vec<u8>) -> Self {
        Self { kind, oid, base: None, payload, purpose: Purpose::Git }
    }

    /// Memory that the object takes, in bytes.
    pub const fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.payload.len()) as u64
    }
}

/// An object without its payload, as the pack needs it.
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
