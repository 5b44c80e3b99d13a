//! The configuration reference.

use byway_typed::reference::page;

use super::typed::TypedFile;

/// The page `docs/configuration.md`.
pub(crate) fn reference() -> String {
    page::<TypedFile>(PREFACE)
}

const PREFACE: &str = "# Configuration\n\n\
    One TOML file may have the tables of several roles; `byway agent`, `byway relay` and `byway controller` each read their own. A flag wins over a \
    `BYWAY_*` variable (`byway agent --help` names both), and that over the file. Keys that are not listed here are errors. \
    `byway config check FILE` says whether a file is right without starting anything.\n\n\
    Rates are written as `\"4 Mbit/s\"` (bit/s, kbit/s, Mbit/s, Gbit/s), times as `\"200 ms\"` (us, ms, s, min, h, d), addresses as \
    `\"192.0.2.1:4600\"` or `\"[2001:db8::1]:4600\"`. Names have 1 to 63 letters (a to z, A to Z), digits, `-`, `_` and `.`, the first a letter or digit.\n\n\
    This page is written by `byway config reference`.\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_what_the_code_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        #[allow(clippy::disallowed_methods, reason = "compares a file of the repository")]
        let page = std::fs::read_to_string(path).expect("docs/configuration.md is there");
        assert!(page == reference(), "run: byway config reference > docs/configuration.md");
    }

    #[test]
    fn every_key_says_what_it_means() {
        let page = reference();
        for heading in ["[agent]", "[[forward]]", "[[expose]]", "[[network.relays]]", "[observe]"] {
            assert!(page.contains(&format!("## `{heading}`")), "{heading} is missing");
        }
        assert!(!page.contains("|  |"), "a key without a meaning");
    }
}
