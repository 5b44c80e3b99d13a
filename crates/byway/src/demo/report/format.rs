//! Formats numbers and names for readers.

use crate::demo::results::RunKind;

/// Returns the title of a run in the report.
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

/// Explains a run to the reader.
pub(super) const fn explanation(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Lossless => "Byway on a network without loss: the upper bound",
        RunKind::Internet => "direct path only",
        RunKind::Coding => {
            "relays send 2 repair packets for 8 packets of all calls and 1 for 16 of each call, and \
             forward whole packets during an outage that these cannot repair"
        }
        RunKind::Caching => {
            "the egress relay caches a copy of every packet, and sends those that are requested"
        }
        RunKind::Forwarding => "relay path only",
        RunKind::RelaysKilled => "SIGKILL to both relays in the middle of the run",
        RunKind::Lone => "no other flow to code with",
    }
}

/// Formats a count like `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a share like `98.7 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats a number with this many decimals, or a dash for none.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.decimals$}"))
}

/// Formats bytes like `12.3 MB`.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Returns the ratio of `part` to `whole`; `None` if `whole` is zero.
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
