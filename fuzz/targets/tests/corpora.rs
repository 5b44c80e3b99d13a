//! Every target survives every input of its corpus.

#![allow(clippy::disallowed_methods, reason = "the corpora are read")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use byway_fuzz_targets::TARGETS;

/// What all corpora together may take: they are part of every clone.
const CORPORA_BYTES_MAX: usize = 1_000_000;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("the folder is readable").path()).collect()
}

#[test]
fn targets_survive_their_corpora() {
    let mut bytes_of_all = 0;
    for (name, target) in TARGETS {
        let inputs = entries(&corpora().join(name));
        assert!(inputs.len() >= 20, "the corpus of {name} has {} inputs", inputs.len());
        for input in inputs {
            let bytes = fs::read(&input).expect("inputs are readable");
            bytes_of_all += bytes.len();
            // The harness shows what is printed if the target panics.
            println!("{}", input.display());
            target(&bytes);
        }
    }
    assert!(bytes_of_all < CORPORA_BYTES_MAX, "{bytes_of_all} bytes: minimise the corpora");
}

#[test]
fn every_corpus_and_every_fuzzer_has_its_target() {
    let targets: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let stems = |folder: &Path| -> BTreeSet<String> {
        let paths = entries(folder);
        paths.iter().filter_map(|path| path.file_stem()?.to_str().map(str::to_owned)).collect()
    };
    assert_eq!(stems(&corpora()), targets);
    assert_eq!(stems(&corpora().join("../fuzz_targets")), targets);
}
