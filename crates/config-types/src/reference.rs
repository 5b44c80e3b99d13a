//! Reference pages, generated from the types of settings files.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde_json::Value;

/// Columns of the text outside of tables.
const COLUMNS: usize = 100;

/// Placeholder for a space within a code span, which must stay on one line.
const SPAN_SPACE: &str = "\u{a0}";

/// Returns a page that begins with `preface`, with the meaning of each table of a file, and of each
/// key in it. The text is the documentation of the type.
#[must_use]
pub fn page<File: JsonSchema>(preface: &str) -> String {
    let schema = schemars::schema_for!(File).to_value();
    let mut page = wrapped(preface, "");
    if properties(&schema).any(|(_, field)| table_of(&schema, field).is_none()) {
        section(&mut page, &schema, "the file", &schema, &schema);
    }
    for (name, field) in properties(&schema) {
        tables(&mut page, &schema, name, field);
    }
    page
}

/// Writes the sections of a table and of its inner tables.
fn tables(page: &mut String, schema: &Value, name: &str, field: &Value) {
    let Some(table) = table_of(schema, field) else {
        return;
    };
    let is_list = field.get("items").is_some();
    section(page, schema, &heading(name, is_list), table, field);
    for (below, field) in properties(table) {
        tables(page, schema, &format!("{name}.{below}"), field);
    }
}

fn heading(name: &str, is_list: bool) -> String {
    if is_list { format!("[[{name}]]") } else { format!("[{name}]") }
}

fn section(page: &mut String, schema: &Value, heading: &str, table: &Value, field: &Value) {
    let about = [field, table].iter().find_map(|value| description(value)).unwrap_or_default();
    let heading = if heading.starts_with('[') { format!("`{heading}`") } else { heading.to_owned() };
    let about = wrapped(&about, "");
    let _ = write!(page, "\n## {heading}\n\n{about}\n\n| key | value | meaning |\n|---|---|---|\n");
    for (key, value) in properties(table) {
        if table_of(schema, value).is_some_and(|inner| inner.get("properties").is_some()) {
            continue;
        }
        let needed = required(table).any(|name| name == key);
        let meaning = description(value).unwrap_or_default();
        let needed = if needed { " Required." } else { "" };
        let _ = writeln!(page, "| `{key}` | {} | {meaning}{needed} |", kind(schema, value));
    }
    for (key, value) in properties(table) {
        let choices = choices(schema, value);
        if !choices.is_empty() {
            let _ = writeln!(page, "\n`{key}`:\n\n{}", choices.join("\n"));
        }
    }
}

/// Returns the kinds of a value in words, as the reference page shows them.
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
        Some("object") => "table".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some(other) => other.to_owned(),
        None => "string".to_owned(),
    }
}

/// Returns a list item for each documented choice of a value, with its meaning.
fn choices(schema: &Value, value: &Value) -> Vec<String> {
    let choices = resolved(schema, value).get("oneOf").and_then(Value::as_array);
    let line = |choice: &Value| {
        let name = choice.get("const").and_then(Value::as_str)?;
        Some(wrapped(&format!("- `\"{name}\"`: {}", description(choice)?), "  "))
    };
    choices.into_iter().flatten().filter_map(line).collect()
}

/// Wraps each line of a text at [`COLUMNS`]. Continuations of a line begin with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    let spans = text.split('`').enumerate();
    let protected: Vec<_> = spans
        .map(|(index, part)| if index % 2 == 1 { part.replace(' ', SPAN_SPACE) } else { part.to_owned() })
        .collect();
    let options = textwrap::Options::new(COLUMNS)
        .subsequent_indent(indent)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::fill(&protected.join("`"), options).replace(SPAN_SPACE, " ")
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

/// Returns the table that a value is, or the table that is the element of a list; `None` otherwise.
fn table_of<'a>(schema: &'a Value, value: &'a Value) -> Option<&'a Value> {
    let items = value.get("items").filter(|items| items.is_object());
    let resolved = resolved(schema, items.unwrap_or(value));
    resolved.get("properties").map(|_| resolved)
}

/// Returns the definition that a value of the schema refers to, or the value itself.
fn resolved<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    let choice = value.get("anyOf").and_then(Value::as_array).and_then(|choices| choices.first());
    let value = choice.unwrap_or(value);
    let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
        return value;
    };
    let name = reference.rsplit('/').next().unwrap_or_default();
    schema.get("$defs").and_then(|definitions| definitions.get(name)).unwrap_or(value)
}
