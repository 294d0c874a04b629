use std::collections::BTreeMap;

use gitpack::Oid;
use gitpack::tree::Mode;
use proptest::prelude::*;

use super::*;
use crate::metadata::MANIFEST_TREES;
use crate::objects::directory::TrackedDirectory;
use crate::read::files::FileId;

fn entry(names: &mut Names, name: u32, file: u32) -> DirectoryEntry {
    names.number(format!("{name:05}").as_bytes());
    let target = EntryTarget::File(FileId(file), Mode::FILE);
    DirectoryEntry::new(names, format!("{name:05}").as_bytes(), target)
}

fn is_shared(leaf: &Arc<Leaf>, entries: &DirectoryEntries) -> bool {
    entries.leaves().iter().any(|other| Arc::ptr_eq(leaf, other))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn edited_entries_are_those_of_a_map(
        start in 0..1500u32,
        edits in proptest::collection::vec(
            (0..1600u32, 0..300u32, proptest::option::of(0..9u32)), 1..12),
    ) {
        let mut names = Names::default();
        let mut expected: BTreeMap<u32, u32> = (0..start).map(|name| (name, 0)).collect();
        let list = expected.iter().map(|(name, file)| entry(&mut names, *name, *file));
        let list = list.collect();
        let mut entries = DirectoryEntries::from_vec(list);
        for (first, count, file) in edits {
            let mut edit = Edit::new(entries.leaves());
            for name in first..first + count {
                let entry = entry(&mut names, name, file.unwrap_or(0));
                let digits = format!("{name:05}");
                let found = edit.seek(&names, digits.as_bytes(), false);
                prop_assert_eq!(found.is_some(), expected.contains_key(&name));
                if found.is_some() {
                    edit.skip();
                }
                match file {
                    Some(file) => {
                        edit.push(entry);
                        expected.insert(name, file);
                    }
                    None => drop(expected.remove(&name)),
                }
            }
            entries = edit.finish().0;
            let read = entries.iter().map(|entry| match entry.target {
                EntryTarget::File(FileId(file), _) => (names.get(entry.name).to_vec(), file),
                EntryTarget::TrackedDirectory(_) | EntryTarget::Object(_) => unreachable!("there are files only"),
            });
            let all = expected.iter().map(|(name, file)| (format!("{name:05}").into(), *file));
            prop_assert!(read.eq(all));
            prop_assert_eq!(entries.content_len(&TreeForm::GIT), expected.len() * 33);
            prop_assert_eq!(entries.content_len(&MANIFEST_TREES), expected.len() * 34);
            let found = entries.find(&names, b"00700", false);
            prop_assert_eq!(found.is_some(), expected.contains_key(&700));
            let lens = entries.leaves().iter().map(|leaf| leaf.entries.len());
            prop_assert!(lens.clone().all(|len| len > 0 && len <= LONGEST));
            prop_assert!(entries.leaves().len() <= expected.len() / SHORTEST + 1);
        }
    }
}

#[test]
fn leaves_that_are_not_changed_are_shared() {
    let mut names = Names::default();
    let list = (0..10_000).map(|name| entry(&mut names, name, 0)).collect();
    let before = DirectoryEntries::from_vec(list);
    let mut edit = Edit::new(before.leaves());
    for name in [50, 5000, 5001, 9999] {
        let entry = entry(&mut names, name, 1);
        edit.seek(&names, format!("{name:05}").as_bytes(), false).expect("it is there");
        edit.skip();
        edit.push(entry);
    }
    let after = edit.finish().0;
    let own = after.leaves().iter().filter(|leaf| !is_shared(leaf, &before)).count();
    assert_eq!((before.leaves().len(), after.leaves().len(), own), (157, 157, 3));
}

#[test]
fn a_name_of_a_file_and_of_a_directory_is_found_wherever_they_are() {
    let mut names = Names::default();
    let between: Vec<_> = (0..200).map(|number| format!("t-{number:03}")).collect();
    let numbered = between.iter().map(String::as_str).chain(["a", "s", "t", "ta", "t0", "z"]);
    numbered.for_each(|name| _ = names.number(name.as_bytes()));
    let file = EntryTarget::File(FileId(0), Mode::FILE);
    let directory =
        EntryTarget::TrackedDirectory(Arc::new(TrackedDirectory::unread(Oid::EMPTY_TREE, None)));
    let entries = |count: usize, others: &[(&str, &EntryTarget)]| {
        let files = between[..count].iter().map(|name| (name.as_str(), &file));
        let all = files.chain(others.iter().copied());
        let mut all: Vec<_> = all
            .map(|(name, target)| DirectoryEntry::new(&names, name.as_bytes(), target.clone()))
            .collect();
        all.sort_by(|one, two| one.order(&names, two));
        DirectoryEntries::from_vec(all)
    };
    for count in [0, 1, 64, 200] {
        let both = [("a", &directory), ("t", &file), ("t", &directory), ("z", &file)];
        assert!(entries(count, &both).have_shared_name(&names), "{count}");
        let none = [("s", &file), ("t", &directory), ("t0", &directory), ("ta", &file)];
        assert!(!entries(count, &none).have_shared_name(&names), "{count}");
        let files = [("s", &directory), ("t", &file), ("t0", &directory), ("ta", &directory)];
        assert!(!entries(count, &files).have_shared_name(&names), "{count}");
    }
}
