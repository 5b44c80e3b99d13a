//! Stand-ins for ciphers exist in fuzzing builds only, and no product compiles in one.
//!
//! `cfg(fuzzing)` is a flag of the compiler that cargo-fuzz passes. No feature of Cargo's sets it,
//! so that no dependency can.

use crate::{Finding, SourceFile};

/// The only file that makes anything of `cfg(fuzzing)`.
const SEAM: &str = "crates/wire/src/seal/primitives.rs";

/// The roots of what faces a network. Each refuses to compile in a fuzzing build.
const PRODUCTS: [&str; 3] = ["crates/byway/src/main.rs", "crates/client/src/lib.rs", "crates/net/src/lib.rs"];

/// The lines by which a product refuses.
const GUARD: &str = "#[cfg(fuzzing)]\ncompile_error!(";

/// Products without the guard, and conditions on fuzzing beside the seam.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let sources =
        files.iter().filter(|file| file.extension() == "rs" && !file.path.starts_with("crates/tidy/"));
    sources.filter(|file| file.path != SEAM).flat_map(of_file).collect()
}

fn of_file(file: &SourceFile) -> Vec<Finding> {
    let is_product = PRODUCTS.contains(&file.path.as_str());
    if is_product && !file.text.contains(GUARD) {
        let problem = "the product compiles in a fuzzing build, where ciphers protect nothing";
        let remedy = "add #[cfg(fuzzing)] with compile_error! below it, as in crates/net/src/lib.rs";
        return vec![Finding::new(&file.path, 1, problem, remedy)];
    }
    let guards = usize::from(is_product);
    let lines = file.text.lines().enumerate().filter(|(_, line)| names_fuzzing(line)).skip(guards);
    let remedy = format!("let {SEAM} be the only file that differs in fuzzing builds");
    lines.map(|(place, _)| Finding::new(&file.path, place + 1, "a condition on fuzzing", &remedy)).collect()
}

fn names_fuzzing(line: &str) -> bool {
    let mut words = line.split(|character: char| !character.is_alphanumeric() && character != '_');
    (line.contains("cfg(") || line.contains("cfg!(")) && words.any(|word| word == "fuzzing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_in(path: &str, text: &str) -> Vec<String> {
        findings(&[SourceFile::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    const GUARDED: &str = "//! A.\n#[cfg(fuzzing)]\ncompile_error!(\"no\");\n";

    #[test]
    fn a_product_without_the_guard_is_found() {
        for product in PRODUCTS {
            assert_eq!(findings_in(product, GUARDED), [""; 0]);
            assert_eq!(findings_in(product, "//! A.\n").len(), 1, "{product}");
        }
    }

    #[test]
    fn a_condition_beside_the_seam_is_found_with_its_line() {
        let text = "fn f() {\n    if cfg!(fuzzing) {}\n}\n";
        let remedy = "let crates/wire/src/seal/primitives.rs be the only file that differs in fuzzing builds";
        let expected = format!("crates/proto/src/lib.rs:2: a condition on fuzzing: {remedy}");
        assert_eq!(findings_in("crates/proto/src/lib.rs", text), [expected]);
        assert_eq!(findings_in(SEAM, text), [""; 0]);
        assert_eq!(
            findings_in("crates/net/src/lib.rs", &format!("{GUARDED}#[cfg(not(fuzzing))]\n")).len(),
            1
        );
    }

    #[test]
    fn prose_about_fuzzing_is_no_condition() {
        assert_eq!(
            findings_in("crates/proto/src/lib.rs", "// Deeper than --cfg fuzzing goes.\n#[cfg(test)]\n"),
            [""; 0]
        );
    }
}
