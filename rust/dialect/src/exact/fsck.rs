//! Commit objects that git's own receive check accepts: `fsck_commit` in its `fsck.c`.

use super::CommitFields;
use super::octopus::MOST_LINKED;
use crate::reason::RefusedFor;
use crate::{JudgedCommit, Reason};

/// Judges a commit object whose changeset has the extras of this module.
#[must_use]
pub fn judge(content: &[u8]) -> JudgedCommit<'_> {
    JudgedCommit::by(content, refusal)
}

fn refusal<'a>(content: &'a [u8], judged: &mut JudgedCommit<'a>) -> Result<(), RefusedFor<'a>> {
    let fields = CommitFields::of(content);
    let mut lines = fields.head.split(|&byte| byte == b'\n');
    let [author, committer] = judged.read(content.len(), &mut lines)?;
    if !fields.is_ended || memchr::memchr(0, fields.head).is_some() {
        return Err((Reason::MalformedCommit, b""));
    }
    check_identity(author)?;
    check_identity(committer)?;
    if judged.parents.len() > MOST_LINKED {
        return Err((Reason::Octopus, b""));
    }
    Ok(())
}

/// `fsck_ident`: `NAME SP <MAIL> SP SECONDS SP ZONE`.
fn check_identity(value: &[u8]) -> Result<(), RefusedFor<'_>> {
    let bracket = |bytes: &[u8]| memchr::memchr2(b'<', b'>', bytes).unwrap_or(bytes.len());
    let (identity, date) = ((Reason::Identity, value), (Reason::Date, value));
    let (name, rest) = value.split_at(bracket(value));
    let rest = rest.strip_prefix(b"<").filter(|_| name.ends_with(b" ")).ok_or(identity)?;
    let rest = rest[bracket(rest)..].strip_prefix(b"> ").ok_or(identity)?;
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let blanks = rest.iter().take_while(|byte| is_blank(byte)).count();
    let digits = rest[blanks..].strip_prefix(b"+").unwrap_or(&rest[blanks..]);
    let end = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, zone) = digits.split_at(end);
    let is_padded = rest.starts_with(b"0") && rest.get(1) != Some(&b' ');
    // git refuses dates that exceed the time of its system
    let seconds = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i64>().ok());
    let is_zone = matches!(zone, [b' ', b'+' | b'-', digits @ ..]
        if digits.len() == 4 && digits.iter().all(u8::is_ascii_digit));
    if seconds.is_none() || is_padded || !is_zone { Err(date) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MOST_COMMIT_BYTES;

    const TREE: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n";
    const PLAIN: &str = "A U <a@x> 12 +0100";

    fn reason(content: &str) -> Option<Reason> {
        judge(content.as_bytes()).refused.map(|(reason, _)| reason)
    }

    #[test]
    fn commits_that_git_accepts() {
        for rest in [
            "\n\nm",
            "\n",
            "\ngpgsig x\n y\n\nm",
            "\nencoding x\nno-value\n odd\nauthor twice\n\n",
            "\n\nNUL \0",
        ] {
            assert_eq!(reason(&format!("{TREE}author {PLAIN}\ncommitter {PLAIN}{rest}")), None);
        }
        let upper = TREE.to_ascii_uppercase().replace("TREE", "tree");
        assert_eq!(reason(&format!("{upper}author {PLAIN}\ncommitter {PLAIN}\n\n")), None);
        for odd in [
            "name@x <> 1 +0000",
            " <> 0 +0000",
            "A <a@x>  1 -0000",
            "A <a@x> +1 +9999",
            "A\\B <a\\@x> 1 +0025",
            "  A  <a b> 9223372036854775807 +0060",
        ] {
            assert_eq!(reason(&format!("{TREE}author {odd}\ncommitter {odd}\n\n")), None, "{odd}");
        }
    }

    #[test]
    fn commits_that_git_refuses() {
        for (odd, expected) in [
            ("<a@x> 1 +0000", Reason::Identity),
            ("A<a@x> 1 +0000", Reason::Identity),
            ("A > <a@x> 1 +0000", Reason::Identity),
            ("A <a@x 1 +0000", Reason::Identity),
            ("A <a<@x> 1 +0000", Reason::Identity),
            ("A <a@x>1 +0000", Reason::Identity),
            ("A <a@x> b 1 +0000", Reason::Date),
            ("A <a@x> 01 +0000", Reason::Date),
            ("A <a@x> -1 +0000", Reason::Date),
            ("A <a@x> 9223372036854775808 +0000", Reason::Date),
            ("A <a@x> 1 +051800", Reason::Date),
            ("A <a@x> 1 0000", Reason::Date),
            ("A <a@x> 1", Reason::Date),
            ("A <a@x>  +0000", Reason::Date),
            ("A\0 <a@x> 1 +0000", Reason::MalformedCommit),
        ] {
            let content = format!("{TREE}author {PLAIN}\ncommitter {odd}\n\n");
            assert_eq!(reason(&content), Some(expected), "{odd:?}");
        }
        let whole = format!("{TREE}author {PLAIN}\ncommitter {PLAIN}\n");
        for cut in 0..whole.len() {
            assert!(reason(&whole[..cut]).is_some(), "{cut}");
        }
        let twice = format!("{TREE}author {PLAIN}\nauthor {PLAIN}\ncommitter {PLAIN}\n\n");
        assert_eq!(reason(&twice), Some(Reason::MalformedCommit));
        let long = whole + "\n" + &"x".repeat(MOST_COMMIT_BYTES);
        assert_eq!(reason(&long), Some(Reason::CommitSize));
    }
}
