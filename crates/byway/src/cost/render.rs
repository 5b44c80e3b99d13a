//! Costs as text for people.

use std::fmt::Write as _;

use byway_api::{AgentCost, CostTotals, NetworkCost, RelayBill, RelayCost};
use byway_units::Bytes;

use crate::table::aligned;

/// Returns a relay's traffic and bill as text.
pub(super) fn relay(cost: &RelayCost) -> String {
    let mut page = format!("relay {}, {} so far\n", cost.name, cost.month);
    let _ = writeln!(page, "  received {}", Bytes::new(cost.received_bytes));
    for sent in &cost.sent {
        let _ = writeln!(page, "  sent to {}: {}", sent.to, Bytes::new(sent.bytes));
    }
    // A relay of one tenant has charged everything to it.
    for tenant in cost.tenants.iter().filter(|_| cost.tenants.len() > 1) {
        let [sent, returned] = [tenant.sent_bytes, tenant.returned_bytes].map(Bytes::new);
        let _ = writeln!(page, "  for tenant {}: {sent} sent, {returned} from helpers", tenant.tenant);
    }
    if let Some(bill) = &cost.bill {
        page += &bill_text(bill);
    }
    if let Some(note) = &cost.note {
        let _ = writeln!(page, "  note: {note}");
    }
    page
}

fn bill_text(bill: &RelayBill) -> String {
    let head = ["item", "bytes", bill.currency.as_str()].map(str::to_owned);
    let rows = bill.items.iter().map(|item| {
        let bytes = if item.bytes == 0 { "-".to_owned() } else { Bytes::new(item.bytes).to_string() };
        [item.name.clone(), bytes, amount(item.nanounits)]
    });
    let total = ["total".to_owned(), String::new(), amount(bill.total_nanounits)];
    let rows: Vec<_> = std::iter::once(head).chain(rows).chain([total]).collect();
    let mut text = String::from("\n");
    for line in aligned(&rows).lines() {
        let _ = writeln!(text, "  {line}");
    }
    let next = &bill.next;
    let _ = writeln!(
        text,
        "  next bytes at the month's forecast: {}/GB to the Internet, {}/GB received",
        amount(next.egress_nanounits_per_gigabyte),
        amount(next.ingress_nanounits_per_gigabyte)
    );
    text
}

/// Returns the costs of a network's relays as text, with their sum.
pub(super) fn network(cost: &NetworkCost) -> String {
    if cost.relays.is_empty() {
        return format!("network {}: no relay has reported its traffic yet\n", cost.name);
    }
    let mut page: String = cost.relays.iter().map(relay).collect();
    let bills = cost.relays.iter().filter_map(|relay| relay.bill.as_ref());
    let total = bills.clone().fold(0_i64, |total, bill| total.saturating_add(bill.total_nanounits));
    if let Some(bill) = bills.clone().next() {
        let (count, all) = (bills.count(), cost.relays.len());
        let _ = writeln!(
            page,
            "network {}: {} {} this month so far, for {count} of {all} relays",
            cost.name,
            amount(total),
            bill.currency
        );
    }
    page
}

/// Returns the costs of an agent's flows as text, beside those without relays and with relays for
/// every packet.
pub(super) fn agent(cost: &AgentCost) -> String {
    let currency = cost.currency.as_deref().unwrap_or("nominal");
    let head = [
        "flow",
        "service",
        "relays",
        "direct",
        "to relays",
        "between",
        "from relays",
        currency,
        "all relayed",
    ];
    let row = |name: &str, service: &str, relays: String, totals: &CostTotals| {
        let bytes = |bytes| Bytes::new(bytes).to_string();
        [
            name.to_owned(),
            service.to_owned(),
            relays,
            bytes(totals.direct_bytes),
            bytes(totals.to_relays_bytes),
            bytes(totals.between_relays_bytes),
            bytes(totals.from_relays_bytes),
            amount(totals.nanounits),
            amount(totals.all_relayed_nanounits),
        ]
    };
    let flows = cost.flows.iter().map(|flow| {
        let relays = flow.relays.as_ref().map_or_else(|| "-".to_owned(), |relays| relays.join(", "));
        row(&flow.id, &flow.service, relays, &flow.totals)
    });
    let sums = [("ended flows", &cost.ended), ("total", &cost.total)];
    let sums = sums.map(|(name, totals)| row(name, "", String::new(), totals));
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(flows).chain(sums).collect();
    let mut page = format!("agent {}, since it started\n", cost.name);
    for line in aligned(&rows).lines() {
        let _ = writeln!(page, "  {line}");
    }
    let _ = writeln!(
        page,
        "  relays cost {} {currency}; all direct: 0; all relayed: {}",
        amount(cost.total.nanounits),
        amount(cost.total.all_relayed_nanounits)
    );
    page
}

/// Formats an amount with its fraction: at least two decimals, at most six.
fn amount(nanounits: i64) -> String {
    const NANOUNITS: u64 = 1_000_000_000;
    let sign = if nanounits < 0 { "-" } else { "" };
    let micro = nanounits.unsigned_abs().saturating_add(500) / 1_000;
    let (whole, fraction) = (micro / (NANOUNITS / 1_000), micro % (NANOUNITS / 1_000));
    let digits = format!("{fraction:06}");
    let kept = digits.trim_end_matches('0').len().max(2);
    format!("{sign}{whole}.{}", &digits[..kept])
}

#[cfg(test)]
mod tests {
    use byway_api::{BytesToDestination, FlowCost, RelayBillItem, RelayPrices, TenantBytes};

    use super::*;

    fn relay_cost() -> RelayCost {
        let item = |name: &str, bytes, nanounits| RelayBillItem { name: name.to_owned(), bytes, nanounits };
        RelayCost {
            name: "east".to_owned(),
            month: "2026-11".to_owned(),
            since_unix_seconds: 0,
            until_unix_seconds: 1,
            received_bytes: 3_500_000_000,
            sent: vec![BytesToDestination { to: "agents".to_owned(), relay: None, bytes: 2_000_000_000 }],
            percentile_95_sample_bytes: 0,
            bill: Some(RelayBill {
                currency: "EUR".to_owned(),
                items: vec![
                    item("machine", 0, 1_200_000_000),
                    item("egress to Internet", 2_000_000_000, 180_000_000),
                ],
                total_nanounits: 1_380_000_000,
                invoiced_cents: 138,
                next: RelayPrices {
                    currency: "EUR".to_owned(),
                    ingress_nanounits_per_gigabyte: 0,
                    egress_nanounits_per_gigabyte: 90_000_000,
                    machine_nanounits_per_hour: 0,
                    to_relays: vec![],
                },
            }),
            note: None,
            tenants: vec![],
        }
    }

    #[test]
    fn a_relay_shows_its_bytes_and_its_bill() {
        let expected = "\
relay east, 2026-11 so far
  received 3.5 GB
  sent to agents: 2 GB

  item                bytes   EUR
  ───────────────────────────────
  machine                 -  1.20
  egress to Internet   2 GB  0.18
  total                      1.38
  next bytes at the month's forecast: 0.09/GB to the Internet, 0.00/GB received
";
        assert_eq!(relay(&relay_cost()), expected);
    }

    #[test]
    fn a_relay_of_several_tenants_shows_what_it_charged_to_each() {
        let of = |tenant, sent_bytes| TenantBytes { tenant, sent_bytes, returned_bytes: 5_000_000 };
        let with = |tenants| relay(&RelayCost { tenants, ..relay_cost() });
        let page = with(vec![of(1, 2_000_000_000), of(2, 30_000_000)]);
        let tenants = "  for tenant 1: 2 GB sent, 5 MB from helpers\n\
                       \x20 for tenant 2: 30 MB sent, 5 MB from helpers\n";
        assert!(page.contains(tenants), "{page}");
        assert!(!with(vec![of(1, 2_000_000_000)]).contains("tenant"));
    }

    #[test]
    fn a_controller_shows_all_relays_and_their_sum() {
        let unpriced = RelayCost { name: "west".to_owned(), bill: None, ..relay_cost() };
        let relays = vec![relay_cost(), RelayCost { name: "north".to_owned(), ..relay_cost() }, unpriced];
        let page = network(&NetworkCost { name: "lab".to_owned(), relays });
        assert!(page.ends_with("network lab: 2.76 EUR this month so far, for 2 of 3 relays\n"), "{page}");
        assert!(network(&NetworkCost::default()).contains("no relay has reported"));
    }

    #[test]
    fn an_agent_shows_its_flows_beside_all_direct_and_all_relayed() {
        let totals = CostTotals {
            direct_bytes: 1_000_000,
            to_relays_bytes: 20_000,
            between_relays_bytes: 20_000,
            from_relays_bytes: 20_000,
            nanounits: 3_600,
            all_relayed_nanounits: 180_000,
        };
        let flow = FlowCost {
            id: "bob:7".to_owned(),
            service: "retransmission".to_owned(),
            relays: Some(["east".to_owned(), "west".to_owned()]),
            totals,
        };
        let cost = AgentCost {
            name: "alice".to_owned(),
            currency: Some("USD".to_owned()),
            flows: vec![flow],
            ended: CostTotals::default(),
            total: totals,
        };
        let page = agent(&cost);
        assert!(
            page.contains("bob:7        retransmission  east, west    1 MB      20 kB    20 kB"),
            "{page}"
        );
        assert!(page.ends_with("relays cost 0.000004 USD; all direct: 0; all relayed: 0.00018\n"), "{page}");
    }

    #[test]
    fn amounts_have_at_least_cents() {
        let amounts = [0, 1_000_000_000, -20_000_000, 1_234_567_890, 499].map(amount);
        assert_eq!(amounts, ["0.00", "1.00", "-0.02", "1.234568", "0.00"]);
    }
}
