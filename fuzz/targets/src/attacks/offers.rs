//! Has short messages passed on to an agent of another relay, as offers of flows are.

use byway_wire::Message;
use byway_wire::messages::Relayed;

use super::{Attack, filled};

pub(super) const ATTACK: Attack = Attack {
    name: "offers",
    prepare: |_| {},
    datagram: |mallory, _, _| {
        let offer = Relayed::new(mallory.other(), &[8; 40]).expect("it looks like a packet of messages");
        mallory.hand.says(&filled(std::iter::repeat_n(Message::Relayed(offer), 30)))
    },
};
