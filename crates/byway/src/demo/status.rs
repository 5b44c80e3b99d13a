//! Reader of the notes for people in the status of nodes.

/// Returns the notes of a status: every text under a key `note`, each once, in the order of the
/// document.
pub(crate) fn notes(status: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(status, &mut found);
    found
}

fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "note" => {
                        if !text.is_empty() && !found.contains(text) {
                            found.push(text.clone());
                        }
                    }
                    other => collect(other, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_wherever_they_stand_and_told_once() {
        let status = serde_json::json!({
            "flows": [{"note": "nobody to be coded with"}, {"note": "nobody to be coded with", "x": {"note": "use caching"}}, {"note": null}],
            "name": "alice", "note": "",
        });
        assert_eq!(notes(&status), ["nobody to be coded with", "use caching"]);
    }
}
