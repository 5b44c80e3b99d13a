//! Scenarios of programs in this repository: all are valid. Checking their results needs a lab, and
//! minutes.

#![allow(clippy::disallowed_methods, reason = "the program is run, and files are listed")]

use std::path::Path;
use std::process::Command;

#[test]
fn scenarios_of_programs_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/lab");
    let files = std::fs::read_dir(&folder).expect("the scenarios").map(|file| file.expect("a file").path());
    let scenarios: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|kind| kind == "toml")).collect();
    assert!(scenarios.len() >= 6, "{scenarios:?}");
    for file in scenarios {
        let mut check = Command::new(env!("CARGO_BIN_EXE_byway"));
        let output = check.args(["sim", "check"]).arg(&file).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(&file).expect("text");
        assert!(text.contains("[[expect]]"), "{}: what is expected?", file.display());
        // The files that it names must exist.
        for word in text.split("{here}/").skip(1) {
            let name = word.split([' ', '"', '\'', ',']).next().unwrap_or_default();
            assert!(name.starts_with("..") || folder.join(name).is_file(), "{}: {name}", file.display());
        }
    }
}
