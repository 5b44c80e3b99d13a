//! The configuration reference, written from the types that read the files.

use std::fmt::Write as _;

use serde_json::Value;

use super::typed::TypedFile;

/// The page `docs/configuration.md`.
pub(crate) fn reference() -> String {
    let schema = schemars::schema_for!(TypedFile).to_value();
    let mut page = String::from(PREFACE);
    for (name, field) in properties(&schema) {
        let is_list = field.get("type").and_then(Value::as_str) == Some("array");
        let Some(table) = table_of(&schema, field) else {
            continue;
        };
        section(&mut page, &schema, &heading(name, is_list), table, field);
        for (below, field) in properties(table) {
            let is_list = field.get("type").and_then(Value::as_str) == Some("array");
            if let Some(inner) = table_of(&schema, field).filter(|inner| inner.get("properties").is_some()) {
                section(&mut page, &schema, &heading(&format!("{name}.{below}"), is_list), inner, field);
            }
        }
    }
    page
}

const PREFACE: &str = "# Configuration\n\n\
    One TOML file may have the tables of several roles; `byway agent`, `byway relay` and `byway controller` each read their own. A flag wins over a \
    `BYWAY_*` variable (`byway agent --help` names both), and that over the file. Keys that are not listed here are errors. \
    `byway config check FILE` says whether a file is right without starting anything.\n\n\
    Rates are written as `\"4 Mbit/s\"` (bit/s, kbit/s, Mbit/s, Gbit/s), times as `\"200 ms\"` (us, ms, s, min, h, d), addresses as \
    `\"192.0.2.1:4600\"` or `\"[2001:db8::1]:4600\"`. Names have 1 to 63 letters (a to z, A to Z), digits, `-`, `_` and `.`, the first a letter or digit.\n\n\
    This page is written by `byway config reference`.\n";

fn heading(name: &str, is_list: bool) -> String {
    if is_list { format!("[[{name}]]") } else { format!("[{name}]") }
}

fn section(page: &mut String, schema: &Value, heading: &str, table: &Value, field: &Value) {
    let about = [field, table].iter().find_map(|value| description(value)).unwrap_or_default();
    let _ = write!(page, "\n## `{heading}`\n\n{about}\n\n| key | value | meaning |\n|---|---|---|\n");
    for (key, value) in properties(table) {
        if table_of(schema, value).is_some_and(|inner| inner.get("properties").is_some()) {
            continue;
        }
        let needed = required(table).any(|name| name == key);
        let meaning = description(value).unwrap_or_default();
        let needed = if needed { " Required." } else { "" };
        let _ = writeln!(page, "| `{key}` | {} | {meaning}{needed} |", kind(schema, value));
    }
}

/// What may stand for a value.
fn kind(schema: &Value, value: &Value) -> String {
    let value = resolved(schema, value);
    if let Some(choices) = value.get("oneOf").or(value.get("enum")).and_then(Value::as_array) {
        let name = |choice: &Value| {
            let constant = choice.get("const").unwrap_or(choice);
            constant.as_str().map(|name| format!("`\"{name}\"`"))
        };
        let names: Vec<String> = choices.iter().filter_map(name).collect();
        if !names.is_empty() {
            return names.join(", ");
        }
    }
    let types = value.get("type");
    let first = types.and_then(|types| match types {
        Value::Array(types) => types.iter().find_map(Value::as_str).map(str::to_owned),
        Value::String(name) => Some(name.clone()),
        _ => None,
    });
    match first.as_deref() {
        Some("array") => {
            let items = value.get("items").map_or_else(String::new, |items| kind(schema, items));
            format!("list of {items}s")
        }
        Some("integer") => "number".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some(other) => other.to_owned(),
        None => "string".to_owned(),
    }
}

fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn required(table: &Value) -> impl Iterator<Item = &str> {
    table.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn description(value: &Value) -> Option<String> {
    let text = value.get("description")?.as_str()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"))
}

/// The table that a value is, or of which it is a list.
fn table_of<'a>(schema: &'a Value, value: &'a Value) -> Option<&'a Value> {
    let items = value.get("items").filter(|items| items.is_object());
    let resolved = resolved(schema, items.unwrap_or(value));
    resolved.get("properties").map(|_| resolved)
}

/// The value that a reference stands for.
fn resolved<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    let choice = value.get("anyOf").and_then(Value::as_array).and_then(|choices| choices.first());
    let value = choice.unwrap_or(value);
    let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
        return value;
    };
    let name = reference.rsplit('/').next().unwrap_or_default();
    schema.get("$defs").and_then(|definitions| definitions.get(name)).unwrap_or(value)
}

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
