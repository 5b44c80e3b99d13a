//! Explanations as text for people.

use std::fmt::Write as _;

use byway_api::{FlowExplanation, FlowList, FlowMeasurements, ServicePrediction};

use crate::table::aligned;

/// Returns the list of flows as text.
pub(super) fn list(flows: &FlowList) -> String {
    if flows.flows.is_empty() {
        return "no flows: an application has to send something first\n".to_owned();
    }
    let head = ["flow", "to", "service", "chosen by"].map(str::to_owned);
    let rows = flows.flows.iter().map(|flow| {
        let by = if flow.is_automatic { "Byway" } else { "settings" };
        [flow.id.clone(), flow.to.clone(), flow.service.clone(), by.to_owned()]
    });
    aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// Returns an explanation as text: facts, a table of all candidates, and what would change the
/// choice.
pub(super) fn explanation(explanation: &FlowExplanation) -> String {
    let FlowExplanation { flow, reason, measured, .. } = explanation;
    let mut page = format!("flow {} to {}: {} ({reason})\n", flow.id, flow.to, flow.service);
    let _ = writeln!(
        page,
        "  target: {:.0} ms from sending to delivery, at most {} lost or late",
        explanation.latency_budget_ms,
        percent(explanation.residual_loss_max)
    );
    let _ = writeln!(page, "  measured: {}", measured_text(measured));
    if explanation.candidates.is_empty() {
        page += "  candidates: none yet, until the delays of the direct path and of a relay are measured\n";
    } else {
        page.push('\n');
        page += &candidates(explanation);
    }
    list_section(
        &mut page,
        "What would change the choice:",
        &explanation.would_change,
        "nothing that was tried",
    );
    let changes = explanation.changes.iter().map(|change| {
        format!("{} s ago: {} to {}, {}", change.seconds_ago, change.from, change.to, change.reason)
    });
    list_section(&mut page, "Last changes:", &changes.collect::<Vec<_>>(), "none");
    page
}

fn list_section(page: &mut String, heading: &str, items: &[String], none: &str) {
    let _ = writeln!(page, "\n{heading}");
    if items.is_empty() {
        let _ = writeln!(page, "  {none}");
    }
    for item in items {
        let _ = writeln!(page, "  {item}");
    }
}

fn measured_text(measured: &FlowMeasurements) -> String {
    let mut text = format!(
        "direct path {}, loss {}; {} in packets of {} bytes",
        optional_ms(measured.direct_ms),
        percent(measured.loss),
        rate(measured.rate_bits_per_second),
        measured.packet_bytes
    );
    if let (Some(ingress), Some(egress)) = (&measured.ingress, &measured.egress) {
        let delays = [measured.to_ingress_ms, measured.between_relays_ms, measured.to_receiver_ms];
        let [to_ingress, between, to_receiver] = delays.map(optional_ms);
        let _ = write!(text, "; relays {ingress} and {egress} ({to_ingress}, {between}, {to_receiver})");
    }
    let currency = measured.currency.as_ref().map_or_else(String::new, |currency| format!(" in {currency}"));
    let _ = write!(text, "; {}{currency}", measured.prices);
    text
}

fn candidates(explanation: &FlowExplanation) -> String {
    let cents = explanation.measured.currency.as_ref().map_or("nominal c/h", |_| "cents/h");
    let head =
        ["service", "p50", "p95", "lost: p50", "lost: p95", "residual", cents, "uplink", "relays", "why not"]
            .map(str::to_owned);
    let row = |known: &ServicePrediction| {
        let mark = if known.is_in_force { " *" } else { "" };
        [
            format!("{}{mark}", known.service),
            optional_ms(known.p50_ms),
            optional_ms(known.p95_ms),
            optional_ms(known.repaired_p50_ms),
            optional_ms(known.repaired_p95_ms),
            percent(known.residual_loss),
            format!("{:.4}", known.cents_per_hour),
            rate(hourly_rate(known.uplink_bytes_per_hour)),
            rate(hourly_rate(known.relay_bytes_per_hour)),
            known.why_not.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let rows = explanation.candidates.iter().map(row);
    let table = aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
    let mut text = String::new();
    for line in table.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text + "  (* in force)\n"
}

const fn hourly_rate(bytes: u64) -> u64 {
    bytes.saturating_mul(8) / 3_600
}

fn optional_ms(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"))
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

#[allow(clippy::cast_precision_loss, reason = "rates for people have three digits")]
fn rate(bits_per_second: u64) -> String {
    match bits_per_second {
        0..1_000_000 => format!("{:.1} kbit/s", bits_per_second as f64 / 1e3),
        _ => format!("{:.1} Mbit/s", bits_per_second as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use byway_api::{FlowSummary, ServiceChangeEntry};

    use super::*;

    fn prediction(service: &str, why_not: Option<&str>) -> ServicePrediction {
        ServicePrediction {
            service: service.to_owned(),
            is_in_force: why_not.is_none(),
            p50_ms: Some(50.0),
            p95_ms: None,
            repaired_p50_ms: None,
            repaired_p95_ms: Some(90.0),
            residual_loss: 0.01,
            cents_per_hour: 1.234_56,
            uplink_bytes_per_hour: 450_000_000,
            relay_bytes_per_hour: 45_000,
            why_not: why_not.map(str::to_owned),
        }
    }

    #[test]
    fn the_page_has_every_candidate_and_every_section() {
        let flow = FlowSummary {
            id: "bob:7".to_owned(),
            to: "echo".to_owned(),
            service: "caching".to_owned(),
            is_automatic: true,
        };
        let explanation = FlowExplanation {
            flow: flow.clone(),
            reason: "cheapest service, by list prices".to_owned(),
            latency_budget_ms: 110.0,
            residual_loss_max: 0.001,
            measured: FlowMeasurements {
                loss: 0.01,
                direct_ms: Some(50.0),
                to_ingress_ms: Some(10.0),
                between_relays_ms: Some(40.0),
                to_receiver_ms: None,
                ingress: Some("east".to_owned()),
                egress: Some("west".to_owned()),
                rate_bits_per_second: 1_000_000,
                packet_bytes: 1_000,
                prices: "list prices".to_owned(),
                currency: Some("EUR".to_owned()),
            },
            candidates: vec![prediction("internet", Some("is not allowed")), prediction("caching", None)],
            would_change: vec!["with a latency budget of 195 ms or more: retransmission".to_owned()],
            changes: vec![ServiceChangeEntry {
                seconds_ago: 12,
                from: "pull".to_owned(),
                to: "caching".to_owned(),
                reason: "cheapest service".to_owned(),
            }],
        };
        let page = super::explanation(&explanation);
        let expected = "\
flow bob:7 to echo: caching (cheapest service, by list prices)
  target: 110 ms from sending to delivery, at most 0.10 % lost or late
  measured: direct path 50.0 ms, loss 1.00 %; 1.0 Mbit/s in packets of 1000 bytes; relays east and west (10.0 ms, 40.0 ms, -); list prices in EUR

  service        p50  p95  lost: p50  lost: p95  residual  cents/h      uplink      relays         why not
  ────────────────────────────────────────────────────────────────────────────────────────────────────────
  internet   50.0 ms    -          -    90.0 ms    1.00 %   1.2346  1.0 Mbit/s  0.1 kbit/s  is not allowed
  caching *  50.0 ms    -          -    90.0 ms    1.00 %   1.2346  1.0 Mbit/s  0.1 kbit/s               -
  (* in force)

What would change the choice:
  with a latency budget of 195 ms or more: retransmission

Last changes:
  12 s ago: pull to caching, cheapest service
";
        assert_eq!(page, expected);
        let flows = list(&FlowList { flows: vec![flow] });
        assert!(flows.contains("bob:7  echo  caching      Byway"), "{flows}");
        assert!(list(&FlowList::default()).starts_with("no flows"));
    }

    #[test]
    fn before_delays_are_measured_the_page_says_so() {
        let explanation = FlowExplanation {
            flow: FlowSummary {
                id: "bob:7".to_owned(),
                to: "echo".to_owned(),
                service: "caching".to_owned(),
                is_automatic: false,
            },
            reason: "named in the settings".to_owned(),
            latency_budget_ms: 250.0,
            residual_loss_max: 0.001,
            measured: FlowMeasurements::default(),
            candidates: vec![],
            would_change: vec![],
            changes: vec![],
        };
        let page = super::explanation(&explanation);
        assert!(page.contains("candidates: none yet") && page.contains("Last changes:\n  none"), "{page}");
    }
}
