//! Prices as typed in a file, right and wrong.

use super::super::raw::RawFile;
use super::*;
use byway_config_types::{KeyPath, Source};

/// Returns the prices of two relays: `east` with these keys, `west` in Byway's list.
fn checked(east: &str) -> Result<PriceSheets, String> {
    checked_with(east, "provider = \"aws\"\nregion = \"us-east-1\"")
}

fn checked_with(east: &str, west: &str) -> Result<PriceSheets, String> {
    let text = format!(
        "[[controller.relays]]\nname = \"east\"\n[controller.relays.prices]\n{east}\n\
         [[controller.relays]]\nname = \"west\"\n[controller.relays.prices]\n{west}\n"
    );
    let source = Source::new(std::path::Path::new("byway.toml"), text.clone());
    let file: RawFile = toml::from_str(&text).map_err(|error| source.parse_problem(&error).to_string())?;
    let relays = file.controller.expect("it is in the text").relays;
    let root = KeyPath::of("controller").key("relays");
    let typed = relays.iter().enumerate();
    let typed =
        typed.map(|(index, relay)| (root.index(index).key("prices"), relay.name.as_str(), &relay.prices));
    PriceSheets::check(typed, &source).map_err(|problem| problem.to_string())
}

fn entries(prices: &PriceSheets, numbers: &[(&str, u32)]) -> BTreeMap<u32, RelayPrices> {
    super::entries(prices, &numbers.iter().copied().collect(), |_, sheet| sheet.marginal_as_expected())
}

const ACME: &str = "provider = \"acme\"\nregion = \"moon-1\"\n";

#[test]
fn a_sheet_with_every_kind_of_price_is_read() {
    let prices = checked(&format!(
        "{ACME}ingress = \"0.01/GB\"\nmachine = \"0.05/h\"\nincluded = \"100 GB\"\nexpected_egress = \"20 TB\"\n\
         egress = [{{ to = \"10 TB\", price = \"0.09/GB\" }}, {{ price = \"0.085/GB\" }}]\n\
         to = [{{ provider = \"aws\", egress = [{{ price = \"0.03/GB\" }}] }},\
               {{ provider = \"aws\", region = \"us-east-1\", egress = [{{ price = \"0.02/GB\" }}] }}]"
    ));
    let prices = prices.expect("right prices");
    let both = entries(&prices, &[("east", 3), ("west", 4)]);
    let expected = RelayPrices {
        currency: "USD".to_owned(),
        ingress_nanounits_per_gigabyte: 10_000_000,
        egress_nanounits_per_gigabyte: 85_000_000,
        machine_nanounits_per_hour: 50_000_000,
        to_relays: vec![PriceToRelay { relay: 4, nanounits_per_gigabyte: 20_000_000 }],
    };
    assert_eq!(both[&3], expected);
    assert_eq!((both[&4].egress_nanounits_per_gigabyte, both[&4].to_relay(3)), (90_000_000, 90_000_000));
    let alone = entries(&prices, &[("east", 3)]);
    assert_eq!(alone.keys().collect::<Vec<_>>(), [&3], "west has not joined");
}

#[test]
fn ports_and_other_currencies_are_read() {
    let euros = |kind: &str| {
        let sheet = format!("{ACME}currency = \"EUR\"\n{kind}");
        checked_with(&sheet, &sheet).map(|prices| entries(&prices, &[("east", 1)]).remove(&1))
    };
    for (kind, price) in [
        ("flat_rate = { price = \"20/month\", rate = \"1 Gbit/s\" }", 0),
        ("percentile_95 = \"1.20/Mbit/s\"", 3_652_968),
    ] {
        let entry = euros(kind).expect(kind).expect("it has prices");
        assert_eq!((entry.currency.as_str(), entry.egress_nanounits_per_gigabyte), ("EUR", price));
    }
}

/// Checks that the prices of the first relay are refused at this key, with this problem.
fn check_refusals(cases: &[(String, &str, &str)]) {
    for (east, key, problem) in cases {
        let error = checked(east).expect_err(problem);
        // Only the second relay has another currency than the one before.
        let (index, relay) = if *problem == "in one currency" { (1, "west") } else { (0, "east") };
        let place = format!("controller.relays[{index}].prices.{key}: prices of relay {relay:?}: ");
        assert!(
            error.starts_with("byway.toml:") && error.contains(&place) && error.contains(problem),
            "{error}"
        );
    }
}

#[test]
fn wrong_prices_are_refused_with_the_relay_the_key_and_a_remedy() {
    let tiers = |tiers: &str| format!("{ACME}egress = [{tiers}]");
    let with = |keys: &str| format!("{ACME}egress = [{{ price = \"0.09/GB\" }}]\n{keys}");
    check_refusals(&[
        (
            tiers("{ to = \"1 TB\", price = \"0.09/GB\" }, { from = \"2 TB\", price = \"0.08/GB\" }"),
            "egress[1].from",
            "no price from 1 TB to 2 TB",
        ),
        (
            tiers("{ to = \"3 TB\", price = \"0.09/GB\" }, { from = \"2 TB\", price = \"0.08/GB\" }"),
            "egress[1].from",
            "overlap",
        ),
        (tiers("{ from = \"1 GB\", price = \"0.09/GB\" }"), "egress[0].from", "no price from 0 B"),
        (tiers("{ to = \"1 GB\", price = \"0.09/GB\" }"), "egress[0].to", "no price beyond 1 GB"),
        (tiers("{ price = \"-0.09/GB\" }"), "egress[0].price", "negative price"),
        (with("ingress = \"-1/GB\""), "ingress", "negative price"),
        (with("machine = \"-1/h\""), "machine", "negative price"),
        (with("currency = \"DOGE\""), "currency", "\"DOGE\": unknown currency"),
        (with("currency = \"EUR\""), "currency", "in one currency"),
        (with("percentile_95 = \"1/Mbit/s\""), "percentile_95", "`egress` is set too"),
        (
            with("to = [{ provider = \"awz\", egress = [{ price = \"0/GB\" }] }]"),
            "to[0].provider",
            "unknown provider \"awz\"",
        ),
        (
            with("to = [{ provider = \"aws\", region = \"moon-1\", egress = [{ price = \"0/GB\" }] }]"),
            "to[0].region",
            "unknown region \"moon-1\"",
        ),
        (with("to = [{ provider = \"aws\", egress = [] }]"), "to[0].egress", "no tier"),
        (
            with(
                "to = [{ provider = \"aws\", egress = [{ price = \"0/GB\" }] }, { provider = \"aws\", egress = [{ price = \"0/GB\" }] }]",
            ),
            "to[1]",
            "duplicate destination aws",
        ),
    ]);
}

#[test]
fn wrong_ports_and_providers_are_refused_with_the_relay_the_key_and_a_remedy() {
    check_refusals(&[
        (
            format!("{ACME}percentile_95 = \"1/Mbit/s\"\nincluded = \"1 GB\""),
            "included",
            "`percentile_95` is set too",
        ),
        (format!("{ACME}percentile_95 = \"1/Mbit/s\"\ningress = \"1/GB\""), "percentile_95", "all bytes"),
        (
            format!("{ACME}flat_rate = {{ price = \"-1/month\", rate = \"1 Gbit/s\" }}"),
            "flat_rate",
            "negative price",
        ),
        (
            format!("{ACME}flat_rate = {{ price = \"1/month\", rate = \"0 bit/s\" }}"),
            "flat_rate.rate",
            "without a rate",
        ),
        (ACME.to_owned(), "provider", "unknown provider \"acme\""),
        ("provider = \"aws\"\nregion = \"moon-1\"".to_owned(), "region", "unknown region \"moon-1\""),
        (
            "provider = \"aws\"\nregion = \"us-east-1\"\nincluded = \"1 GB\"".to_owned(),
            "included",
            "set `egress` too",
        ),
        ("provider = \"aws\"\nregion = \"us-east-1\"\ncurrency = \"EUR\"".to_owned(), "currency", "in USD"),
        ("provider = \"a:b\"\nregion = \"us-east-1\"".to_owned(), "provider", "invalid name"),
    ]);
}

#[test]
fn keys_and_prices_that_are_none_are_refused_with_their_line() {
    for (keys, problem) in [
        ("egress = [{ price = \"$0.09/GB\" }]", "as in \"0.09/GB\""),
        ("egress = [{ price = \"0.09/GB\", until = \"1 TB\" }]", "unknown field `until`"),
        ("machine = \"0.05\"", "as in \"0.05/h\""),
        ("egres = []", "unknown field `egres`"),
    ] {
        let error = checked(&format!("{ACME}{keys}")).expect_err(problem);
        assert!(error.starts_with("byway.toml:6: ") && error.contains(problem), "{error}");
    }
}
