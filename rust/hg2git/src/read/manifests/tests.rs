//! Changes between texts.

use std::collections::BTreeMap;

use parallel::Buffer;
use proptest::prelude::*;
use revlog::{Delta, Flag, SharedText, Tally};

use super::changes::{Base, Changes, ManifestChange, Unusable};
use super::differences::{between, is_aligned, of_delta};

const HEX: [&str; 2] =
    ["7cf5203a514b008b1e2996986ea9627b44d287c1", "56e4157d4de849ae1ffe6c009efc6c84b28667cb"];

type Files = BTreeMap<String, (usize, &'static str)>;

fn line((path, (node, flag)): (&String, &(usize, &str))) -> Vec<u8> {
    format!("{path}\0{}{flag}\n", HEX[*node]).into_bytes()
}

fn manifest(files: &Files) -> Vec<u8> {
    files.iter().flat_map(line).collect()
}

/// Lines for these paths, in this order.
fn of(paths: &[&str]) -> Vec<u8> {
    paths.iter().flat_map(|path| line((&(*path).to_owned(), &(0, "")))).collect()
}

fn shared(bytes: &[u8]) -> SharedText {
    SharedText::new(Buffer::from(bytes.to_vec()), &Tally::default())
}

fn flat(text: &SharedText) -> Vec<u8> {
    text.pieces().flatten().copied().collect()
}

fn named(changes: &Changes) -> Vec<String> {
    let named = changes.iter().map(|change| {
        let sign = if matches!(change, ManifestChange::Remove(_)) { '-' } else { '+' };
        format!("{sign}{}", String::from_utf8_lossy(change.path()))
    });
    named.collect()
}

fn compared(base: &[u8], text: &[u8]) -> Result<Vec<String>, Unusable> {
    let mut changes = Changes::new(Base::Empty);
    between(&shared(base), &shared(text), &mut changes)?;
    Ok(named(&changes))
}

/// Position, number of removed bytes, and inserted bytes.
type Edit = (usize, usize, Vec<u8>);

fn delta_of(edits: &[Edit]) -> Vec<u8> {
    let number = |number: usize| u32::try_from(number).expect("short").to_be_bytes();
    let hunks = edits.iter().map(|(start, gone, data)| {
        [&number(*start)[..], &number(start + gone), &number(data.len()), data].concat()
    });
    hunks.collect::<Vec<_>>().concat()
}

fn changed(base: &[u8], edits: &[Edit]) -> Result<Changes, Unusable> {
    let (base, bytes) = (shared(base), delta_of(edits));
    let delta = Delta::parse(&bytes, base.len()).expect("it fits");
    assert!(is_aligned(&base, &delta));
    let mut changes = Changes::new(Base::Empty);
    of_delta(&base, &delta, &mut changes).map(|()| changes)
}

#[test]
fn only_different_lines_are_changes() {
    let base = of(&["a", "b", "c"]);
    let mut files: Files = [("a".to_owned(), (0, ""))].into();
    files.extend([("aa".to_owned(), (0, "")), ("c".to_owned(), (1, ""))]);
    let all = |base: &[u8], text: &[u8]| compared(base, text).expect("sorted");
    assert_eq!(all(&base, &manifest(&files)), ["+aa", "-b", "+c"]);
    assert_eq!(all(&base, &base), Vec::<String>::new());
    assert_eq!(all(&base, b""), ["-a", "-b", "-c"]);
}

#[test]
fn unsorted_lines_are_refused() {
    for paths in [["b", "a"], ["a", "a"]] {
        let problem = compared(b"", &of(&paths));
        assert!(matches!(problem, Err(Unusable::Order(path)) if path == "a"));
    }
}

#[test]
fn what_cannot_be_read_as_a_line_is_refused() {
    let whole = of(&["a", "b"]);
    for text in [&whole[..whole.len() - 1], b"a\n", b"a\0", b"\0\n", &whole[1..]] {
        assert!(matches!(compared(b"", text), Err(Unusable::Line(_))), "{text:?}");
    }
}

#[test]
fn new_lines_have_to_fit_their_neighbours() {
    let base = of(&["b", "d", "f", "h"]);
    let len = of(&["b"]).len();
    let edit = |at: usize, gone: usize, paths: &[&str]| (at * len, gone * len, of(paths));
    for (edits, refused) in [
        (vec![edit(1, 0, &["c"])], None),
        (vec![edit(1, 0, &["a"])], Some("a")),
        (vec![edit(1, 0, &["b"])], Some("b")),
        (vec![edit(1, 0, &["d"])], Some("d")),
        (vec![edit(1, 0, &["e"])], Some("d")),
        (vec![edit(0, 1, &["z"])], Some("d")),
        (vec![edit(4, 0, &["g"])], Some("g")),
        (vec![edit(4, 0, &["i"])], None),
        (vec![edit(1, 1, &["d", "c"])], Some("c")),
        // two hunks side by side, with and without a line between
        (vec![edit(1, 1, &["c"]), edit(2, 1, &["e"])], None),
        (vec![edit(1, 1, &["e"]), edit(2, 1, &["c"])], Some("c")),
        (vec![edit(1, 1, &["g"]), edit(3, 1, &["h"])], Some("f")),
        (vec![edit(1, 1, &[]), edit(2, 1, &["a"])], Some("a")),
        (vec![edit(1, 2, &[]), edit(3, 1, &["c"])], None),
    ] {
        match (changed(&base, &edits), refused) {
            (Ok(_), None) => {}
            (Err(Unusable::Order(path)), Some(refused)) => assert_eq!(path, refused, "{edits:?}"),
            (other, _) => panic!("{edits:?}: {other:?}"),
        }
    }
}

#[test]
fn new_flags_are_noticed() {
    let base: Files =
        [("a", ""), ("b", "x"), ("c", "l")].map(|(path, flag)| (path.to_owned(), (0, flag))).into();
    for (path, value, is_new) in [
        ("a", Some((1, "")), false),
        ("a", Some((0, "x")), true),
        ("b", Some((1, "x")), false),
        ("b", Some((1, "")), true),
        ("b", Some((1, "l")), true),
        ("b", None, false),
        ("d", Some((1, "")), false),
        ("d", Some((1, "x")), true),
    ] {
        let mut files = base.clone();
        files.remove(path);
        files.extend(value.map(|value| (path.to_owned(), value)));
        let mut changes = Changes::new(Base::Empty);
        let texts = [&base, &files].map(|files| shared(&manifest(files)));
        between(&texts[0], &texts[1], &mut changes).expect("sorted");
        assert_eq!(changes.has_new_flags, is_new, "{path} {value:?}");
    }
}

fn files() -> impl Strategy<Value = Files> {
    let flag = prop_oneof![Just(""), Just("x"), Just("l")];
    proptest::collection::btree_map("[a-c]{1,3}(/[a-c]{1,2})?", (0..2usize, flag), 0..30)
}

/// Files that make a text of many chunks.
fn many_files() -> impl Strategy<Value = Files> {
    (0..3000_u32, 1..7_u32).prop_map(|(count, step)| {
        (0..count).map(|number| (format!("directory/file{:06}", number * step), (0, ""))).collect()
    })
}

/// Edits of many files: file in thousandths, and kind: remove, add or change.
fn edits() -> impl Strategy<Value = Vec<Vec<(usize, u8)>>> {
    proptest::collection::vec(proptest::collection::vec((0..1000_usize, 0..4_u8), 0..6), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_delta_and_a_comparison_say_the_same(base in many_files(), revisions in edits()) {
        let mut files = base;
        let tally = Tally::default();
        let mut text = shared(&manifest(&files));
        for edits in revisions {
            let mut next = files.clone();
            for (place, action) in edits {
                let at = place * files.len() / 1000;
                let path = files.keys().nth(at).cloned().unwrap_or_default();
                match action {
                    0 => { next.remove(&path); }
                    1 => { next.insert(format!("{path}~"), (0, "")); }
                    2 => { next.insert(path, (1, "x")); }
                    _ => { next.insert(path, (1, "")); }
                }
            }
            // an empty path is invalid
            next.remove("");
            let mut hunks: Vec<Edit> = Vec::new();
            let mut start = 0;
            for (path, value) in &files {
                let len = line((path, value)).len();
                let added = format!("{path}~");
                let comes = |path: &String| next.get_key_value(path).map(line).unwrap_or_default();
                let is_new = next.contains_key(&added) && !files.contains_key(&added);
                let data = [comes(path), if is_new { comes(&added) } else { Vec::new() }].concat();
                if data != line((path, value)) {
                    hunks.push((start, len, data));
                }
                start += len;
            }
            let bytes = delta_of(&hunks);
            let delta = Delta::parse(&bytes, text.len()).expect("it fits");
            prop_assert!(is_aligned(&text, &delta));
            let made = text.apply(&delta, &tally);
            if !files.is_empty() {
                prop_assert!(flat(&made) == manifest(&next));
            }
            let [mut told, mut found, mut flatly] = [(); 3].map(|()| Changes::new(Base::Empty));
            of_delta(&text, &delta, &mut told).expect("sorted");
            between(&text, &made, &mut found).expect("sorted");
            between(&shared(&flat(&text)), &shared(&flat(&made)), &mut flatly).expect("sorted");
            for other in [&found, &flatly] {
                prop_assert_eq!(named(&told), named(other));
                prop_assert_eq!(told.has_new_flags, other.has_new_flags);
                prop_assert!(told.iter().eq(other.iter()));
            }
            if files.is_empty() {
                break; // no neighbour for the first file
            }
            (files, text) = (next, made);
        }
    }

    #[test]
    fn changes_lead_from_base_to_text(base in files(), text in files()) {
        let mut changes = Changes::new(Base::Empty);
        between(&shared(&manifest(&base)), &shared(&manifest(&text)), &mut changes).expect("sorted");
        let mut reached = base.clone();
        for change in changes.iter() {
            let path = String::from_utf8_lossy(change.path()).into_owned();
            match change {
                ManifestChange::Remove(_) => prop_assert!(reached.remove(&path).is_some()),
                ManifestChange::Set(line) => {
                    let node = HEX.iter().position(|hex| line.node.to_string() == *hex);
                    let flag = match line.flag {
                        Flag::Regular => "",
                        Flag::Executable => "x",
                        Flag::Symlink => "l",
                    };
                    let value = (node.expect("one of two"), flag);
                    prop_assert_ne!(reached.insert(path, value), Some(value));
                }
            }
        }
        prop_assert_eq!(reached, text);
    }
}
