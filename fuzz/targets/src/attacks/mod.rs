//! Attacks of a member on a relay that it shares with other tenants, each with an honest flow of
//! another tenant.
//!
//! Every attacker has real keys, its own grants, and an accomplice at the other relay. It sends
//! authenticated datagrams at line rate. The relay is a processor in virtual time: a datagram takes
//! `DATAGRAM_TIME`, and each unit of counted work `UNIT_TIME`.
//!
//! Results are the honest flow's losses and delays, and the cost of the attack. They are compared
//! with a control of as many datagrams with unknown messages.
//!
//! The same attackers can attack real relays, over sockets, by another [`Testbed`].
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `adversary` | adversaries of a restarting agent |
//! | `aliases` | announcements of aliases |
//! | `arrangement` | services and relays of the honest flow |
//! | `attacker` | the attacker and its accomplice |
//! | `challenges` | path challenges |
//! | `cookies` | forged cookies and responses |
//! | `cooperation` | cooperative answers |
//! | `fragments` | incomplete datagrams |
//! | `garbage` | unsealed packets |
//! | `initiations` | replayed initiations and floods |
//! | `lost` | cooperative refusals |
//! | `nack` | NACKs for all sequence numbers |
//! | `offers` | relayed messages |
//! | `probes` | probes with changing round-trip times |
//! | `registrations` | registrations and their ends |
//! | `replays` | replayed datagrams |
//! | `reports` | reports to a relay |
//! | `requests` | cooperative requests to a relay |
//! | `restarts` | handshakes of a restarting agent |
//! | `silence` | the control |
//! | `virtual_testbed` | relays and agents in virtual time |

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
mod virtual_testbed;

use std::fmt;

use byway_proto::limits::{SESSION_WORK_BURST, SESSION_WORK_PER_SECOND};
use byway_units::{Bytes, Duration};
use byway_wire::messages::FlowRole;
use byway_wire::{Alias, Message, Writer};

pub use arrangement::Arrangement;
pub use attacker::{Attacker, Credentials, Role};
pub use cookies::Forger;
pub use initiations::{InitiationFlood, PORTS};
pub use restarts::{Restarts, restarts, unpromised_restarts};
use virtual_testbed::VirtualTestbed;

/// Time that a relay needs to receive, open and answer a datagram of 1,200 bytes.
const DATAGRAM_TIME: Duration = Duration::from_micros(2);

/// Time that a relay needs for a unit of work.
const UNIT_TIME: Duration = Duration::from_nanos(20);

/// Bytes of messages in a datagram of 1,200 bytes.
const PLAINTEXT_BYTES: usize = 1_175;

/// Greatest cost of reading one datagram's messages, in units of work, which the budget does not
/// limit: 131 messages, and some lookups.
const READING_WORK: u64 = 160;

/// Most memory that an attack may occupy in the relay.
const MEMORY_MAX: Bytes = Bytes::new(16 << 20);

/// First sequence number, and number, of the accomplice's copies in the relay.
const KNOWN_FROM: u32 = 1_000;
const KNOWN: u32 = 500;

/// Builds the next datagram of an attacker. Its arguments are the number of datagrams before and
/// the first datagram. `None`: there is no datagram.
type DatagramBuilder = fn(&mut Attacker, u32, &[u8]) -> Option<Vec<u8>>;

/// An attack: its preparation, and its datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Name of the attack: the content of its datagrams.
    pub name: &'static str,
    /// Function that prepares the relay's state for the attack.
    prepare: fn(&mut dyn Testbed),
    /// Function that builds the attack's datagrams.
    datagram: DatagramBuilder,
}

/// Environment of attacks: virtual time, or a real relay.
pub trait Testbed {
    /// Returns the member in this role.
    fn member(&mut self, part: Role) -> &mut Attacker;

    /// Sends a packet to the relay of this role.
    fn send(&mut self, part: Role, packet: Vec<u8>);

    /// Advances time by this much; relays and agents handle their packets meanwhile.
    fn pass(&mut self, time: Duration);
}

impl Attack {
    /// Registers the flows that the attacker receives, and prepares the attack.
    pub fn set_up(&self, testbed: &mut dyn Testbed, flows: u16) {
        register_all(testbed, flows);
        (self.prepare)(testbed);
    }

    /// Returns the next datagram. `nth` is the number of datagrams before, `first` the first one.
    pub fn datagram(&self, attacker: &mut Attacker, nth: u32, first: &[u8]) -> Option<Vec<u8>> {
        (self.datagram)(attacker, nth, first)
    }
}

/// Registers the attacker's received flows. The accomplice sends the first of them.
fn register_all(testbed: &mut dyn Testbed, flows: u16) {
    register_each(testbed, Role::Attacker, FlowRole::Receiver, &(1..=flows).collect::<Vec<_>>());
    register_each(testbed, Role::Accomplice, FlowRole::Sender, &[1]);
    testbed.pass(Duration::from_millis(300));
}

/// Registers flows in this role, with one datagram every 5 ms.
fn register_each(testbed: &mut dyn Testbed, part: Role, role: FlowRole, mut numbers: &[u16]) {
    while !numbers.is_empty() {
        let (packet, count) = testbed.member(part).register_some(role, numbers);
        testbed.send(part, packet.expect("it has a session"));
        testbed.pass(Duration::from_millis(5));
        numbers = &numbers[count..];
    }
}

/// Sends packets of the attacker's first flow from the accomplice, which the relay then stores.
fn send_known(testbed: &mut dyn Testbed) {
    for number in KNOWN_FROM..KNOWN_FROM + KNOWN {
        let packet = testbed.member(Role::Accomplice).copy(alias(1), number, &[7; 100]);
        testbed.send(Role::Accomplice, packet.expect("it has a session"));
        testbed.pass(Duration::from_millis(1));
    }
}

fn alias(number: u16) -> Alias {
    Alias::new(number).expect("aliases begin with one")
}

/// Encodes as many of these messages as fit into a datagram.
fn filled<'a>(messages: impl IntoIterator<Item = Message<'a>>) -> Vec<u8> {
    let mut bytes = [0; PLAINTEXT_BYTES];
    let mut writer = Writer::new(&mut bytes);
    for message in messages {
        if message.emit(&mut writer).is_err() {
            break;
        }
    }
    writer.as_bytes().to_vec()
}

/// Control of all attacks: as many datagrams with unknown messages, which any member may send.
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
    // Last, because the relay may require cookies from this address afterwards.
    initiations::ATTACK,
];

/// Size of an attack.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Number of datagrams that the attacker sends.
    pub datagrams: u32,
    /// Interval between the attacker's datagrams.
    pub interval: Duration,
    /// Number of flows that the attacker registers.
    pub flows: u16,
}

impl Size {
    /// Size for tests: half a second with 10,000 datagrams a second.
    pub const SMALL: Self = Self { datagrams: 5_000, interval: Duration::from_micros(100), flows: 500 };

    /// Full size: ten seconds with 30,000 datagrams a second, and the most flows of a session.
    pub const LARGE: Self = Self { datagrams: 300_000, interval: Duration::from_nanos(33_333), flows: 4_000 };

    /// Size for each service and number of relays: three seconds at the same rate.
    pub const ARRANGED: Self = Self { datagrams: 90_000, ..Self::LARGE };

    fn duration(self) -> Duration {
        self.interval * u64::from(self.datagrams)
    }
}

/// Result of an attack: the honest flow's losses and delays, and the cost for the relay.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Name of the attack.
    pub name: &'static str,
    /// Packets that the honest flow sent.
    pub sent: usize,
    /// Packets of the honest flow that were lost.
    pub lost: usize,
    /// 99th percentile of the honest flow's delays.
    pub p99: Duration,
    /// The relay's units of work for each datagram of the attacker.
    pub work_per_datagram: u64,
    /// Increase of the relay's memory.
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

/// Formats a duration for tables.
fn milliseconds(time: Duration) -> String {
    format!("{}.{:03} ms", time.as_micros() / 1_000, time.as_micros() % 1_000)
}

impl Outcome {
    /// Returns descriptions of the limits that the attack violates, in comparison with the control.
    #[must_use]
    pub fn faults(&self, control: &Self) -> Vec<String> {
        let size = self.size;
        let reading = u64::from(size.datagrams) * READING_WORK;
        let earned = SESSION_WORK_PER_SECOND * size.duration().as_millis() / 1_000;
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

/// Results of the control and of all attacks in one arrangement.
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

    /// Returns the violated limits, in comparison with the control.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults: Vec<_> =
            self.outcomes.iter().flat_map(|outcome| outcome.faults(&self.control)).collect();
        // If the 99th percentile is not above the direct path's delay, relays have repaired less
        // than 1 % of the packets.
        if self.control.p99 <= virtual_testbed::DELAY {
            faults.push(format!("nothing was repaired in {}", self.control.p99));
        }
        faults.into_iter().map(|fault| format!("{}: {fault}", self.arrangement)).collect()
    }
}

impl fmt::Display for Arranged {
    /// Writes a row of a table: the control, and the worst result of all attacks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arrangement, control: Outcome { lost, sent, .. }, outcomes } = self;
        let lost_most = outcomes.iter().map(|outcome| outcome.lost).max().unwrap_or(0);
        let slowest = outcomes.iter().map(|outcome| outcome.p99).max().unwrap_or(Duration::ZERO);
        let [p99, slowest] = [self.control.p99, slowest].map(milliseconds);
        write!(f, "| {arrangement} | {lost} of {sent} | {p99} | {lost_most} of {sent} | {slowest} |")
    }
}

fn run(attack: &Attack, arrangement: Arrangement, size: Size) -> Outcome {
    let mut world = VirtualTestbed::new(arrangement);
    attack.set_up(&mut world, size.flows);
    world.attack(attack, size);
    world.outcome(attack.name, size)
}
