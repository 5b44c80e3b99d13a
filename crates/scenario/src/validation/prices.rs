//! Validation of the prices of relays, and of the time of explanations.

use byway_config_types::{DurationSetting, KeyPath, PriceSheets, Problem};
use byway_units::Duration;

use super::names::Names;
use super::{Reader, element};
use crate::raw::{NodeSetting, RoleSetting};

/// Returns the prices of all relays that have some, by name.
pub(super) fn prices(
    reader: &Reader<'_>,
    typed: &[NodeSetting],
    names: &Names,
) -> Result<PriceSheets, Problem> {
    let mut priced = Vec::new();
    for (index, node) in typed.iter().enumerate() {
        let Some(setting) = &node.prices else {
            continue;
        };
        let here = element("node", index).key("prices");
        if node.role != RoleSetting::Relay {
            let message = "not allowed here: only relays have prices";
            return Err(reader.problem(&here, message));
        }
        let members = names.members(reader, &element("node", index).key("name"), &node.name)?;
        priced.extend(members.map(|member| (here.clone(), names.name(member), setting)));
    }
    PriceSheets::check(priced.into_iter(), reader.source)
}

/// Returns the time at which services are explained.
pub(super) fn explain_at(
    reader: &Reader<'_>,
    typed: Option<DurationSetting>,
    length: Duration,
) -> Result<Option<Duration>, Problem> {
    match typed {
        Some(at) if at.0 >= length => {
            let message = format!("{} is not before the end, {length}: set an earlier time", at.0);
            Err(reader.problem(&KeyPath::of("explain"), message))
        }
        other => Ok(other.map(|at| at.0)),
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    /// Returns a scenario whose second relay has these keys.
    fn text(west: &str, more: &str) -> String {
        format!(
            r#"title = "Prices"
length = "10 s"
{more}
node = [
    {{ name = "alice", role = "agent" }},
    {{ name = "bob", role = "agent" }},
    {{ name = "east", role = "relay", prices = {{ provider = "aws", region = "us-east-1" }} }},
    {{ name = "west", count = 2, {west} }},
]
link = [{{ between = ["alice", "bob"], delay = "40 ms" }}]
flow = [{{ name = "call", from = "alice", to = "bob", service = "internet",
    sends = {{ kind = "steady", every = "10 ms", bytes = 500 }} }}]
"#
        )
    }

    fn problem(west: &str, more: &str) -> String {
        Scenario::parse(&text(west, more)).expect_err("it is wrong").to_string()
    }

    #[test]
    fn every_relay_of_a_name_has_its_prices() {
        let west = "role = \"relay\", prices = { provider = \"acme\", region = \"one\", \
                    egress = [{ price = \"0.09/GB\" }] }";
        let scenario = Scenario::parse(&text(west, "explain = \"5 s\"")).expect("right prices");
        let names: Vec<&str> = scenario.prices.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["east", "west.1", "west.2"]);
    }

    #[test]
    fn wrong_prices_and_times_are_refused_with_the_place_and_a_remedy() {
        let relay = |prices: &str| format!("role = \"relay\", prices = {{ {prices} }}");
        let acme = "provider = \"acme\", region = \"one\", ";
        for (west, more, expected) in [
            (
                relay(&format!("{acme} egress = [{{ price = \"-1/GB\" }}]")),
                "",
                "egress[0].price: prices of relay \"west.1\": negative price",
            ),
            (
                relay(&format!("{acme} egress = [{{ from = \"1 TB\", price = \"1/GB\" }}]")),
                "",
                "no price from 0 B to 1 TB",
            ),
            (relay("provider = \"acme\", region = \"one\""), "", "unknown provider \"acme\""),
            (relay("provider = \"aws\", region = \"moon\""), "", "unknown region \"moon\""),
            (
                relay(&format!("{acme} currency = \"EUR\", egress = [{{ price = \"1/GB\" }}]")),
                "",
                "in one currency",
            ),
            (relay(&format!("{acme} egress = [{{ price = \"1 dollar\" }}]")), "", "as in \"0.09/GB\""),
            (
                format!("role = \"agent\", prices = {{ {acme} egress = [{{ price = \"1/GB\" }}] }}"),
                "",
                "node[3].prices: not allowed here: only relays have prices",
            ),
            (
                "role = \"relay\"".to_owned(),
                "explain = \"10 s\"",
                "explain: 10 s is not before the end, 10 s",
            ),
        ] {
            let problem = problem(&west, more);
            assert!(problem.contains(expected), "{expected}: {problem}");
        }
    }
}
