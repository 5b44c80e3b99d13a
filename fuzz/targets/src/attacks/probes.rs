//! Attack: sends probes with changing round-trip times, which all flows of the session must
//! process.

use byway_units::{Duration, Time};
use byway_wire::messages::Probe;
use byway_wire::{Message, Microseconds, Timestamp};

use super::{Attack, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "probes",
    prepare: |_| {},
    datagram: |attacker, nth, _| {
        let round_trip = Microseconds::from_duration(Duration::from_micros(1_000 + u64::from(nth % 100_000)));
        let probe = Probe { number: nth, sent: Timestamp::at(Time::START), round_trip };
        attacker.peer.seal_messages(&filled(std::iter::repeat_n(Message::Probe(probe), 60)))
    },
};
