//! The page on the format of scenarios.

use byway_typed::reference::page;

use crate::typed::TypedScenario;

/// The page `docs/scenario-format.md`.
#[must_use]
pub fn reference() -> String {
    page::<TypedScenario>(PREFACE)
}

const PREFACE: &str = "# The format of scenarios\n\n\
    A scenario is a TOML file; `byway sim run FILE` runs it. Times are written as `\"200 ms\"` (us, ms, s, min, h, d), rates as `\"4 Mbit/s\"` \
    (bit/s, kbit/s, Mbit/s, Gbit/s), shares as `\"0.5 %\"`, bytes as `\"64 kB\"` (B, kB, MB, GB). Where *string or table* stands, a value may be \
    drawn anew for each of several links: `{ from = \"20 ms\", to = \"80 ms\" }`, the same with `scale = \"log\"`, or `{ one_of = [\"20 ms\", \"80 ms\"] }`. \
    Keys that are not listed here are errors.\n\n\
    This page is written by `byway sim format`.\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_what_the_code_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario-format.md");
        #[allow(clippy::disallowed_methods, reason = "compares a file of the repository")]
        let page = std::fs::read_to_string(path).expect("docs/scenario-format.md is there");
        assert!(page == reference(), "run: byway sim format > docs/scenario-format.md");
    }
}
