//! Types, functions and modules have the field's names, not words that stand for ten things.
//!
//! `docs/glossary.md` has the words to use.

use crate::items::{Item, Kind, items_of_all};
use crate::{Finding, SourceFile};

/// Words that are no part of a name, each with the field's words for it.
const WORDS: [(&[&str], &str); 20] = [
    (&["way", "ways"], "path, route or direction"),
    (&["line", "lines"], "uplink, access link or bottleneck link"),
    (&["place", "places"], "index, slot, position, host or site"),
    (&["room", "rooms"], "capacity, space or headroom"),
    (&["bear", "bears", "bore", "borne"], "sustain"),
    (&["weigh", "weighs", "weighed", "weighing"], "probe or measure"),
    (&["tell", "tells", "told"], "notify, report or advertise"),
    (&["say", "says", "said"], "report, queue a message or send"),
    (&["hear", "hears", "heard"], "receive, or `on_` and the message"),
    (&["give", "gives", "given"], "send, grant, return or release"),
    (&["take", "takes", "taken"], "accept, receive, capture or drain"),
    (&["came", "comes"], "received or arrived"),
    (&["brought", "brings"], "offered load, or received"),
    (&["carry", "carries", "carried"], "forward, relay or contain"),
    (&["kept", "keeps"], "buffered, stored or retained"),
    (&["lasting", "lasts"], "persistent"),
    (&["gone", "goes"], "closed, expired or removed"),
    (&["hand", "hands", "handed", "cast"], "what it is: a scripted peer, a topology"),
    (&["book", "books"], "ledger or table"),
    (&["liar", "liars", "lie", "lies", "whom"], "misbehaving, faulty or quarantined"),
];

/// Names that have such a word in another sense, with the reason.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("OneWayDelayBaseline", "one-way delay (RFC 7679)"),
    ("lines", "of text"),
    ("lines_before_tests", "of text"),
    ("parse_line", "of text"),
];

/// The types, functions and modules that are named with such a word, and exceptions that nothing
/// needs.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    check(files, &EXCEPTIONS)
}

fn check(files: &[SourceFile], exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let (items, mut findings) = items_of_all(files);
    let is_excepted = |name: &str| exceptions.iter().any(|(exception, _)| *exception == name);
    let named = |item: &Item| !matches!(item.kind, Kind::Test | Kind::Impl);
    let banned = items.iter().filter(|(_, item)| named(item) && !is_excepted(&item.name));
    findings.extend(banned.filter_map(|(file, item)| finding(file, item)));
    let needless = exceptions.iter().filter(|(name, _)| !items.iter().any(|(_, item)| item.name == *name));
    findings.extend(needless.map(|(name, _)| {
        Finding::new(file!(), 1, format!("nothing is named {name}"), "remove the exception")
    }));
    findings
}

fn finding(file: &SourceFile, item: &Item) -> Option<Finding> {
    let words = words(&item.name);
    let (banned, instead) = WORDS.iter().find_map(|(banned, instead)| {
        let word = words.iter().find(|word| banned.contains(&word.as_str()))?;
        Some((word, instead))
    })?;
    let problem = format!("the name {} has the word {banned}", item.name);
    Some(Finding::new(&file.path, item.line, problem, format!("name what it is: {instead}")))
}

/// The words of a name in snake case or camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        let begins = letter == '_' || letter.is_uppercase();
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, exceptions: &[(&str, &str)]) -> Vec<String> {
        check(&[SourceFile::new("a.rs", text)], exceptions)
            .into_iter()
            .map(|finding| finding.problem)
            .collect()
    }

    #[test]
    fn banned_words_are_found_in_any_case() {
        let text = "struct TwoWays;\nfn take_all() {}\nmod line_scale {}\ntype Told = u8;";
        let expected = [
            "the name TwoWays has the word ways",
            "the name take_all has the word take",
            "the name line_scale has the word line",
            "the name Told has the word told",
        ];
        assert_eq!(problems(text, &[]), expected);
    }

    #[test]
    fn parts_of_words_and_tests_are_right() {
        let text = "struct Pipeline;\nfn replace() {}\n#[test]\nfn what_came_is_kept() {}\nstruct Gateway;";
        assert_eq!(problems(text, &[]), [""; 0]);
    }

    #[test]
    fn exceptions_are_needed() {
        let text = "fn parse_line() {}";
        assert_eq!(problems(text, &[("parse_line", "text")]), [""; 0]);
        assert_eq!(problems("", &[("parse_line", "text")]), ["nothing is named parse_line"]);
    }
}
