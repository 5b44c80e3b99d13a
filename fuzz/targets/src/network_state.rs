//! Fuzz target: links, readers and transports that send a table and a sender anything.

use byway_state::{
    Ack, Congestion, CongestionControl, ENTRIES_MAX, FlowCounts, LinkEntry, LinkId, LinkMeter, LinkSample,
    LinkState, NetworkId, PacketSize, Path, PathEntry, Policy, PolicySettings, QueueObservation, Rules,
    StateQuery, Table,
};
use byway_units::{Bytes, Duration, Probability, Rate, Time};

use crate::harness::input::Input;

/// Numbers of link entries: usual ones, bounds, and what no number should be.
const NUMBERS: [f64; 24] = [
    0.0,
    -0.0,
    1e-10,
    0.001,
    0.01,
    0.05,
    0.1,
    1.0,
    9.999,
    10.0,
    1_500.0,
    3_000.0,
    31_250.0,
    625_000.0,
    6_250_000.0,
    16_777_216.0,
    1e9,
    1.25e12,
    1e18,
    f64::MAX,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// Links of the table.
const LINKS: u32 = 3;

/// A table with its links' meters, and senders that read it.
struct Stage {
    now: Time,
    meters: Vec<LinkMeter>,
    table: Table,
    newest: u64,
    senders: [CongestionControl; 2],
    policy: Policy,
}

/// Feeds entries, samples, queries, acknowledgments and observations of a link.
///
/// # Panics
/// - If a table, a sender or a policy panics.
/// - If an entry changes when it is written and read again.
/// - If indices of a table have gaps, or an answer is longer than asked for.
/// - If a window or a rate is out of range.
pub fn network_state(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut stage = Stage::new();
    while !input.is_empty() {
        stage.now = if input.byte() == 255 { Time::START } else { stage.now.saturating_add(input.step()) };
        match input.byte() % 8 {
            0 => stage.read_published(&mut input),
            1 | 2 => stage.report_sample(&mut input),
            3 => stage.tick(),
            4 => stage.answer_query(&mut input),
            5 => stage.transport_event(&mut input),
            6 => stage.observe_queues(&mut input),
            _ => stage.change_path(&mut input),
        }
        for sender in &stage.senders {
            check_sender(sender);
        }
    }
}

fn link(number: u32) -> LinkId {
    LinkId::new(NetworkId::new(1), number)
}

fn number(input: &mut Input<'_>) -> f64 {
    match input.byte() {
        255 => f64::from_bits(u64::from_be_bytes(input.array())),
        choice => NUMBERS[usize::from(choice) % NUMBERS.len()],
    }
}

/// Returns a number of a sample, mostly near a usual one.
fn count(input: &mut Input<'_>, usual: u64) -> u64 {
    match input.byte() {
        255 => u64::from_be_bytes(input.array()),
        254 => 0,
        253 => u64::MAX,
        by => usual.saturating_add(u64::from(by)),
    }
}

impl Stage {
    fn new() -> Self {
        let size = PacketSize::new(1_500, 48).expect("usual packets");
        let capacity = Rate::from_megabits_per_second(5);
        let settings = PolicySettings::new(capacity, Probability::ZERO).expect("a usual link");
        Self {
            now: Time::START,
            meters: (0..LINKS).map(|number| LinkMeter::new(link(number))).collect(),
            table: Table::new(Path::new([link(0)]).expect("a path")),
            newest: 0,
            senders: [Rules::CORRECTED, Rules::PUBLISHED].map(|rules| CongestionControl::new(size, rules)),
            policy: Policy::new(settings),
        }
    }

    fn deliver(&mut self, entry: &PathEntry, is_back: bool) {
        for sender in &mut self.senders {
            if is_back {
                sender.on_back_entry(entry, self.now);
            } else {
                sender.on_forward_entry(entry, self.now);
            }
        }
    }

    fn read_published(&mut self, input: &mut Input<'_>) {
        let (choice, count) = (input.byte(), [1_usize, 1, 2, 3, 64, 65, 0, 8][input.below(8)]);
        let announced = if choice & 1 == 0 { count as u64 } else { u64::from(input.byte()) };
        let first: [f64; 5] = std::array::from_fn(|_| number(input));
        let second: [f64; 5] = std::array::from_fn(|_| number(input));
        let links: Vec<_> = (0..count).map(|index| if index % 2 == 0 { first } else { second }).collect();
        let age = Duration::from_millis(u64::from(input.byte()) * 30);
        let Ok(entry) = PathEntry::from_published(u64::from(choice), announced, &links, age) else { return };
        let written: Vec<_> = entry.published().collect();
        let again = PathEntry::from_published(entry.index(), count as u64, &written, age);
        assert_eq!(again.as_ref(), Ok(&entry));
        self.deliver(&entry, choice & 2 != 0);
    }

    fn report_sample(&mut self, input: &mut Input<'_>) {
        let index = input.below(self.meters.len());
        let micros = self.now.as_nanos() / 1_000;
        let sample = LinkSample {
            incarnation: u64::from(input.byte() / 128),
            number: count(input, micros / 50_000),
            clock: Time::from_nanos(count(input, micros).saturating_mul(1_000)),
            sent: Bytes::new(count(input, micros / 2)),
            backlog: Bytes::new(count(input, 1_500)),
            shown: Rate::from_bits_per_second(count(input, 5_000_000)),
            guaranteed: Rate::from_bits_per_second(count(input, 2_500_000)),
            delay: Duration::from_nanos(count(input, 10_000_000)),
            target: Bytes::new(count(input, 1_500)),
            flows: FlowCounts { interactive: 1, other: input.long() },
        };
        let transit = Duration::from_millis(u64::from(input.byte()));
        if let Ok(Some(state)) = self.meters[index].on_sample(sample, transit, self.now) {
            assert!(state.entry().has_news());
            check_state(&state);
            let is_on_path = self.table.path().links().contains(&state.link());
            assert_eq!(self.table.report(&state, self.now), is_on_path);
        }
    }

    fn tick(&mut self) {
        let Some(entry) = self.table.tick(self.now).cloned() else {
            assert!(self.table.silent_link(self.now).is_some());
            return;
        };
        self.newest += 1;
        assert_eq!(entry.index(), self.newest);
        entry.links().iter().for_each(check_state);
        self.deliver(&entry, false);
    }

    fn answer_query(&mut self, input: &mut Input<'_>) {
        let lengths = [input.below(24), input.below(24)];
        let [last, entries_max] = lengths.map(|length| {
            let digits = input.bytes(length).iter().map(|byte| b"0123456789-+. 9e"[usize::from(*byte) % 16]);
            digits.map(char::from).collect::<String>()
        });
        let Ok(query) = StateQuery::parse(&last, (!entries_max.is_empty()).then_some(&entries_max)) else {
            return;
        };
        let indices: Vec<u64> = self.table.after(query, self.now).map(PathEntry::index).collect();
        assert!(indices.len() <= query.entries_max() && query.entries_max() <= ENTRIES_MAX);
        assert!(indices.windows(2).all(|pair| pair[1] == pair[0] + 1));
        let is_restart = query.last() > self.newest;
        assert!(indices.first().is_none_or(|first| is_restart || *first > query.last()));
        assert!(indices.last().is_none_or(|last| *last == self.newest));
    }

    fn transport_event(&mut self, input: &mut Input<'_>) {
        let event = input.byte();
        let ack = Ack {
            bytes: Bytes::new(count(input, 1_452)),
            packets: u32::from(input.byte()),
            round_trip: Duration::from_nanos(count(input, 100_000_000)),
            is_app_limited: event & 1 == 0,
        };
        for sender in &mut self.senders {
            match event % 8 {
                0 => sender.on_congestion(Congestion::Lost(ack.bytes), self.now),
                1 => sender.on_congestion(Congestion::Marked, self.now),
                2 => sender.on_congestion(Congestion::Persistent, self.now),
                3 => sender.on_sent(self.now),
                _ => sender.on_ack(ack, self.now),
            }
        }
    }

    fn observe_queues(&mut self, input: &mut Input<'_>) {
        let observation = QueueObservation {
            flows: FlowCounts { interactive: input.long(), other: u32::from(input.byte()) },
            other_backlog: Bytes::new(u64::from(input.byte() / 200)),
            other_sent: Bytes::new(count(input, self.now.as_nanos() / 10_000)),
        };
        let rates = self.policy.update(observation, self.now);
        let capacity = Rate::from_megabits_per_second(5);
        assert!(rates.guaranteed > Rate::ZERO && rates.guaranteed <= capacity, "{rates:?}");
        assert!(rates.shown > Rate::ZERO && rates.shown <= capacity, "{rates:?}");
    }

    fn change_path(&mut self, input: &mut Input<'_>) {
        let links = (0..input.below(5)).map(|_| link(u32::from(input.byte()) % LINKS));
        if let Ok(path) = Path::new(links.collect::<Vec<_>>()) {
            self.table.set_path(path);
        }
    }
}

/// Checks that a state consists of values that would be accepted from outside.
fn check_state(state: &LinkState) {
    let entry = state.entry();
    let again = LinkEntry::new(entry.interval(), entry.sent(), entry.backlog(), entry.shown(), entry.delay());
    assert_eq!(again.as_ref(), Ok(entry));
    assert!(LinkState::new(state.link(), *entry, state.age()).is_ok());
}

fn check_sender(sender: &CongestionControl) {
    let window = sender.window();
    assert!(window >= Bytes::new(2 * 1_452) && window.count().is_multiple_of(1_452), "{window}");
    assert!(sender.pacing().rate >= Rate::from_bits_per_second(2 * 8 * 1_452), "two packets a second");
    if let Some(decision) = sender.decision() {
        assert!(decision.window < Bytes::MAX && decision.rate < Rate::MAX, "{decision:?}");
    }
}
