//! Numbers and names as people read them.

use crate::demo::results::RunKind;

/// What a run is called.
pub(super) const fn title(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Lossless => "No loss",
        RunKind::Internet => "Internet alone",
        RunKind::Coding => "Coding",
        RunKind::Caching => "Caching",
        RunKind::Forwarding => "Forwarding",
        RunKind::RelaysKilled => "Coding, relays killed",
        RunKind::Lone => "Coding, one pair alone",
    }
}

/// What a run is.
pub(super) const fn explanation(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Lossless => "Byway on a network that loses nothing: the best there can be",
        RunKind::Internet => "the direct path, and nothing else",
        RunKind::Coding => {
            "relays carry 2 repair packets for 8 packets of all calls and 1 for 16 of each, and whole packets of a dark path where these are not enough"
        }
        RunKind::Caching => {
            "the relay near the receiver keeps a copy of everything, and gives out what is asked for"
        }
        RunKind::Forwarding => "everything over the relays, nothing on the direct path",
        RunKind::RelaysKilled => "both relays get SIGKILL half way",
        RunKind::Lone => "nobody to be coded with",
    }
}

/// `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `98.7 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number with this many decimals, or a dash.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.decimals$}"))
}

/// `12.3 MB`.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The share that `part` is of `whole`.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(percent(0.9876), "98.8 %");
        assert_eq!((number(Some(1.25), 1), number(None, 1)), ("1.2".into(), "–".into()));
        assert_eq!(megabytes(12_340_000), "12.3 MB");
        assert_eq!((share(1, 4), share(1, 0)), (Some(0.25), None));
    }
}
