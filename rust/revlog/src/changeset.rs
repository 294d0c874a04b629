//! Text of a changeset: manifest, user, date and extras, files, description.
//!
//! Format: `mercurial/changelog.py`. Lines are taken in order, so an empty user does not end the
//! head early. Nothing is decoded: extras stay escaped, texts stay bytes. Dates are parsed as
//! leniently as in Mercurial, since old tools wrote odd ones.

use crate::node::Node;

/// Malformed part of a changeset's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedChangeset {
    /// No manifest node at the beginning.
    #[error("its text does not begin with a manifest node")]
    Manifest,
    /// The date line is missing or malformed.
    #[error("it has no readable date")]
    Date,
    /// The end of the head is missing.
    #[error("it has no description")]
    Description,
}

/// Parsed changeset, borrowed from its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changeset<'a> {
    /// Node of the manifest, or the null node if the tree is empty.
    pub manifest: Node,
    /// User line.
    pub user: &'a [u8],
    /// Seconds since 1970, UTC, without their fraction; any number that has digits.
    pub seconds: i128,
    /// Seconds west of UTC; 0 for a missing number, or one beyond 31 bits.
    pub offset_seconds: i32,
    /// Bytes after the date, escaped, if any.
    pub extra: Option<&'a [u8]>,
    /// Lines of the files, separated by LF; empty without files.
    pub files: &'a [u8],
    /// Description, verbatim.
    pub description: &'a [u8],
}

impl<'a> Changeset<'a> {
    /// Parses a raw text.
    ///
    /// # Errors
    ///
    /// [`MalformedChangeset`] with the missing part.
    pub fn parse(text: &'a [u8]) -> Result<Self, MalformedChangeset> {
        let (manifest, rest) = split_line(text).ok_or(MalformedChangeset::Manifest)?;
        let manifest = Node::from_hex(manifest).ok_or(MalformedChangeset::Manifest)?;
        let (user, rest) = split_line(rest).ok_or(MalformedChangeset::Date)?;
        let (date, rest) = split_line(rest).ok_or(MalformedChangeset::Date)?;
        let mut parts = date.splitn(3, |&byte| byte == b' ');
        let seconds = parts.next().and_then(seconds).ok_or(MalformedChangeset::Date)?;
        let offset_seconds = offset_seconds(parts.next().ok_or(MalformedChangeset::Date)?);
        let extra = parts.next();
        let (files, description) = match rest.strip_prefix(b"\n") {
            Some(description) => (&rest[..0], description),
            None => {
                let end =
                    memchr::memmem::find(rest, b"\n\n").ok_or(MalformedChangeset::Description)?;
                (&rest[..end], &rest[end + 2..])
            }
        };
        Ok(Self { manifest, user, seconds, offset_seconds, extra, files, description })
    }

    /// Extras: keys and values as stored, escaped. An item without `:` has an empty value.
    pub fn extras(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let items = self.extra.unwrap_or_default().split(|&byte| byte == 0);
        items.filter(|item| !item.is_empty()).map(|item| {
            let colon = memchr::memchr(b':', item).unwrap_or(item.len());
            (&item[..colon], item.get(colon + 1..).unwrap_or_default())
        })
    }
}

fn split_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\n', text)?;
    Some((&text[..end], &text[end + 1..]))
}

fn seconds(digits: &[u8]) -> Option<i128> {
    // a number too large for either type becomes the largest value
    #[expect(clippy::cast_possible_truncation, reason = "a fraction is dropped on purpose")]
    number(digits).or_else(|| number::<f64>(digits).map(|time| time as i128))
}

fn offset_seconds(digits: &[u8]) -> i32 {
    // i32::MIN has no opposite, which a git zone needs
    number(digits).filter(|&offset| offset != i32::MIN).unwrap_or(0)
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "7cf5203a514b008b1e2996986ea9627b44d287c1";

    #[test]
    fn every_part_is_found() {
        let text = format!("{HEX}\nme\n12 -3600 branch:x\0close:1\na\nb\n\nline\n\nlast");
        let changeset = Changeset::parse(text.as_bytes()).expect("well-formed");
        assert_eq!(changeset.user, b"me");
        assert_eq!((changeset.seconds, changeset.offset_seconds), (12, -3600));
        assert_eq!(changeset.files, b"a\nb");
        assert_eq!(changeset.description, b"line\n\nlast");
        let extras: Vec<_> = changeset.extras().collect();
        assert_eq!(extras, [(&b"branch"[..], &b"x"[..]), (b"close", b"1")]);
    }

    #[test]
    fn without_files_the_description_follows_the_date() {
        let text = format!("{HEX}\nme\n0 0\n\n\nx");
        let changeset = Changeset::parse(text.as_bytes()).expect("well-formed");
        assert_eq!((changeset.files, changeset.description), (&b""[..], &b"\nx"[..]));
        assert_eq!(changeset.extra, None);
    }

    #[test]
    fn an_empty_user_does_not_end_the_head() {
        let text = format!("{HEX}\n\n-1 0 \nfile\n\nx");
        let changeset = Changeset::parse(text.as_bytes()).expect("well-formed");
        assert_eq!((changeset.user, changeset.seconds), (&b""[..], -1));
        assert_eq!(changeset.extra, Some(&b""[..]));
    }

    #[test]
    fn dates_are_read_as_hg_reads_them() {
        let date = |line: &str| {
            let text = format!("{HEX}\nme\n{line}\n\nx");
            let changeset = Changeset::parse(text.as_bytes()).ok()?;
            Some((changeset.seconds, changeset.offset_seconds))
        };
        // integers, with or without sign and zeros, of any size
        assert_eq!(date("012 +60"), Some((12, 60)));
        assert_eq!(date("-1 -0"), Some((-1, 0)));
        assert_eq!(date("18446744073709551616 0"), Some((1 << 64, 0)));
        // time as a float
        assert_eq!(date("1134597483.5 28800"), Some((1_134_597_483, 28800)));
        assert_eq!(date("-0.5 0"), Some((0, 0)));
        // "various tools did silly things with the timezone"
        for offset in ["EST", "", "1.5", "99999999999", "-2147483648"] {
            assert_eq!(date(&format!("7 {offset}")), Some((7, 0)), "{offset}");
        }
        for unreadable in ["yesterday 0", "7", " 0"] {
            assert_eq!(date(unreadable), None, "{unreadable}");
        }
    }

    #[test]
    fn damage_is_named() {
        assert_eq!(Changeset::parse(b"").err(), Some(MalformedChangeset::Manifest));
        let cut = format!("{HEX}\nme\n12\n\nx");
        assert_eq!(Changeset::parse(cut.as_bytes()).err(), Some(MalformedChangeset::Date));
        let cut = format!("{HEX}\nme\n12 0\nfile\n");
        assert_eq!(Changeset::parse(cut.as_bytes()).err(), Some(MalformedChangeset::Description));
    }
}
