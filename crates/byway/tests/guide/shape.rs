//! Comparison of a page's output with today's: the words must match, the numbers may differ.

/// Units of times, sizes and rates, which differ with the numbers before them.
const UNITS: [&str; 12] = ["us", "ms", "s", "min", "h", "d", "B", "kB", "MB", "bit/s", "kbit/s", "Mbit/s"];

/// Returns the difference if output does not have the shape of the page's. A line `...` matches any
/// lines, and a final `...` the rest of a line.
pub fn differs(shown: &[String], output: &str) -> Option<String> {
    let shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
    let output: Vec<&str> = output.trim_end().lines().map(str::trim_end).collect();
    (!all_match(&shown, &output))
        .then(|| format!("the page shows:\n{}\ntoday's output is:\n{}", shown.join("\n"), output.join("\n")))
}

/// Returns a difference if numbers of output differ from the page's by more than this share.
pub fn numbers_differ(shown: &[String], output: &str, tolerance: f64) -> Option<String> {
    let [one, other] = [shown.join("\n"), output.to_owned()].map(|text| numbers(&text));
    let is_far = |(one, other): &(&f64, &f64)| (*one - *other).abs() > tolerance * one.abs();
    let far = one.iter().zip(&other).find(is_far);
    let far = far.map(|(one, other)| format!("the page shows {one}, and today's number is {other}"));
    far.or_else(|| (one.len() != other.len()).then(|| format!("{one:?} are not as many as {other:?}")))
}

fn numbers(text: &str) -> Vec<f64> {
    let words = text.split(|sign: char| !sign.is_ascii_digit() && sign != '.');
    words.filter_map(|word| word.parse().ok()).collect()
}

fn all_match(shown: &[&str], output: &[&str]) -> bool {
    match (shown.split_first(), output.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first.trim() == "..." => {
            all_match(rest, output) || output.split_first().is_some_and(|(_, after)| all_match(shown, after))
        }
        (None, Some(_)) | (Some(_), None) => false,
        (Some((one, rest)), Some((other, after))) => matches(one, other) && all_match(rest, after),
    }
}

fn matches(shown: &str, output: &str) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    if let Some(begin) = shown.strip_suffix(" ...") {
        let (begin, words) = (begin.split_whitespace(), output.split_whitespace());
        let begins_alike = begin.clone().zip(words.clone()).all(|(one, other)| is_same(one, other));
        return indent(shown) == indent(output) && begins_alike && begin.count() <= words.count();
    }
    let (one, other): (Vec<&str>, Vec<&str>) =
        (shown.split_whitespace().collect(), output.split_whitespace().collect());
    indent(shown) == indent(output)
        && one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| is_same(one, other))
}

/// True if two words differ only in numbers, units of time or secrets.
fn is_same(shown: &str, output: &str) -> bool {
    if let Some(begin) = shown.strip_suffix("...") {
        // A secret differs except for the word that names its kind.
        let kind = begin.split_once('.').map_or(begin, |(kind, _)| kind);
        return masked(output).starts_with(&masked(kind));
    }
    masked(shown) == masked(output)
}

/// Replaces numbers, keys and units of time in a word by N.
fn masked(word: &str) -> String {
    if word.len() >= 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return "KEY".to_owned();
    }
    if word.chars().all(|sign| sign == '─') {
        // The rule has the table's width.
        return "RULE".to_owned();
    }
    let (bare, end) = word.split_at(word.trim_end_matches([',', ';', ':']).len());
    if UNITS.contains(&bare) {
        return format!("UNIT{end}");
    }
    let mut mask = String::new();
    let (mut rest, mut is_number) = (bare, false);
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        let joins =
            is_number && ".:-".contains(next) && rest.starts_with(|after: char| after.is_ascii_digit());
        if next.is_ascii_digit() || joins {
            if !is_number {
                mask.push('N');
            }
            is_number = true;
        } else {
            mask.push(next);
            is_number = false;
        }
    }
    mask + end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn numbers_addresses_times_and_secrets_may_differ() {
        for (shown, output) in [
            ("up 2 min, at 198.51.100.22:47347", "up 12 s, at 10.0.0.1:9"),
            ("lost 33 (5.45 %) before", "lost 0 (0 %) before"),
            ("2026-01-02T03:04:05.123456Z  INFO", "2030-11-02T13:04:05.1Z  INFO"),
            ("byway1.AQ8x...", "byway1.QUFBQUFB"),
            ("a\n...\nd", "a\nb\nc\nd"),
            ("  flow 1 ...", "  flow 2 to bob"),
        ] {
            assert_eq!(differs(&lines(shown), output), None);
        }
    }

    #[test]
    fn numbers_may_be_off_by_a_tolerance() {
        let shown = lines("lost 320, 25.8 %");
        assert_eq!(numbers_differ(&shown, "lost 321, 25.9 %", 0.1), None);
        assert!(numbers_differ(&shown, "lost 20, 25.9 %", 0.1).is_some());
        assert!(numbers_differ(&shown, "lost 320", 0.1).is_some());
    }

    #[test]
    fn other_words_lines_and_indents_are_differences() {
        for (shown, output) in [
            ("lost 3 before", "missed 3 before"),
            ("a", "a\nb"),
            ("a\nb", "a"),
            ("  a", "a"),
            ("token 2 revoked", "token 2 revoked already"),
            ("a\n...\nd", "a\nb"),
        ] {
            assert!(differs(&lines(shown), output).is_some(), "{shown} is {output}");
        }
    }
}
