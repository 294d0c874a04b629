//! Seeds, and all inputs that ever failed, on stable Rust.

use std::fs;
use std::path::{Path, PathBuf};

use fuzztargets::{Counting, TARGETS, Target};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn fuzz_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The files in a directory, which may be missing.
fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = directory.read_dir() else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.expect("is read").path()).collect();
    files.sort();
    files
}

fn replay(target: &Target, path: &Path) {
    println!("{}", path.display()); // shown if the test fails
    target.run(&fs::read(path).expect("is readable"));
}

// one test: threads would count each other's memory
#[test]
fn seeds_and_crashes_are_refused_or_parsed() {
    for target in &TARGETS {
        target.run(b"");
        let seeds = files(&fuzz_directory().join("seeds").join(target.name));
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        let crashes = files(&fuzz_directory().join("crashes").join(target.name));
        seeds.iter().chain(&crashes).for_each(|path| replay(target, path));
    }
}

#[test]
fn each_target_has_a_program() {
    let name = |path: PathBuf| path.file_stem().expect("is a file").to_string_lossy().into_owned();
    let folders = ["amalgam", "git", "hg"].map(|it| fuzz_directory().join("fuzz_targets").join(it));
    let mut programs: Vec<_> = folders.iter().flat_map(|it| files(it)).map(name).collect();
    programs.sort();
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    names.sort();
    assert_eq!(programs, names);
}
