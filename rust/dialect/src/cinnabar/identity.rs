//! Author and committer lines of the cinnabar dialect.
//!
//! The rules are git-cinnabar's (`src/hg_data.rs` of 0.7); docs/formats/cinnabar.rst lists them.
//! Bytes are not decoded. Only `<` and `>` are removed.

/// A date as Mercurial stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    /// Seconds since 1970, UTC.
    pub seconds: i128,
    /// Seconds west of UTC.
    pub offset_seconds: i32,
}

/// Appends `NAME <EMAIL> SECONDS ZONE` for a Mercurial user.
pub(crate) fn push_ident(out: &mut Vec<u8>, user: &[u8], date: Date) {
    let (name, email) = split_user(user);
    push_without_brackets(out, name);
    out.extend_from_slice(b" <");
    push_without_brackets(out, email);
    out.extend_from_slice(b"> ");
    push_date(out, date);
}

/// Appends the committer of a `committer` extra. Without that extra, the author is the committer.
///
/// If the extra ends in `>`, it is a user without a date, and the date is the changeset's. An extra
/// that is neither a user nor a user with a date is used as a user. git-cinnabar cannot convert it.
pub(crate) fn push_committer(out: &mut Vec<u8>, extra: Option<&[u8]>, user: &[u8], date: Date) {
    match extra {
        None => push_ident(out, user, date),
        Some(extra) => match split_dated_user(extra) {
            Some((user, date)) => push_ident(out, user, date),
            None => push_ident(out, extra, date),
        },
    }
}

/// Splits a user into the name before the first `<` and the address before the next `>`.
///
/// At most one space between them is dropped, and everything after the `>`.
fn split_user(user: &[u8]) -> (&[u8], &[u8]) {
    let opening = user.iter().position(|&byte| byte == b'<');
    let bracketed = opening.and_then(|start| {
        let closing = user[start..].iter().position(|&byte| byte == b'>')?;
        Some((&user[..start], &user[start + 1..start + closing]))
    });
    match bracketed {
        Some((name, email)) => (name.strip_suffix(b" ").unwrap_or(name), email),
        None if user.contains(&b'@') => (b"", user),
        None => (user, b""),
    }
}

fn push_without_brackets(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().filter(|byte| !matches!(byte, b'<' | b'>')));
}

/// Appends `SECONDS +hhmm`.
///
/// git has no dates before 1970, so an earlier date becomes 0. A date too late for git-cinnabar
/// becomes the latest date that git's own tools accept.
fn push_date(out: &mut Vec<u8>, date: Date) {
    let sign = if date.offset_seconds > 0 { '-' } else { '+' };
    let minutes = date.offset_seconds.unsigned_abs() / 60;
    let (hours, minutes) = (minutes / 60, minutes % 60);
    let last = u64::MAX / 2;
    let seconds = u64::try_from(date.seconds.max(0)).unwrap_or(last);
    out.extend_from_slice(format!("{seconds} {sign}{hours:02}{minutes:02}").as_bytes());
}

/// A Mercurial user and date, read from an author or committer line of git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// The user.
    pub user: Vec<u8>,
    /// Seconds since 1970, in digits.
    pub seconds: &'a [u8],
    /// Seconds west of UTC.
    pub offset_seconds: i32,
}

impl Who<'_> {
    /// The value of a `committer` extra.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        let Self { user, seconds, offset_seconds } = self;
        let offset_seconds = offset_seconds.to_string();
        [user, *seconds, offset_seconds.as_bytes()].join(&b' ')
    }
}

/// Reads the value of an author or committer line of a commit; `None` if it has no date.
///
/// Any line is accepted. Only lines that this dialect writes survive the round trip.
#[must_use]
pub fn read_back(ident: &[u8]) -> Option<Who<'_>> {
    let mut parts = ident.rsplitn(3, |&byte| byte == b' ');
    let zone: i32 = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let seconds = parts.next()?;
    let user = match split_user(parts.next()?) {
        (b"", email) => [b"<", email, b">"].concat(),
        (name, b"") => name.to_vec(),
        (name, email) => [name, b" <", email, b">"].concat(),
    };
    let clock = zone.checked_abs()?;
    let offset_seconds = (clock / 100).checked_mul(3600)?.checked_add(clock % 100 * 60)?;
    Some(Who { user, seconds, offset_seconds: -zone.signum() * offset_seconds })
}

/// Splits `USER SECONDS ZONE` at the last two spaces.
fn split_dated_user(extra: &[u8]) -> Option<(&[u8], Date)> {
    if extra.ends_with(b">") {
        return None;
    }
    let mut parts = extra.rsplitn(3, |&byte| byte == b' ');
    let zone = std::str::from_utf8(parts.next()?).ok()?;
    let seconds = std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok()?;
    let user = parts.next()?;
    Some((user, Date { seconds: seconds.into(), offset_seconds: zone_seconds(zone)? }))
}

/// Seconds west of UTC, from a zone in Mercurial's form (`-3600`) or in git's (`+0100`).
fn zone_seconds(zone: &str) -> Option<i32> {
    let value: i32 = zone.parse().ok().filter(|&value| value != i32::MIN)?;
    let looks_like_clock = value > -1800
        && !value.unsigned_abs().is_multiple_of(900)
        && (value.unsigned_abs() % 100).is_multiple_of(15)
        && zone.starts_with("-1");
    if zone.starts_with('+') || zone.starts_with("-0") || looks_like_clock {
        let clock = value.checked_abs()?;
        let seconds = (clock / 100).checked_mul(3600)?.checked_add(clock % 100 * 60)?;
        Some(if zone.starts_with('-') { seconds } else { -seconds })
    } else {
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ident(user: &str, date: Date) -> String {
        let mut out = Vec::new();
        push_ident(&mut out, user.as_bytes(), date);
        String::from_utf8(out).expect("ascii")
    }

    #[test]
    fn users_become_name_and_address() {
        // the output of git-cinnabar 0.7.5
        for (user, expected) in [
            ("Foo Bar <foo@bar.org>", "Foo Bar <foo@bar.org>"),
            ("foo", "foo <>"),
            ("foo@bar", " <foo@bar>"),
            ("<foo@bar>", " <foo@bar>"),
            ("<>", " <>"),
            ("Foo Bar<foo@bar>", "Foo Bar <foo@bar>"),
            ("Foo  Bar  <foo@bar>", "Foo  Bar  <foo@bar>"),
            ("Foo <foo@bar>, Baz <b@z>", "Foo <foo@bar>"),
            ("Foo (foo@bar)", " <Foo (foo@bar)>"),
            ("Foo <foo", "Foo foo <>"),
            ("foo>", "foo <>"),
            ("a > b <c@d>", "a  b <c@d>"),
            ("Foo <a<b@c>", "Foo <ab@c>"),
            ("\"Foo <foo@bar>\"", "\"Foo <foo@bar>"),
            ("<Foo> foo@bar", " <Foo>"),
            ("foo <>", "foo <>"),
            ("<", " <>"),
            ("@", " <@>"),
            ("no email <  >", "no email <  >"),
            ("tab\t<x@y>", "tab\t <x@y>"),
            ("foo <bar@baz", " <foo bar@baz>"),
            ("bar@baz>", " <bar@baz>"),
            ("  Foo <f@x> ", "  Foo <f@x>"),
        ] {
            let date = Date { seconds: 7, offset_seconds: 0 };
            assert_eq!(ident(user, date), format!("{expected} 7 +0000"), "{user}");
        }
    }

    #[test]
    fn offsets_become_zones() {
        for (offset_seconds, zone) in [
            (0, "+0000"),
            (3600, "-0100"),
            (-3600, "+0100"),
            (-19800, "+0530"),
            (12600, "-0330"),
            (1, "-0000"),
            (-59, "+0000"),
            (60, "-0001"),
            (3599, "-0059"),
            (5417, "-0130"),
            (-86399, "+2359"),
            (360_000, "-10000"),
        ] {
            assert_eq!(ident("u", Date { seconds: 1, offset_seconds }), format!("u <> 1 {zone}"));
        }
    }

    #[test]
    fn a_date_that_git_cannot_have_becomes_the_nearest() {
        for (seconds, expected) in [
            (-5, "0"),
            (i128::from(u64::MAX), "18446744073709551615"), // as git-cinnabar does
            (1 << 64, "9223372036854775807"),
            (i128::MAX, "9223372036854775807"),
        ] {
            let made = ident("u", Date { seconds, offset_seconds: 0 });
            assert_eq!(made, format!("u <> {expected} +0000"));
        }
    }

    #[test]
    fn committer_extras_name_user_and_perhaps_date() {
        for (extra, expected) in [
            ("C O <c@o> 1234567890 -3600", "C O <c@o> 1234567890 +0100"),
            ("C O <c@o> 1234567890 +0100", "C O <c@o> 1234567890 +0100"),
            ("C O <c@o> 12 -1100", "C O <c@o> 12 -1100"),
            ("C O <c@o> 12 -0130", "C O <c@o> 12 -0130"),
            ("C O <c@o> 12 -1800", "C O <c@o> 12 +0030"),
            ("C O <c@o>", "C O <c@o> 5 -0001"),
            ("C O <c@o> 18446744073709551615 0", "C O <c@o> 18446744073709551615 +0000"),
            ("C O <c@o> 12 +0", "C O <c@o> 12 +0000"),
            // git-cinnabar cannot convert these
            ("no date", "no date <> 5 -0001"),
            ("", " <> 5 -0001"),
            ("C O <c@o> -12 0", "C O <c@o> 5 -0001"),
            ("C O <c@o> 12 EST", "C O <c@o> 5 -0001"),
            ("C O <c@o> 12 -2147483648", "C O <c@o> 5 -0001"),
        ] {
            let mut out = Vec::new();
            let date = Date { seconds: 5, offset_seconds: 60 };
            push_committer(&mut out, Some(extra.as_bytes()), b"author", date);
            assert_eq!(String::from_utf8(out).expect("ascii"), expected, "{extra}");
        }
    }
}
