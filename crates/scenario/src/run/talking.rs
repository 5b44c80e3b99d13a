//! TCP in a run: what its ends say goes through flows.

use byway_sim::World;
use byway_units::Time;

use super::{Event, Run, SECOND};
use crate::conversation::End;
use crate::scenario::{Copied, Load};
use crate::watch::LABEL_BYTES;

impl Run<'_> {
    pub(super) fn begin_conversations(&mut self, world: &mut World<Self>) {
        for place in 0..self.conversations.len() {
            let conversation = &self.conversations[place];
            if conversation.is_bulk() {
                let first = Time::START + conversation.begin() + SECOND;
                world.schedule(first, Event::Second { conversation: place });
            }
            self.converse(place, world);
        }
    }

    /// Sends what both ends of a conversation have to say, and sees to it that it is woken.
    pub(super) fn converse(&mut self, place: usize, world: &mut World<Self>) {
        if !self.has_room(world) {
            return;
        }
        self.note_losses(world);
        for end in End::BOTH {
            while self.send_segment(place, end, world) {}
        }
        let now = world.now();
        if let Some(alarm) = self.conversations[place].alarm(now) {
            world.schedule(alarm, Event::Wake { conversation: place });
        }
    }

    /// Sends the next segment of an end of a conversation; whether there was one.
    fn send_segment(&mut self, place: usize, end: End, world: &mut World<Self>) -> bool {
        let (flow, now) = (self.conversations[place].flow_from(end), world.now());
        self.segment.clear();
        let Some(ecn) = self.conversations[place].transmit(end, &mut self.segment, now) else {
            return false;
        };
        let marked = match &self.plan.scenario.flows[flow].load {
            Load::Segments(segments) => match segments.copied {
                Copied::Marked(marks) => marks.take(&self.segment, segments.bytes_max - LABEL_BYTES),
                Copied::All => false,
            },
            Load::Datagrams(_) | Load::Programs(_) | Load::Captured(_) => false,
        };
        self.label(flow, now);
        self.datagram.extend_from_slice(&self.segment);
        self.send_datagram(flow, ecn, marked, world);
        true
    }
}
