//! Notes of changesets as objects.

use dialect::cinnabar::note;
use gitpack::{ObjectKind, Oid, object_header};
use revlog::Revlog;
use sha1lanes::Message;

use crate::error::Result;
use crate::objects::collisions::CollisionCheck;
use crate::objects::commits::Committed;
use crate::objects::object::Object;
use crate::objects::trees::Purpose;
use crate::read::changelog::parse;

/// Notes of changesets, whose commits are among `objects`.
///
/// # Errors
///
/// [`crate::Error::Store`] with a changeset that cannot be parsed, or whose note carries a
/// collision attack.
pub(crate) fn notes_of(
    changelog: &Revlog,
    changesets: &[Committed],
    objects: &[Object],
    collisions: &CollisionCheck,
) -> Result<Vec<Object>> {
    let mut notes = Vec::with_capacity(changesets.len());
    for Committed { rev, node, text, commit } in changesets {
        let changeset = parse(changelog, *rev, text)?;
        let content = &objects[*commit].payload;
        let blob = note(*node, &changeset, text, content);
        notes.push(blob.ok_or_else(|| changelog.corrupt(*rev, "its commit cannot be read back"))?);
    }
    let head = |note: &Vec<u8>| object_header(ObjectKind::Blob, note.len() as u64);
    let heads: Vec<_> = notes.iter().map(head).collect();
    let messages = heads.iter().zip(&notes).map(|(head, body)| Message { head, body });
    let messages: Vec<_> = messages.collect();
    let mut digests = vec![[0; 20]; messages.len()];
    sha1lanes::best().digest(&messages, &mut digests);
    for ((digest, message), Committed { rev, .. }) in digests.iter().zip(&messages).zip(changesets)
    {
        let passed = collisions.object(ObjectKind::Blob, Oid::from_bytes(*digest), *message);
        passed.map_err(|attack| changelog.corrupt(*rev, attack))?;
    }
    let objects = digests.into_iter().zip(notes).map(|(digest, payload)| {
        let oid = Oid::from_bytes(digest);
        Object { kind: ObjectKind::Blob, oid, base: None, payload, purpose: Purpose::Aside }
    });
    Ok(objects.collect())
}
