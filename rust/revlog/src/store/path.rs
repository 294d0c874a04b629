//! Store paths: file names under `.hg/store` of tracked paths.
//!
//! The rules are those of `mercurial/store.py` (`_hybridencode`, `_auxencode`, `_hashencode`):
//! reversible while the result has at most 120 bytes, otherwise a digest with readable parts.

use sha1::{Digest, Sha1};

use crate::node::Node;

/// Longest encoded path before the hashed form is used, in bytes.
const MAX_PATH_LEN: usize = 120;
/// Bytes kept of each directory's name in the hashed form.
const DIR_PREFIX_LEN: usize = 8;
/// Bytes of all kept directories in the hashed form.
const MAX_SHORT_DIRS_LEN: usize = 8 * (DIR_PREFIX_LEN + 1) - 4;

/// Encoding of store paths, given by the requirements of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `store` alone: names are escaped, never hashed.
    Escaped,
    /// `fncache`: long names are hashed.
    Hybrid,
    /// `fncache` and `dotencode`, or `fileindex-v1`: leading dots and spaces are escaped, too.
    DotEncode,
    /// `exp-very-fragile-and-unsafe-plain-store-encoding`: directories end in `_`.
    Plain,
}

impl Encoding {
    /// Encodes `path`, which begins with `data/` or `meta/` and ends in a suffix like `.i`.
    #[must_use]
    pub fn encode(self, path: &[u8]) -> Vec<u8> {
        if self == Self::Plain {
            return mark_directories(path);
        }
        let path = encode_directories(path);
        let escaped = escape(&path, true);
        let dot = match self {
            Self::Escaped => return escaped,
            Self::Hybrid | Self::Plain => false,
            Self::DotEncode => true,
        };
        let plain = mask_components(&escaped, dot).join(&b'/');
        if plain.len() <= MAX_PATH_LEN { plain } else { hashed(&path, dot) }
    }
}

/// Distinguishes directories from revlogs, which end in a letter.
fn mark_directories(path: &[u8]) -> Vec<u8> {
    let Some(rest) = path.strip_prefix(b"data/") else { return path.to_owned() };
    let components: Vec<&[u8]> = rest.split(|&byte| byte == b'/').collect();
    [&b"data/"[..], &components.join(&b"_/"[..])].concat()
}

/// Distinguishes a directory `foo.i` from the index of file `foo`.
fn encode_directories(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for (position, component) in path.split(|&byte| byte == b'/').enumerate() {
        if position > 0 {
            let clashes = [&b".hg"[..], b".i", b".d"].iter().any(|suffix| out.ends_with(suffix));
            out.extend_from_slice(if clashes { b".hg/" } else { b"/" });
        }
        out.extend_from_slice(component);
    }
    out
}

/// Escapes capitals and bytes that file systems refuse: `_x` if reversible, otherwise lower case.
fn escape(path: &[u8], reversible: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() * 2);
    for &byte in path {
        match byte {
            b'A'..=b'Z' => {
                if reversible {
                    out.push(b'_');
                }
                out.push(byte.to_ascii_lowercase());
            }
            b'_' if reversible => out.extend_from_slice(b"__"),
            0..=31 | 126..=255 | b'\\' | b':' | b'*' | b'?' | b'"' | b'<' | b'>' | b'|' => {
                push_escaped(&mut out, byte);
            }
            _ => out.push(byte),
        }
    }
    out
}

fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(format!("~{byte:02x}").as_bytes());
}

/// Escapes components that Windows reserves (`aux`, `com1.txt`), or that cannot be at its end (`.`,
/// space).
fn mask_components(path: &[u8], dot: bool) -> Vec<Vec<u8>> {
    path.split(|&byte| byte == b'/').map(|component| mask(component, dot)).collect()
}

fn mask(component: &[u8], dot: bool) -> Vec<u8> {
    let Some(&first) = component.first() else { return Vec::new() };
    let mut out = Vec::with_capacity(component.len() + 4);
    let stem = component.split(|&byte| byte == b'.').next().unwrap_or_default();
    if dot && (first == b'.' || first == b' ') {
        push_escaped(&mut out, first);
        out.extend_from_slice(&component[1..]);
    } else if is_reserved(stem) {
        out.extend_from_slice(&component[..2]);
        push_escaped(&mut out, component[2]);
        out.extend_from_slice(&component[3..]);
    } else {
        out.extend_from_slice(component);
    }
    if let Some(&last) = out.last()
        && (last == b'.' || last == b' ')
    {
        out.pop();
        push_escaped(&mut out, last);
    }
    out
}

fn is_reserved(stem: &[u8]) -> bool {
    match stem {
        b"aux" | b"con" | b"prn" | b"nul" => true,
        [b'c', b'o', b'm', digit] | [b'l', b'p', b't', digit] => (b'1'..=b'9').contains(digit),
        _ => false,
    }
}

/// Hashed form: `dh/`, short directories, beginning of the name, digest of the path, extension.
fn hashed(path: &[u8], dot: bool) -> Vec<u8> {
    let digest = Node::from_bytes(Sha1::digest(path).into()).to_string();
    let lowered = escape(path.get(5..).unwrap_or_default(), false);
    let components = mask_components(&lowered, dot);
    let (name, directories) = components.split_last().expect("split gives at least one");
    let mut short: Vec<u8> = Vec::new();
    for directory in directories {
        let mut kept = directory[..directory.len().min(DIR_PREFIX_LEN)].to_vec();
        if let Some(last @ (b'.' | b' ')) = kept.last_mut() {
            *last = b'_';
        }
        let with_kept = if short.is_empty() { kept.len() } else { short.len() + 1 + kept.len() };
        if !short.is_empty() {
            if with_kept > MAX_SHORT_DIRS_LEN {
                break;
            }
            short.push(b'/');
        }
        short.extend_from_slice(&kept);
    }
    if !short.is_empty() {
        short.push(b'/');
    }
    let extension = extension_of(name);
    let fixed_len = 3 + short.len() + digest.len() + extension.len();
    let filler = &name[..name.len().min(MAX_PATH_LEN.saturating_sub(fixed_len))];
    [b"dh/", short.as_slice(), filler, digest.as_bytes(), extension].concat()
}

/// Extension as of `os.path.splitext`: from the last dot on, unless only dots precede it.
fn extension_of(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) if name[..dot].iter().any(|&byte| byte != b'.') => &name[dot..],
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot_encoded(path: &str) -> String {
        String::from_utf8(Encoding::DotEncode.encode(path.as_bytes())).expect("ascii")
    }

    #[test]
    fn the_examples_of_store_py_hold() {
        for (path, encoded) in [
            ("data/foo.i/bla.i", "data/foo.i.hg/bla.i"),
            ("data/foo.i.hg/bla.i", "data/foo.i.hg.hg/bla.i"),
            ("data/hi:world?/HELLO.i", "data/hi~3aworld~3f/_h_e_l_l_o.i"),
            ("data/.foo/aux.txt/txt.aux/con/x.i", "data/~2efoo/au~78.txt/txt.aux/co~6e/x.i"),
            ("data/lpt9.lpt4/conprn/com0/foo./x.i", "data/lp~749.lpt4/conprn/com0/foo~2e/x.i"),
            ("data/ .foo. /x.i", "data/~20.foo.~20/x.i"),
            ("data/.i", "data/~2ei"),
        ] {
            assert_eq!(dot_encoded(path), encoded);
        }
    }

    #[test]
    fn without_dotencode_leading_dots_stay() {
        assert_eq!(Encoding::Hybrid.encode(b"data/.foo/aux.i"), b"data/.foo/au~78.i");
        assert_eq!(Encoding::Escaped.encode(b"data/.foo/aux.i"), b"data/.foo/aux.i");
    }

    #[test]
    fn long_paths_are_hashed() {
        // from the doctests and test-hybridencode.py of Mercurial
        let path = "data/aux.bla/bla.aux/prn/PRN/lpt/com3/nul/coma/foo.NUL/normal.c.i";
        assert_eq!(
            dot_encoded(path),
            "data/au~78.bla/bla.aux/pr~6e/_p_r_n/lpt/co~6d3/nu~6c/coma/foo._n_u_l/normal.c.i"
        );
        let long = "data/AUX/SECOND/X.PRN/FOURTH/FI:FTH/SIXTH/SEVENTH/EIGHTH/NINETH/TENTH/\
                    ELEVENTH/LOREMIPSUM.TXT.i";
        assert_eq!(
            dot_encoded(long),
            "dh/au~78/second/x.prn/fourth/fi~3afth/sixth/seventh/eighth/nineth/tenth/\
             loremia20419e358ddff1bf8751e38288aff1d7c32ec05.i"
        );
    }
}
