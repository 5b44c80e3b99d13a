//! Every target survives every input of its corpus.

#![allow(clippy::disallowed_methods, reason = "the corpora are read")]
#![allow(clippy::print_stdout, reason = "the harness shows what is printed if a target panics")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use byway_fuzz_targets::TARGETS;

/// Most bytes of all corpora together, because they are part of every clone.
const CORPORA_BYTES_MAX: u64 = 1_000_000;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("the folder is readable").path()).collect()
}

/// Defines one test for each target, because the harness runs tests in parallel.
macro_rules! replays {
    ($($target:ident)*) => {
        const REPLAYED: &[&str] = &[$(stringify!($target)),*];
        $(
            #[test]
            fn $target() {
                replay(stringify!($target));
            }
        )*
    };
}

replays! { agent_input attacker decoders federation handshake network_state relay_input view wire_decode }

fn replay(name: &str) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("the target is listed");
    let inputs = entries(&corpora().join(name));
    assert!(inputs.len() >= 20, "the corpus of {name} has {} inputs", inputs.len());
    for input in inputs {
        let bytes = fs::read(&input).expect("inputs are readable");
        println!("{}", input.display());
        target(&bytes);
    }
}

#[test]
fn every_target_is_replayed() {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(REPLAYED, names);
}

#[test]
fn the_corpora_are_small() {
    let inputs = TARGETS.iter().flat_map(|(name, _)| entries(&corpora().join(name)));
    let bytes: u64 = inputs.map(|input| fs::metadata(input).expect("inputs are readable").len()).sum();
    assert!(bytes < CORPORA_BYTES_MAX, "{bytes} bytes: minimise the corpora");
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
