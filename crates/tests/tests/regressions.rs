//! Inputs that fuzzing once broke something with, and the seeds it starts from.
//!
//! `regressions/<target>/` holds one file per finding, `/fuzz/seeds/<target>/` valid inputs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};

use adit_tests::fuzzing::{TARGETS, run};

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn replay(root: &Path) -> usize {
    let mut count = 0;
    for (name, _) in TARGETS {
        for file in files(&root.join(name)) {
            println!("{}", file.display());
            run(name, &fs::read(&file).unwrap());
            count += 1;
        }
    }
    count
}

#[test]
fn inputs_that_fuzzing_found_break_nothing_any_more() {
    replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions"));
}

#[test]
fn seeds_of_every_target_break_nothing() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    assert!(replay(&seeds) >= TARGETS.len(), "every target has a seed");
}

#[test]
fn folders_of_inputs_belong_to_a_target() {
    for folder in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions")) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(name == "config" || TARGETS.iter().any(|(known, _)| *known == name), "{name}");
    }
}
