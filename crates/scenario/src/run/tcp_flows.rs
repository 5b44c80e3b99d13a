//! TCP in a run: segments of a conversation's ends as datagrams of flows.

use byway_sim::World;
use byway_units::Time;

use super::{Event, Run, SECOND};
use crate::conversation::End;
use crate::observer::LABEL_BYTES;
use crate::scenario::{CopyPolicy, Load};

impl Run<'_> {
    pub(super) fn begin_conversations(&mut self, world: &mut World<Self>) {
        for index in 0..self.conversations.len() {
            let conversation = &self.conversations[index];
            if conversation.is_bulk() {
                let first = Time::START + conversation.begin() + SECOND;
                world.schedule(first, Event::Second { conversation: index });
            }
            self.poll_conversation(index, world);
        }
    }

    /// Sends the segments of both ends of a conversation, and schedules its wake-up.
    pub(super) fn poll_conversation(&mut self, index: usize, world: &mut World<Self>) {
        if !self.has_capacity(world) {
            return;
        }
        self.note_losses(world);
        for end in End::BOTH {
            while self.send_segment(index, end, world) {}
        }
        let now = world.now();
        if let Some(alarm) = self.conversations[index].alarm(now) {
            world.schedule(alarm, Event::Wake { conversation: index });
        }
    }

    /// Sends the next segment of an end of a conversation. Returns true if there was one.
    fn send_segment(&mut self, index: usize, end: End, world: &mut World<Self>) -> bool {
        let (flow, now) = (self.conversations[index].flow_from(end), world.now());
        self.segment.clear();
        let Some(ecn) = self.conversations[index].transmit(end, &mut self.segment, now) else {
            return false;
        };
        let marked = match &self.plan.scenario.flows[flow].load {
            Load::Segments(segments) => match segments.copy_policy {
                CopyPolicy::Marked(marks) => marks.matches(&self.segment, segments.bytes_max - LABEL_BYTES),
                CopyPolicy::All => false,
            },
            Load::Datagrams(_) | Load::Programs(_) | Load::Captured(_) => false,
        };
        self.label(flow, now);
        self.datagram.extend_from_slice(&self.segment);
        self.send_datagram(flow, ecn, marked, world);
        true
    }
}
