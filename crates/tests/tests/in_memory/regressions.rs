//! Inputs with which fuzzing found faults, and its seeds.
//!
//! `regressions/<target>/` holds one file per finding, `/fuzz/seeds/<target>/` valid inputs. Those
//! of the target `config` are replayed next to the reader, in `crates/adit/src/config/tests.rs`.

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

/// Every program under `fuzz/fuzz_targets` is replayed: by name here, or next to the reader.
#[test]
fn targets_are_those_that_are_replayed() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut programs: Vec<String> = files(&programs)
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    programs.sort();
    let mut known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).chain(["config"]).collect();
    known.sort_unstable();
    assert_eq!(programs, known);
}

#[test]
fn folders_of_inputs_belong_to_a_target() {
    for folder in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions")) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(name == "config" || TARGETS.iter().any(|(known, _)| *known == name), "{name}");
    }
}
