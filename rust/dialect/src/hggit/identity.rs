//! Author and committer lines of hg-git.

use super::delta::apply;
use super::texts::{push_quoted, trim};

/// An identity with its date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// `NAME <EMAIL>`.
    pub who: Vec<u8>,
    /// Seconds since 1970, UTC.
    pub seconds: i128,
    /// Seconds east of UTC, whole minutes.
    pub zone_seconds: i64,
}

impl Ident {
    /// The author of a changeset with this user, in UTF-8, this date, and this extra `author`.
    pub fn author(user: &[u8], seconds: i128, west_seconds: i32, extra: Option<&[u8]>) -> Self {
        // Mercurial reads seconds as a float
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "as it is"
        )]
        let seconds = seconds as f64 as i128;
        let west_seconds = i64::from(west_seconds);
        let mut who = author(user);
        if let Some(changed) = extra.and_then(|delta| apply(&who, delta)) {
            who = changed;
        }
        Self { who, seconds, zone_seconds: west_seconds.rem_euclid(60) - west_seconds }
    }

    /// The committer of a changeset, by its extra; `None` if that is malformed.
    pub fn committer(extra: &[u8]) -> Option<Self> {
        let mut parts = extra.rsplitn(3, |byte| *byte == b' ');
        let (zone, seconds, who) = (parts.next()?, parts.next()?, parts.next()?);
        let (number, seconds) = (integer(zone)?, integer(seconds)?);
        let zone_seconds = if number.rem_euclid(60) == 0 { -number } else { clock_seconds(zone)? };
        let zone_seconds = i64::try_from(zone_seconds).ok()?;
        Some(Self { who: who.to_vec(), seconds, zone_seconds })
    }

    /// The identity, as in a commit, but for the ends of its lines.
    pub fn text(&self) -> Vec<u8> {
        let Self { who, seconds, zone_seconds } = self;
        let sign = if *zone_seconds < 0 { '-' } else { '+' };
        let minutes = zone_seconds.unsigned_abs() / 60;
        let (hours, minutes) = (minutes / 60, minutes % 60);
        let date = format!(" {seconds} {sign}{hours:02}{minutes:02}");
        [who, date.as_bytes()].concat()
    }
}

/// Whether bytes may be in a line of a commit.
pub fn is_line(text: &[u8]) -> bool {
    memchr::memchr2(b'\n', 0, text).is_none()
}

/// `NAME <EMAIL>` of a user.
fn author(user: &[u8]) -> Vec<u8> {
    let (name, email) = if let Some(at) = memchr::memchr(b'<', user) {
        let (name, rest) = (&user[..at], &user[at + 1..]);
        let name = name.strip_suffix(b" ").unwrap_or(name);
        let (email, after) = match memchr::memchr(b'>', rest) {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &rest[..0]),
        };
        let mut name = clean(name);
        if !after.is_empty() {
            name.extend_from_slice(b" ext:(");
            push_quoted(&mut name, after);
            name.push(b')');
        }
        (clean(&name), clean(email))
    } else if user.contains(&b'@') {
        (clean(user), clean(user))
    } else {
        (clean(user), b"none@none".to_vec())
    };
    [&name, &b" <"[..], &email, b">"].concat()
}

/// A name or an address without the bytes that end one.
fn clean(text: &[u8]) -> Vec<u8> {
    let ends = |byte: &u8, bracket: u8| *byte == b' ' || *byte == bracket;
    let start = text.iter().position(|byte| !ends(byte, b'<')).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !ends(byte, b'>')).map_or(start, |at| at + 1);
    let kept = text.get(start..end).unwrap_or_default();
    kept.iter().map(|byte| if matches!(byte, b'<' | b'>' | b'\n') { b'?' } else { *byte }).collect()
}

/// An integer as Python reads it.
fn integer(text: &[u8]) -> Option<i128> {
    let text = trim(text);
    let (sign, digits) = match text {
        [b'-', digits @ ..] => ("-", digits),
        digits => ("", digits.strip_prefix(b"+").unwrap_or(digits)),
    };
    let groups = digits.split(|byte| *byte == b'_');
    let is_number = |group: &[u8]| !group.is_empty() && group.iter().all(u8::is_ascii_digit);
    if !groups.clone().all(is_number) {
        return None;
    }
    let digits: Vec<u8> = groups.flatten().copied().collect();
    format!("{sign}{}", std::str::from_utf8(&digits).ok()?).parse().ok()
}

/// Seconds east of UTC of a zone like `+0530`.
fn clock_seconds(zone: &[u8]) -> Option<i128> {
    let sign = match zone.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let clock = sign * integer(&zone[1..])?;
    Some(clock.signum() * (clock.abs() / 100 * 3600 + clock.abs() % 100 * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ident(ident: &Ident) -> String {
        String::from_utf8(ident.text()).expect("UTF-8")
    }

    #[test]
    fn users_become_name_and_address() {
        // the output of hg-git 1.2.0
        for (user, expected) in [
            ("Joe", "Joe <none@none>"),
            ("joe@x.org", "joe@x.org <joe@x.org>"),
            ("joe@x.org>", "joe@x.org <joe@x.org>"),
            ("Joe  <joe@x.org>", "Joe <joe@x.org>"),
            ("Joe<joe@x.org>", "Joe <joe@x.org>"),
            ("Joe <joe@x.org", "Joe <joe@x.org>"),
            ("Joe < joe@x.org > ", "Joe ext:(%20) <joe@x.org>"),
            ("Joe <joe@x.org> extra", "Joe ext:(%20extra) <joe@x.org>"),
            ("Joe <joe@x.org>>", "Joe ext:(%3E) <joe@x.org>"),
            ("Joe  <<joe@x.org>>", "Joe ext:(%3E) <joe@x.org>"),
            ("<joe@x.org>", " <joe@x.org>"),
            ("Joe joe@x.org>", "Joe joe@x.org <Joe joe@x.org>"),
            ("A <b> <c@d>", "A ext:(%20%3Cc%40d%3E) <b>"),
            ("Joe > Foo <a@b>", "Joe ? Foo <a@b>"),
            (
                "Joe <joe@x.org> (é a/b~c:d%)",
                "Joe ext:(%20%28%C3%A9%20a/b~c%3Ad%25%29) <joe@x.org>",
            ),
            ("<", " <>"),
            (">", " <none@none>"),
            ("Joe <>", "Joe <>"),
            ("a@b <", "a@b <>"),
            ("Joe ext:(foo) <j@x>", "Joe ext:(foo) <j@x>"),
        ] {
            assert_eq!(
                String::from_utf8(author(user.as_bytes())).as_deref(),
                Ok(expected),
                "{user}"
            );
        }
    }

    #[test]
    fn offsets_become_whole_minutes() {
        for (west_seconds, zone) in [
            (-7200, "+0200"),
            (18000, "-0500"),
            (3601, "-0100"),
            (-3601, "+0101"),
            (-20700, "+0545"),
            (30, "+0000"),
            (-30, "+0001"),
            (3540, "-0059"),
            (-360_000, "+10000"),
        ] {
            let author = Ident::author(b"u", -1, west_seconds, None);
            assert_eq!(ident(&author), format!("u <none@none> -1 {zone}"));
        }
    }

    #[test]
    fn committers_have_zones_of_three_kinds() {
        for (extra, expected) in [
            ("C <c@o> 12 -3600", Some("C <c@o> 12 +0100")),
            ("C <c@o> 12 -530", Some("C <c@o> 12 -0530")),
            ("C <c@o> 12 +0530", Some("C <c@o> 12 +0530")),
            ("C <c@o> 12 +0600", Some("C <c@o> 12 -0010")),
            ("raw -7 0", Some("raw -7 +0000")),
            (" 1_0 00", Some(" 10 +0000")),
            ("C <c@o> 12 530", None),
            ("C <c@o>", None),
            ("C <c@o> x 0", None),
            ("C <c@o> 12 EST", None),
            ("C\nc <c@o> 12 0", Some("C\nc <c@o> 12 +0000")),
        ] {
            let found = Ident::committer(extra.as_bytes()).map(|found| ident(&found));
            assert_eq!(found.as_deref(), expected, "{extra}");
        }
    }

    #[test]
    fn deltas_that_do_not_fit_are_ignored() {
        let with = |delta: &[u8]| ident(&Ident::author(b"Joe <j@x>", 1, 0, Some(delta)));
        // "Joe <j@x>" is 9 bytes
        assert_eq!(with(b"\x09\x0a\x05Joe  \x91\x04\x05"), "Joe  <j@x> 1 +0000");
        assert_eq!(with(b"\x08\x01\x01a"), "Joe <j@x> 1 +0000");
    }
}
