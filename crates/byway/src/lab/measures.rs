//! Measures that tasks report: the numbers in the last line of their output.

use std::collections::BTreeMap;

use serde_json::Value;

/// Most measures that the lab reads from a task's output. Further ones are ignored.
const MEASURES_MAX: usize = 200;
/// Longest name of a measure in characters. The lab ignores measures with longer names.
const NAME_CHARS_MAX: usize = 100;

/// Bytes at the end of a task's output in which the lab searches the last line.
pub(super) const OUTPUT_BYTES: usize = 64 << 10;

/// Returns the numbers in the last line of a task's output by name, if that line is a JSON object;
/// otherwise none. Ignores names that are too long or have control characters.
pub(super) fn of_output(output: &str) -> BTreeMap<String, f64> {
    let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let Ok(Value::Object(object)) = serde_json::from_str(last) else {
        return BTreeMap::new();
    };
    let is_name = |name: &str| name.chars().count() <= NAME_CHARS_MAX && !name.chars().any(char::is_control);
    let numbers = object.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?)));
    numbers.filter(|(name, _)| is_name(name)).take(MEASURES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_numbers_of_the_last_line_count_and_nothing_else() {
        let measures =
            of_output("begins\n{\"before\":1}\n{\"p50_ms\":40.5,\"lost\":3,\"unit\":\"ms\",\"all\":[1]}\n\n");
        assert_eq!(measures, BTreeMap::from([("lost".to_owned(), 3.0), ("p50_ms".to_owned(), 40.5)]));
        for none in ["", "done", "{\"a\":1}\ndone", "[1]", "{\"a\":", "{\"a\u{1b}[2J\":1}"] {
            assert!(of_output(none).is_empty(), "{none}");
        }
    }

    proptest! {
        #[test]
        fn any_output_is_read(output in ".*") {
            of_output(&output);
        }
    }
}
