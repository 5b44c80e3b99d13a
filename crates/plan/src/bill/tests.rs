//! Bills against known months and a naive oracle.

use byway_units::{Rate, RelayId};
use proptest::prelude::*;

use super::*;
use crate::currency::Currency;
use crate::price::{PricePerGigabyte, Tier};
use crate::price_sheet::DestinationPrice;

/// 2026-11-01, the begin of a month of 30 days.
const NOVEMBER: u64 = 1_793_491_200;

const SAMPLES: u64 = 30 * 288;

const MEGABIT: u64 = 1_000_000 / 8 * SAMPLE_SECONDS;

fn to_provider() -> Destination {
    Destination::Provider("aws".to_owned())
}

/// Returns the totals of a usage whose relays 1 and 2 are at listed and unlisted destinations.
fn totals(usage: &MonthUsage) -> UsageTotals {
    usage.totals(|relay| match relay.number() {
        1 => to_provider(),
        _ => Destination::Provider("formerly listed".to_owned()),
    })
}

fn sheet(tariff: Tariff) -> PriceSheet {
    PriceSheet {
        currency: Currency::USD,
        provider: "aws".to_owned(),
        region: "eu-central-1".to_owned(),
        incoming: PricePerGigabyte::FREE,
        to_internet: DestinationPrice { tariff, expected: Bytes::ZERO },
        to: BTreeMap::new(),
        machine_per_hour: Money::ZERO,
    }
}

fn per_gigabyte(nanodollars: i64) -> PricePerGigabyte {
    PricePerGigabyte::new(Money::from_nanodollars(nanodollars))
}

/// Returns a month in which each five-minute sample has these received and sent bytes.
fn month(sample: impl Fn(u64) -> [u64; 2]) -> MonthUsage {
    let mut usage = MonthUsage::new(NOVEMBER);
    for index in 0..SAMPLES {
        let [received, sent] = sample(index).map(Bytes::new);
        let at = NOVEMBER + (index + 1) * SAMPLE_SECONDS - 1;
        usage.record(at, received, &[(None, sent)]);
    }
    usage
}

/// Returns the cents of a synthetic month at 1.37 dollars for each megabit per second.
fn invoiced(usage: &MonthUsage) -> i64 {
    let sheet = sheet(Tariff::PerMegabit { per_month: Money::from_cents(137) });
    sheet.bill(&totals(usage)).invoiced().nanodollars() / 10_000_000
}

#[test]
fn a_synthetic_month_at_the_95th_percentile_is_exact_to_the_cent() {
    // 36 hours, 5 % of the month, may burst for free; five minutes more may not.
    let bursts =
        |count| month(move |index| [0, if index % 20 < count { 1_000 * MEGABIT } else { 100 * MEGABIT }]);
    assert_eq!(invoiced(&bursts(1)), 13_700);
    assert_eq!(invoiced(&bursts(2)), 137_000);
    let one_more =
        month(|index| [0, if index % 20 == 0 || index == 1 { 1_000 * MEGABIT } else { 100 * MEGABIT }]);
    assert_eq!(invoiced(&one_more), 137_000);
    // The direction with more at its own percentile is billed, not the sum.
    assert_eq!(invoiced(&month(|_| [300 * MEGABIT, 200 * MEGABIT])), 41_100);
    // 12.345678 Mbit/s at 1.37 dollars are 16.91357886 dollars.
    assert_eq!(invoiced(&month(|_| [0, 462_962_925])), 1_691);
    // A relay that sends for at most 5 % of the month costs nothing.
    assert_eq!(invoiced(&month(|index| [0, if index < 432 { 1_000 * MEGABIT } else { 0 }])), 0);
}

#[test]
fn a_rising_month_is_billed_at_its_433rd_highest_sample() {
    assert_eq!(month(|index| [index, 0]).percentile_95(), Bytes::new(SAMPLES - 1 - 432));
}

#[test]
fn every_kind_of_item_is_on_the_bill() {
    let tiers = vec![
        Tier { from: GIGABYTE * 100, price: per_gigabyte(90_000_000) },
        Tier { from: GIGABYTE * 10_000, price: per_gigabyte(85_000_000) },
    ];
    let mut sheet = sheet(Tariff::PerGigabyte(tiers));
    sheet.incoming = per_gigabyte(10_000_000);
    sheet.machine_per_hour = Money::from_nanodollars(41_600_000);
    sheet.to.insert(to_provider(), DestinationPrice::fixed(per_gigabyte(20_000_000)));
    let mut usage = MonthUsage::new(NOVEMBER);
    let sent = [
        (None, GIGABYTE * 12_000),
        (Some(RelayId::new(1)), GIGABYTE * 500),
        (Some(RelayId::new(2)), GIGABYTE * 100),
    ];
    usage.record(NOVEMBER + 720 * 3_600 - 1, GIGABYTE * 300, &sent);
    let bill = sheet.bill(&totals(&usage));
    let items = bill.items.iter().map(|item| (item.name.as_str(), item.invoiced().to_string()));
    let expected = [
        ("machine", "$29.95"),
        ("ingress", "$3.00"),
        ("egress to Internet", "$1069.50"),
        ("egress to aws", "$10.00"),
    ];
    assert!(items.eq(expected.map(|(name, money)| (name, money.to_owned()))), "{bill:?}");
    assert_eq!(bill.invoiced(), Money::from_cents(111_245));
    assert_eq!(bill.amount().to_string(), "$1112.451988444");
}

#[test]
fn a_port_costs_its_flat_rate_whatever_it_sends() {
    let port = Rate::from_megabits_per_second(1_000);
    let sheet = sheet(Tariff::FlatRate { port_per_month: Money::from_cents(2_050), port });
    for sample in [0, 900 * MEGABIT] {
        let bill = sheet.bill(&totals(&month(|_| [0, sample])));
        assert_eq!(bill.invoiced(), Money::from_cents(2_050));
    }
}

#[test]
fn another_month_is_another_usage() {
    let mut usage = MonthUsage::new(NOVEMBER);
    usage.record(NOVEMBER - 1, GIGABYTE, &[(None, GIGABYTE)]);
    usage.record(NOVEMBER + SAMPLES * SAMPLE_SECONDS, GIGABYTE, &[(None, GIGABYTE)]);
    assert_eq!(usage, MonthUsage::new(NOVEMBER));
}

#[test]
fn a_month_is_the_same_after_a_restart() {
    let usage = month(|index| [index * 7, index * 5]);
    let again = MonthUsage::restored(
        usage.recorded(),
        usage.received(),
        usage.sent().clone(),
        usage.samples().to_vec(),
    );
    assert_eq!(again, usage);
    let too_many =
        MonthUsage::restored((NOVEMBER, u64::MAX), Bytes::ZERO, BTreeMap::new(), vec![[1; 2]; 9_000]);
    assert_eq!((too_many.samples().len() as u64, too_many.recorded().1), (SAMPLES, NOVEMBER + 30 * 86_400));
}

#[test]
fn the_forecast_extends_the_month_so_far_and_begins_after_a_day() {
    let mut usage = MonthUsage::new(NOVEMBER);
    let volume = |usage: &MonthUsage| {
        totals(usage).forecast(&Destination::Internet, GIGABYTE * 7).count() / 1_000_000_000
    };
    usage.record(NOVEMBER + 86_399, Bytes::ZERO, &[(None, GIGABYTE * 10)]);
    assert_eq!(volume(&usage), 7);
    usage.record(NOVEMBER + 86_400, Bytes::ZERO, &[]);
    assert_eq!(volume(&usage), 300);
    usage.record(NOVEMBER + 15 * 86_400, Bytes::ZERO, &[(None, GIGABYTE * 20)]);
    assert_eq!(volume(&usage), 60);
    // A relay that began in the middle of the month sends for its rest only.
    let mut late = MonthUsage::new(NOVEMBER + 20 * 86_400);
    late.record(NOVEMBER + 25 * 86_400, Bytes::ZERO, &[(None, GIGABYTE * 50)]);
    assert_eq!(volume(&late), 100);
}

#[test]
fn prices_of_next_bytes_change_once_a_day() {
    let (quota, day) = (GIGABYTE * 300, 86_400);
    let sheet = sheet(Tariff::quota(quota, per_gigabyte(10_000_000)));
    let mut usage = MonthUsage::new(NOVEMBER);
    let mut daily = DailyPrices::default();
    let mut at =
        |usage: &MonthUsage, time: u64| daily.at(time, &sheet, &totals(usage)).to(&Destination::Internet);
    usage.record(NOVEMBER + day, Bytes::ZERO, &[(None, GIGABYTE * 9)]);
    assert_eq!(at(&usage, NOVEMBER + day), PricePerGigabyte::FREE);
    usage.record(NOVEMBER + 2 * day - 1, Bytes::ZERO, &[(None, GIGABYTE * 30)]);
    assert_eq!(at(&usage, NOVEMBER + 2 * day - 1), PricePerGigabyte::FREE, "the same day");
    assert_eq!(at(&usage, NOVEMBER + 2 * day), per_gigabyte(10_000_000));
    daily.reset();
    assert_eq!(daily, DailyPrices::default());
}

/// Returns the 95th percentile by its definition: the least amount that at most a twentieth of all
/// samples exceeds.
fn naive_percentile(samples: &[u64], count: u64) -> u64 {
    let exceeding = |amount: u64| samples.iter().filter(|sample| **sample > amount).count() as u64;
    let candidates = samples.iter().copied().chain([0]);
    candidates.filter(|amount| exceeding(*amount) * 20 <= count).min().expect("0 or the highest")
}

/// True if `money` is the multiple of a cent that is nearest to a fraction of nanounits.
fn is_nearest_cent(money: Money, nanounits: i128, per: i128) -> bool {
    let cents = i128::from(money.nanodollars());
    cents % CENT == 0 && (nanounits - cents * per).abs() * 2 <= CENT * per
}

proptest! {
    #[test]
    fn percentiles_are_those_of_the_definition_and_exact_to_the_cent(
        received in proptest::collection::vec(0..1_u64 << 40, 1..400),
        burst in 0..1_u64 << 40,
        price in 0..100_000_000_000_i64,
    ) {
        let mut usage = MonthUsage::new(NOVEMBER);
        let sent: Vec<u64> = received.iter().map(|bytes| bytes.reverse_bits() >> 24 ^ burst).collect();
        for (index, (received, sent)) in (0..).zip(received.iter().zip(&sent)) {
            let at = NOVEMBER + index * SAMPLE_SECONDS + 150;
            usage.record(at, Bytes::new(*received), &[(None, Bytes::new(*sent))]);
        }
        let count = received.len() as u64;
        let naive = naive_percentile(&received, count).max(naive_percentile(&sent, count));
        prop_assert_eq!(usage.percentile_95(), Bytes::new(naive));
        let sheet = sheet(Tariff::PerMegabit { per_month: Money::from_nanodollars(price) });
        let cents = sheet.bill(&totals(&usage)).items[1].invoiced();
        let nanounits = i128::from(price) * i128::from(naive) * 8;
        prop_assert!(is_nearest_cent(cents, nanounits, 300_000_000), "{}", cents);
    }

    #[test]
    fn bills_by_volume_are_those_of_single_gigabytes_and_exact_to_the_cent(
        starts in proptest::collection::btree_set(0..300_u64, 1..5),
        prices in proptest::array::uniform5(0..1_000_000_000_i64),
        included in 0..300_u64,
        gigabytes in 0..400_u64,
        odd_bytes in 0..1_000_000_000_u64,
    ) {
        let starts: Vec<u64> = core::iter::once(0).chain(starts.into_iter().map(|start| start + 1)).collect();
        let ranges = starts.iter().zip(prices).map(|(start, price)| crate::price::TierRange {
            from: Some(GIGABYTE * *start), to: None, price: per_gigabyte(price),
        });
        let ranges: Vec<_> = ranges.collect();
        let tariff = Tariff::from_ranges(&ranges, GIGABYTE * included).expect("no gaps");
        let price_at = |gigabyte: u64| {
            let tier = starts.iter().rposition(|start| *start <= gigabyte).expect("from 0 on");
            if gigabyte < included { 0 } else { i128::from(prices[tier]) }
        };
        let whole: i128 = (0..gigabytes).map(price_at).sum();
        let nanounits = whole * 1_000_000_000 + price_at(gigabytes) * i128::from(odd_bytes);
        let mut usage = MonthUsage::new(NOVEMBER);
        let bytes = Bytes::new(gigabytes * 1_000_000_000 + odd_bytes);
        usage.record(NOVEMBER, Bytes::ZERO, &[(None, bytes)]);
        let bill = sheet(tariff.clone()).bill(&totals(&usage));
        prop_assert!(is_nearest_cent(bill.items[2].invoiced(), nanounits, 1_000_000_000), "{:?}", bill);
        prop_assert_eq!(tariff.marginal(GIGABYTE * gigabytes), per_gigabyte(i64::try_from(price_at(gigabytes)).expect("small")));
    }

    #[test]
    fn no_sheet_and_no_traffic_overflows(
        price in any::<i64>(), bytes in any::<u64>(), seconds in any::<u64>(), port in 1..u64::MAX,
    ) {
        let money = Money::from_nanodollars(price);
        let port = Rate::from_bits_per_second(port);
        for tariff in [
            Tariff::fixed(per_gigabyte(price)),
            Tariff::PerMegabit { per_month: money },
            Tariff::FlatRate { port_per_month: money, port },
        ] {
            let mut usage = MonthUsage::new(seconds);
            for _ in 0..2 {
                usage.record(seconds, Bytes::new(bytes), &[(None, Bytes::new(bytes))]);
            }
            let sheet = PriceSheet { machine_per_hour: money, incoming: per_gigabyte(price), ..sheet(tariff) };
            let _ = (sheet.bill(&totals(&usage)).amount(), sheet.bill(&totals(&usage)).invoiced());
            let _ = sheet.marginal_at_forecast(&totals(&usage));
        }
    }
}
