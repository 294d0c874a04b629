//! Comparison of our hunks with git's, and application of patches.

use std::fs;
use std::process::Command;

use proptest::prelude::*;

use super::*;

/// Two texts.
type Pair = (Vec<u8>, Vec<u8>);

/// The hunks of `git diff` for each pair, with flags that select git-cinnabar's algorithm.
fn git_hunks(pairs: &[Pair]) -> Vec<Vec<Hunk>> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    for side in ["a", "b"] {
        fs::create_dir(path.join(side)).expect("a directory");
    }
    for (number, (before, after)) in pairs.iter().enumerate() {
        // git's output does not distinguish empty files from missing ones
        fs::write(path.join(format!("a/{number}")), before).expect("a file");
        fs::write(path.join(format!("b/{number}")), after).expect("a file");
    }
    let done = Command::new("git")
        .args(["diff", "--no-index", "-a", "-U0", "--no-color", "--no-ext-diff", "--no-textconv"])
        .args(["--no-renames", "--no-indent-heuristic", "--diff-algorithm=myers"])
        .args(["--inter-hunk-context=0", "--src-prefix=", "--dst-prefix=", "a", "b"])
        .current_dir(path)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", path)
        .env_remove("GIT_DIR")
        .output()
        .expect("git is installed");
    assert!(matches!(done.status.code(), Some(0 | 1)), "git diff: {}", done.status);
    let mut hunks = vec![Vec::new(); pairs.len()];
    let mut number = 0;
    for line in done.stdout.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        if let Some(names) = line.strip_prefix("diff --git a/") {
            number = names.split(' ').next().and_then(|name| name.parse().ok()).expect("a number");
        } else if let Some(ranges) = line.strip_prefix("@@ -") {
            let (before, rest) = ranges.split_once(" +").expect("two ranges");
            let after = rest.split(' ').next().expect("a range");
            hunks[number].push(Hunk { before: range(before), after: range(after) });
        }
    }
    hunks
}

/// Parses `START,COUNT`, or `START` for one line.
///
/// Lines count from 1. With a count of 0, the range is empty and follows line `START`.
fn range(range: &str) -> Range<usize> {
    let (start, count) = range.split_once(',').unwrap_or((range, "1"));
    let (start, count): (usize, usize) =
        (start.parse().expect("a number"), count.parse().expect("a number"));
    let start = if count == 0 { start } else { start - 1 };
    start..start + count
}

/// Applies a patch.
fn apply(before: &[u8], patch: &[u8]) -> Vec<u8> {
    let number = |digits: &[u8]| -> usize {
        std::str::from_utf8(digits).expect("ascii").parse().expect("a number")
    };
    let mut text = Vec::new();
    let mut at = 0;
    for hunk in patch.split(|byte| *byte == 0) {
        let mut parts = hunk.splitn(3, |byte| *byte == b',');
        let mut part = || parts.next().expect("three parts");
        let (start, end, mut data) = (number(part()), number(part()), part());
        text.extend_from_slice(&before[at..start]);
        while let Some((&byte, rest)) = data.split_first() {
            if byte == b'%' {
                let digits = std::str::from_utf8(&rest[..2]).expect("ascii");
                text.push(u8::from_str_radix(digits, 16).expect("two digits"));
                data = &rest[2..];
            } else {
                assert!(byte.is_ascii_alphanumeric());
                text.push(byte);
                data = rest;
            }
        }
        at = end;
    }
    text.extend_from_slice(&before[at..]);
    text
}

fn check(pairs: &[Pair]) -> Result<(), TestCaseError> {
    for ((before, after), expected) in pairs.iter().zip(git_hunks(pairs)) {
        let found = hunks(before, after);
        prop_assert!(
            found == expected,
            "{:?}\n{:?}\nours {:?}\ngit  {:?}",
            String::from_utf8_lossy(before),
            String::from_utf8_lossy(after),
            found,
            expected
        );
        match patch(before, after) {
            None => prop_assert_eq!(before, after),
            Some(patch) => prop_assert_eq!(&apply(before, &patch), after),
        }
    }
    Ok(())
}

/// A text of lines. The last line may lack its line feed.
fn text(lines: &[u32], is_whole: bool) -> Vec<u8> {
    let mut text: Vec<u8> =
        lines.iter().flat_map(|line| format!("src/{line:x}\n").into_bytes()).collect();
    if !is_whole {
        text.pop();
    }
    text
}

fn is_whole() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.7)
}

/// Two unrelated texts of a few different lines.
fn few_distinct() -> impl Strategy<Value = Pair> {
    let lines = |kinds| prop::collection::vec(0..kinds, 0..80);
    let both = (1_u32..8).prop_flat_map(move |kinds| (lines(kinds), lines(kinds)));
    (both, is_whole(), is_whole())
        .prop_map(|((a, b), whole_a, whole_b)| (text(&a, whole_a), text(&b, whole_b)))
}

/// A text and an edited copy of it.
fn edited(longest: usize, most_edits: usize) -> impl Strategy<Value = Pair> {
    let kinds = prop_oneof![Just(3_u32), Just(20), Just(1000), Just(u32::MAX)];
    let lines = kinds.prop_flat_map(move |kinds| prop::collection::vec(0..kinds, 0..longest));
    let edit = (0_u8..5, any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_usize..30);
    let edits = prop::collection::vec(edit, 0..most_edits);
    (lines, edits, is_whole(), is_whole()).prop_map(|(before, edits, whole_a, whole_b)| {
        let mut after = before.clone();
        for (kind, from, to, count) in edits {
            if after.is_empty() {
                after.push(7);
            }
            let (from, to) = (from.index(after.len()), to.index(after.len()));
            let end = after.len().min(from + count);
            match kind {
                0 => drop(after.drain(from..end)),
                1 => after.swap(from, to),
                2 => after[from] = after[to] / 2 + 1,
                3 => {
                    let moved: Vec<_> = after.drain(from..end).collect();
                    let to = to.min(after.len());
                    after.splice(to..to, moved);
                }
                _ => {
                    let copied = after[from..end].to_vec();
                    after.splice(to..to, copied);
                }
            }
        }
        (text(&before, whole_a), text(&after, whole_b))
    })
}

/// Sorted lines, and the same lines in another order or with a few moved.
fn permuted(longest: u32) -> impl Strategy<Value = Pair> {
    let shuffled = (0..longest).prop_flat_map(|len| Just((0..len).collect()).prop_shuffle());
    let blocks = (0..longest, 2..40_u32).prop_flat_map(|(len, parts)| {
        let size = (len / parts).max(1) as usize;
        let lines: Vec<u32> = (0..len).collect();
        let parts: Vec<Vec<u32>> = lines.chunks(size).map(<[u32]>::to_vec).collect();
        Just(parts).prop_shuffle().prop_map(|parts| parts.concat())
    });
    let doubled = (0..longest).prop_flat_map(|len| {
        Just((0..len).map(|line| line / 2).collect::<Vec<u32>>()).prop_shuffle()
    });
    (prop_oneof![shuffled, blocks, doubled], is_whole(), is_whole()).prop_map(
        |(lines, whole_a, whole_b): (Vec<u32>, _, _)| {
            let mut sorted = lines.clone();
            sorted.sort_by_key(|line| format!("{line:x}"));
            (text(&sorted, whole_a), text(&lines, whole_b))
        },
    )
}

/// Texts of the same long pieces at different places, with frequent lines between them.
///
/// The heuristics of xdiff end such searches early, and miss the shortest diff.
fn composed() -> impl Strategy<Value = Pair> {
    let piece = prop::collection::vec(0_u32..400, 22..45);
    let between = prop::collection::vec(0_u32..12, 1..25);
    let piece = prop_oneof![piece, between];
    let part = || (any::<prop::sample::Index>(), 0_u8..100);
    let parts = prop::collection::vec((part(), part()), 80..250);
    (prop::collection::vec(piece, 10..40), parts, 20_u8..90).prop_map(|(pieces, parts, same)| {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for ((one, chance), (other, _)) in parts {
            before.extend_from_slice(&pieces[one.index(pieces.len())]);
            let chosen = if chance < same { one } else { other };
            after.extend_from_slice(&pieces[chosen.index(pieces.len())]);
        }
        (text(&before, true), text(&after, true))
    })
}

/// Runs of lines that only one text has, and of lines that the other has very often.
fn discarded() -> impl Strategy<Value = Pair> {
    let run = (0_u8..8, 1_u32..70);
    let runs = || prop::collection::vec(run.clone(), 5..40);
    (runs(), runs()).prop_map(|(before, after)| {
        let lines = |runs: Vec<(u8, u32)>, own: u32| {
            let mut next = own;
            let mut lines = Vec::new();
            for (kind, len) in runs {
                let len = if kind == 7 { 1 } else { len };
                for _ in 0..len {
                    next += 1;
                    lines.push(match kind {
                        0..4 => next,
                        4..7 => u32::from(kind) % 2,
                        _ => 1000 + next % 1000,
                    });
                }
            }
            lines
        };
        (text(&lines(before, 10_000), true), text(&lines(after, 20_000), true))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 200, ..Default::default() })]

    #[test]
    fn texts_of_few_lines_differ_as_git_says(
        pairs in prop::collection::vec(few_distinct(), 300)
    ) {
        check(&pairs)?;
    }

    #[test]
    fn edited_texts_differ_as_git_says(
        pairs in prop::collection::vec(edited(600, 60), 200)
    ) {
        check(&pairs)?;
    }

    #[test]
    fn composed_texts_differ_as_git_says(
        pairs in prop::collection::vec(composed(), 60)
    ) {
        check(&pairs)?;
    }

    #[test]
    fn texts_of_discarded_lines_differ_as_git_says(
        pairs in prop::collection::vec(discarded(), 100)
    ) {
        check(&pairs)?;
    }

    #[test]
    fn permuted_lists_differ_as_git_says(pairs in prop::collection::vec(permuted(900), 100)) {
        check(&pairs)?;
    }

    #[test]
    fn long_lists_differ_as_git_says(
        permuted in prop::collection::vec(permuted(12_000), 3),
        edited in prop::collection::vec(edited(12_000, 900), 3),
    ) {
        check(&permuted)?;
        check(&edited)?;
    }
}

#[test]
fn hunks_are_shrunk_and_encoded() {
    // git-cinnabar's own tests of its bytediff()
    let patched = |before: &[u8], after: &[u8]| {
        patch(before, after).map(|patch| String::from_utf8(patch).expect("ascii"))
    };
    assert_eq!(
        patched(b"foo\nbar\nbaz\nqux", b"foo\nbr\nbaz\nququx").as_deref(),
        Some("5,6,\x0014,14,qu")
    );
    assert_eq!(patched(b"a\n", b"a\n"), None);
    assert_eq!(patched(b"", b"a b\xff").as_deref(), Some("0,0,a%20b%FF"));
    assert_eq!(patched(b"aaa", b"aa").as_deref(), Some("2,3,"));
    // and a line feed of a duplicate
    assert_eq!(patched(b"x\n\ntext\n", b"x\n\ntext").as_deref(), Some("7,8,"));
}

#[test]
fn equal_ends_are_cut_off_as_git_does() {
    // groups do not slide over trimmed ends
    let line = "0123456789abcde\n";
    let pairs: Vec<Pair> = [63, 64, 65, 128, 129, 200]
        .map(|count| (line.repeat(count).into_bytes(), line.repeat(count + 1).into_bytes()))
        .to_vec();
    let unbroken = vec![b'x'; 5000];
    let longer = [b"y".as_slice(), &unbroken].concat();
    let all = [pairs, vec![(unbroken, longer)]].concat();
    check(&all).expect("as git says");
}

/// Texts of about `count` lines that are expensive to compare.
fn hostile(count: u32) -> Vec<Pair> {
    let forward: Vec<u32> = (0..count).collect();
    let backward: Vec<u32> = (0..count).rev().collect();
    let same = vec![5; count as usize];
    let fewer = vec![5; count as usize * 3 / 4];
    let mut broken = same.clone();
    broken[count as usize / 3] = 6;
    broken[count as usize / 2] = 7;
    let every = |step: usize| -> Vec<u32> {
        (0..count).map(|line| if (line as usize).is_multiple_of(step) { line } else { 1 }).collect()
    };
    let turning = |kinds: u32, by: u32| -> Vec<u32> {
        (0..count).map(|line| (line + by + line / 1000) % kinds).collect()
    };
    let rotated = [&forward[count as usize / 3..], &forward[..count as usize / 3]].concat();
    let folded: Vec<u32> = (0..count).map(|line| line.min(count - line)).collect();
    [
        (&forward, &backward),
        (&forward, &rotated),
        (&same, &fewer),
        (&fewer, &same),
        (&same, &broken),
        (&broken, &fewer),
        (&every(2), &every(3)),
        (&every(7), &every(11)),
        (&turning(2, 0), &turning(2, 1)),
        (&turning(3, 0), &turning(5, 1)),
        (&turning(40, 0), &turning(41, 7)),
        (&forward, &folded),
        (&folded, &same),
    ]
    .map(|(a, b)| (text(a, true), text(b, true)))
    .to_vec()
}

#[test]
fn hostile_lists_differ_as_git_says() {
    for count in [200, 6000, 50_000] {
        check(&hostile(count)).expect("as git says");
    }
}
