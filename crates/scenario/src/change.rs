//! Overrides of a scenario's values, which make a variant of it.

use std::str::FromStr;

use toml::{Table, Value};

/// Override of one of a scenario's values, as typed: `flow.call.batch=7`.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    key: String,
    value: Value,
    /// Value as a string, in case the key needs a string.
    text: Value,
}

impl FromStr for Change {
    type Err = String;

    /// Parses `KEY=VALUE`, with a key as in [`set`]. A value that is not valid TOML is a string:
    /// `length=90 s` needs no quotes, and neither does a number for a string key.
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) =
            text.split_once('=').filter(|(key, _)| !key.trim().is_empty()).ok_or_else(|| {
                format!("invalid change {text:?}: write KEY=VALUE, such as flow.call.copies=all")
            })?;
        let of_toml =
            format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
        let text = Value::from(value);
        Ok(Self { key: key.trim().to_owned(), value: of_toml.unwrap_or_else(|| text.clone()), text })
    }
}

impl Change {
    /// Replaces the scenario's value of this key.
    ///
    /// # Errors
    /// As of [`set`].
    pub fn apply(&self, scenario: &mut Table) -> Result<(), String> {
        let Self { key, value, text } = self;
        let is_simple = !matches!(value, Value::String(_) | Value::Array(_) | Value::Table(_));
        replace(scenario, key, &mut |before| {
            let is_text = is_simple && before.is_some_and(Value::is_str);
            if is_text { text } else { value }.clone()
        })
    }
}

/// Sets a value by its key, as `flow.call.batch`. The key selects one of several tables by its name
/// or by its index, and `*` selects all. A key of the last table may be new.
///
/// # Errors
/// If the key does not exist; the error names the key.
pub fn set(scenario: &mut Table, key: &str, value: &Value) -> Result<(), String> {
    replace(scenario, key, &mut |_| value.clone())
}

/// Function that returns the new value for the old one, if there is one.
type Replacement<'a> = dyn FnMut(Option<&Value>) -> Value + 'a;

fn replace(scenario: &mut Table, key: &str, replacement: &mut Replacement<'_>) -> Result<(), String> {
    let (steps, last) = key.rsplit_once('.').unwrap_or(("", key));
    let steps: Vec<&str> = steps.split_terminator('.').collect();
    replace_within(scenario, &steps, last, replacement)
        .map_err(|step| format!("{key}: {step:?} not found in the scenario"))
}

/// Replaces the values at the remaining steps of a key. If a step does not exist, the error is that
/// step.
fn replace_within<'a>(
    table: &mut Table,
    steps: &[&'a str],
    last: &str,
    replacement: &mut Replacement<'_>,
) -> Result<(), &'a str> {
    let Some((step, rest)) = steps.split_first() else {
        let value = replacement(table.get(last));
        table.insert(last.to_owned(), value);
        return Ok(());
    };
    match table.get_mut(*step).ok_or(*step)? {
        Value::Table(inner) => replace_within(inner, rest, last, replacement),
        Value::Array(elements) => {
            let (element, rest) = rest.split_first().ok_or(*step)?;
            replace_in_elements(elements, element, rest, last, replacement)
        }
        _ => Err(step),
    }
}

fn replace_in_elements<'a>(
    elements: &mut [Value],
    selector: &'a str,
    steps: &[&'a str],
    last: &str,
    replacement: &mut Replacement<'_>,
) -> Result<(), &'a str> {
    let is_selected = |(index, element): &(usize, &mut Value)| {
        let name = element.get("name").and_then(Value::as_str);
        selector == "*" || name == Some(selector) || selector.parse() == Ok(*index)
    };
    let mut found = Err(selector);
    for (_, element) in elements.iter_mut().enumerate().filter(is_selected) {
        let inner = element.as_table_mut().ok_or(selector)?;
        replace_within(inner, steps, last, replacement)?;
        found = Ok(());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(key: &str, value: impl Into<Value>) -> Result<String, String> {
        let text = "length = \"1 s\"\n[[flow]]\nname = \"a\"\n[flow.sends]\nbytes = 1\n[[flow]]\nname = \"b\"\nsends = {}\n";
        let mut table: Table = text.parse().expect("TOML");
        set(&mut table, key, &value.into())?;
        Ok(table.to_string())
    }

    #[test]
    fn values_are_set_by_name_place_and_all() {
        assert!(patched("length", "2 s").is_ok_and(|text| text.contains("length = \"2 s\"")));
        assert!(patched("flow.a.sends.bytes", 7).is_ok_and(|text| text.matches("bytes = 7").count() == 1));
        assert!(patched("flow.1.sends.bytes", 7).is_ok_and(|text| text.contains("bytes = 1")));
        assert!(patched("flow.*.sends.bytes", 7).is_ok_and(|text| text.matches("bytes = 7").count() == 2));
    }

    #[test]
    fn changes_are_typed_as_keys_and_values() {
        for (text, value) in [
            ("flow.a.copies=all", Value::from("all")),
            ("flow.a.copies=\"all\"", Value::from("all")),
            ("length=90 s", Value::from("90 s")),
            ("flow.a.sends.bytes=7", Value::from(7)),
            ("command.fetch.environment.X=a=b", Value::from("a=b")),
        ] {
            let change: Change = text.parse().expect("a change");
            assert_eq!(change.value, value);
            assert!(text.starts_with(&change.key));
        }
        for text in ["length", "=7", ""] {
            let error = text.parse::<Change>().expect_err("no change");
            assert!(error.contains("KEY=VALUE"), "{error}");
        }
    }

    #[test]
    fn in_the_place_of_a_text_a_number_is_one() {
        let mut table: Table = "bytes = 1\nenvironment = { FETCHES = \"40\" }".parse().expect("TOML");
        table.insert("list".to_owned(), "x".into());
        for text in [
            "list=[\"y\"]",
            "environment.TEXT=w",
            "bytes=7",
            "environment.FETCHES=7",
            "environment.NEW=7",
            "environment.TEXT=\"x\"",
        ] {
            text.parse::<Change>().expect("a change").apply(&mut table).expect("it is there");
        }
        let environment = &table["environment"];
        assert_eq!((&table["bytes"], &environment["FETCHES"]), (&Value::from(7), &Value::from("7")));
        assert!(table["list"].is_array());
        assert_eq!((&environment["NEW"], &environment["TEXT"]), (&Value::from(7), &Value::from("x")));
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (key, absent) in
            [("flow.c.batch", "c"), ("flows.a.batch", "flows"), ("flow.a.send.bytes", "send")]
        {
            let message = patched(key, 1).expect_err("there is nothing");
            assert!(message.contains(key) && message.contains(&format!("{absent:?}")), "{message}");
        }
        assert!(patched("length.x", 1).is_err());
    }
}
