//! Attacks of a member on the relay that it shares with others, each beside an honest flow of another tenant.
//!
//! Every attacker has real keys, grants of its own and a mate at the other relay, and sends authenticated datagrams as
//! fast as a line takes them. The relay is a processor in virtual time: a datagram takes it `DATAGRAM_TIME`, and each unit of work
//! that it counts `UNIT_TIME`. What the honest flow loses, how long its packets take, and what the attack costs is compared with a
//! control of as many datagrams that say nothing.
//!
//! The same attackers play at real relays, over sockets, wherever a [`Scene`] is given for them.

mod adversary;
mod aliases;
mod arrangement;
mod attacker;
mod challenges;
mod cookies;
mod cooperation;
mod fragments;
mod garbage;
mod initiations;
mod lost;
mod nack;
mod offers;
mod probes;
mod registrations;
mod replays;
mod reports;
mod requests;
mod restarts;
mod silence;
mod stage;

use std::fmt;

use byway_proto::limits::{SESSION_WORK_BURST, SESSION_WORK_PER_SECOND};
use byway_units::{Bytes, Duration};
use byway_wire::messages::FlowRole;
use byway_wire::{Alias, Message, Writer};

pub use arrangement::Arrangement;
pub use attacker::{Attacker, Credentials, Part};
pub use cookies::Forger;
pub use initiations::{InitiationFlood, PORTS};
pub use restarts::{Restarts, restarts, unpromised_restarts};
use stage::World;

/// What a relay takes to receive, open and answer a datagram of 1,200 bytes.
const DATAGRAM_TIME: Duration = Duration::from_micros(2);

/// What it takes for a unit of work.
const UNIT_TIME: Duration = Duration::from_nanos(20);

/// What is left of a datagram of 1,200 bytes for messages.
const PLAINTEXT_BYTES: usize = 1_175;

/// What reading one datagram's messages costs at most, in units of work, whatever the budget: 131 messages, and some lookups.
const READING_WORK: u64 = 160;

/// What attacks may make the relay keep.
const MEMORY_MAX: Bytes = Bytes::new(16 << 20);

/// The copies of the mate that the relay knows: from this number on, so many.
const KNOWN_FROM: u32 = 1_000;
const KNOWN: u32 = 500;

/// Makes the next datagram of an attacker, from how many there were and the first of them; `None` if there is nothing to say.
type Say = fn(&mut Attacker, u32, &[u8]) -> Option<Vec<u8>>;

/// An attacker: what it does beforehand, and what it sends then.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// What its datagrams are full of.
    pub name: &'static str,
    /// Sees to it that the relay knows something that the attack is about.
    prepare: fn(&mut dyn Scene),
    /// What it sends.
    datagram: Say,
}

/// Where attacks take place: in virtual time, or at a real relay.
pub trait Scene {
    /// The member in this part.
    fn member(&mut self, part: Part) -> &mut Attacker;

    /// Sends a packet to the relay of this part.
    fn send(&mut self, part: Part, packet: Vec<u8>);

    /// Lets time pass.
    fn pass(&mut self, time: Duration);
}

impl Attack {
    /// Sets up the flows of the attacker, so many that it receives, and what this attack is about.
    pub fn set_up(&self, scene: &mut dyn Scene, flows: u16) {
        register_all(scene, flows);
        (self.prepare)(scene);
    }

    /// The next datagram, from how many there were and the first of them.
    pub fn datagram(&self, attacker: &mut Attacker, nth: u32, first: &[u8]) -> Option<Vec<u8>> {
        (self.datagram)(attacker, nth, first)
    }
}

/// Registers flows that the attacker receives, the first of which its mate sends.
fn register_all(scene: &mut dyn Scene, flows: u16) {
    register_each(scene, Part::Attacker, FlowRole::Receiver, &(1..=flows).collect::<Vec<_>>());
    register_each(scene, Part::Mate, FlowRole::Sender, &[1]);
    scene.pass(Duration::from_millis(300));
}

/// Registers flows in this role, a datagram each 5 ms.
fn register_each(scene: &mut dyn Scene, part: Part, role: FlowRole, mut numbers: &[u16]) {
    while !numbers.is_empty() {
        let (packet, count) = scene.member(part).register_some(role, numbers);
        scene.send(part, packet.expect("it has a session"));
        scene.pass(Duration::from_millis(5));
        numbers = &numbers[count..];
    }
}

/// The mate sends packets of the attacker's first flow, which the relay then knows.
fn send_known(scene: &mut dyn Scene) {
    for number in KNOWN_FROM..KNOWN_FROM + KNOWN {
        let packet = scene.member(Part::Mate).copy(alias(1), number, &[7; 100]);
        scene.send(Part::Mate, packet.expect("it has a session"));
        scene.pass(Duration::from_millis(1));
    }
}

fn alias(number: u16) -> Alias {
    Alias::new(number).expect("aliases begin with one")
}

/// As many of these messages as a datagram takes.
fn filled<'a>(messages: impl IntoIterator<Item = Message<'a>>) -> Vec<u8> {
    let mut bytes = [0; PLAINTEXT_BYTES];
    let mut writer = Writer::new(&mut bytes);
    for message in messages {
        if message.emit(&mut writer).is_err() {
            break;
        }
    }
    writer.written().to_vec()
}

/// As many datagrams that say nothing: what any member may send.
pub const CONTROL: Attack = silence::ATTACK;

/// All attacks on a relay.
pub const ATTACKS: &[Attack] = &[
    nack::ATTACK,
    lost::ATTACK,
    registrations::ATTACK,
    aliases::ATTACK,
    offers::ATTACK,
    cooperation::ATTACK,
    requests::ATTACK,
    reports::ATTACK,
    fragments::ATTACK,
    challenges::ATTACK,
    probes::ATTACK,
    replays::ATTACK,
    garbage::ATTACK,
    // Behind it, a relay may ask this address for cookies.
    initiations::ATTACK,
];

/// How large an attack is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Datagrams of the attacker.
    pub datagrams: u32,
    /// The time from one to the next.
    pub interval: Duration,
    /// Flows that the attacker has registered.
    pub flows: u16,
}

impl Size {
    /// For tests: half a second of 10,000 datagrams a second.
    pub const SMALL: Self = Self { datagrams: 5_000, interval: Duration::from_micros(100), flows: 500 };

    /// Ten seconds of 30,000 datagrams a second, from a session with as many flows as it may have.
    pub const LARGE: Self = Self { datagrams: 300_000, interval: Duration::from_nanos(33_333), flows: 4_000 };

    /// Three seconds of as many: for each service and number of relays.
    pub const ARRANGED: Self = Self { datagrams: 90_000, ..Self::LARGE };

    fn lasts(self) -> Duration {
        self.interval * u64::from(self.datagrams)
    }
}

/// What became of the honest flow, and what the attack cost the relay.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The attack.
    pub name: &'static str,
    /// Packets that the honest flow sent, and how many of them were lost.
    pub sent: usize,
    /// See above.
    pub lost: usize,
    /// The delay that 99 of 100 packets of the honest flow did not exceed.
    pub p99: Duration,
    /// Units of work of the relay for each datagram of the attacker.
    pub work_per_datagram: u64,
    /// How much more the relay keeps than before.
    pub memory: Bytes,
    size: Size,
}

impl fmt::Display for Outcome {
    /// Writes a row of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, sent, lost, work_per_datagram, memory, .. } = self;
        let p99 = milliseconds(self.p99);
        write!(f, "| {name} | {lost} of {sent} | {p99} | {work_per_datagram} | {memory} |")
    }
}

/// Returns a duration as tables show it.
fn milliseconds(time: Duration) -> String {
    format!("{}.{:03} ms", time.as_micros() / 1_000, time.as_micros() % 1_000)
}

impl Outcome {
    /// What is wrong with it, compared with that of the control.
    #[must_use]
    pub fn faults(&self, control: &Self) -> Vec<String> {
        let size = self.size;
        let reading = u64::from(size.datagrams) * READING_WORK;
        let earned = SESSION_WORK_PER_SECOND * size.lasts().as_millis() / 1_000;
        let work_max = (SESSION_WORK_BURST + earned + reading) / u64::from(size.datagrams);
        let lost_max = control.lost + self.sent / 1_000;
        let p99_max = control.p99 + Duration::from_millis(2);
        let mut faults = Vec::new();
        let mut expect = |is_so: bool, fault: String| faults.extend((!is_so).then_some(fault));
        expect(self.sent > 50, format!("{}: the honest flow sent {} packets", self.name, self.sent));
        expect(
            self.lost <= lost_max,
            format!("{}: {} of {} packets are lost", self.name, self.lost, self.sent),
        );
        expect(self.p99 <= p99_max, format!("{}: the delay is {}, not {p99_max}", self.name, self.p99));
        let work = self.work_per_datagram;
        expect(work <= work_max, format!("{}: {work} units of work, not {work_max}", self.name));
        expect(self.memory <= MEMORY_MAX, format!("{}: {} are kept", self.name, self.memory));
        faults
    }
}

/// Runs the control, and then all attacks.
#[must_use]
pub fn attacks(size: Size) -> (Outcome, Vec<Outcome>) {
    let run = |attack| run(attack, Arrangement::USUAL, size);
    (run(&CONTROL), ATTACKS.iter().map(run).collect())
}

/// Control and attacks in one arrangement.
#[derive(Clone, Debug)]
pub struct Arranged {
    arrangement: Arrangement,
    control: Outcome,
    outcomes: Vec<Outcome>,
}

impl Arranged {
    /// Runs the control and these attacks.
    pub fn run<'a>(
        arrangement: Arrangement,
        attacks: impl IntoIterator<Item = &'a Attack>,
        size: Size,
    ) -> Self {
        let control = run(&CONTROL, arrangement, size);
        let outcomes = attacks.into_iter().map(|attack| run(attack, arrangement, size)).collect();
        Self { arrangement, control, outcomes }
    }

    /// Returns what is wrong with the outcomes, compared with that of the control.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<_> =
            self.outcomes.iter().flat_map(|outcome| outcome.faults(&self.control)).collect();
        // A hundredth of the packets or more came by a relay.
        if self.control.p99 <= stage::DELAY {
            faults.push(format!("nothing was repaired in {}", self.control.p99));
        }
        faults.into_iter().map(|fault| format!("{}: {fault}", self.arrangement)).collect()
    }
}

impl fmt::Display for Arranged {
    /// Writes a row of a table: the control, and the worst of all attacks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arrangement, control: Outcome { lost, sent, .. }, outcomes } = self;
        let lost_most = outcomes.iter().map(|outcome| outcome.lost).max().unwrap_or(0);
        let slowest = outcomes.iter().map(|outcome| outcome.p99).max().unwrap_or(Duration::ZERO);
        let [p99, slowest] = [self.control.p99, slowest].map(milliseconds);
        write!(f, "| {arrangement} | {lost} of {sent} | {p99} | {lost_most} of {sent} | {slowest} |")
    }
}

fn run(attack: &Attack, arrangement: Arrangement, size: Size) -> Outcome {
    let mut world = World::new(arrangement);
    attack.set_up(&mut world, size.flows);
    world.attack(attack, size);
    world.outcome(attack.name, size)
}
