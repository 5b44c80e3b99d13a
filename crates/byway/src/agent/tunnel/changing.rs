//! Captures that come and go while the agent works.

use byway_net::Io;
use byway_proto::agent::Traffic;
use byway_units::Time;

use super::Tunnelled;
use crate::agent::mappings::Side;
use crate::agent::role::AgentRole;
use crate::reload::kept;
use crate::settings::Capture;

/// A change of the agent's device and its captures.
pub(in crate::agent) enum TunnelChange {
    /// All stays.
    None,
    /// Packets are captured that were not before: a device, with the mark of the agent's own packets.
    Begins(Box<Tunnelled>, u32),
    /// The captures are these, and doors name this generation.
    Captures(Vec<Capture>, u64),
    /// Nothing is captured any more.
    Ends,
}

impl Tunnelled {
    /// Captures other packets from now on; what stays keeps its mappings and its number. By the former place of each capture, the new
    /// one of those that stay.
    fn change(&mut self, captures: Vec<Capture>, generation: u64) -> Vec<Option<usize>> {
        let places = kept(&self.settings.captures, &captures);
        let mut mappings = vec![[None; 2]; captures.len()];
        let mut numbers: Vec<Option<u32>> = vec![None; captures.len()];
        let mut taken = vec![0; captures.len()];
        for (old, new) in places.iter().enumerate() {
            if let Some(new) = *new {
                (mappings[new], numbers[new]) = (self.mappings[old], Some(self.numbers[old]));
                taken[new] = self.taken[old];
            }
        }
        for place in 0..numbers.len() {
            // One more than there are: one of them is free.
            let free = (0..).take(numbers.len() + 1).find(|number| !numbers.contains(&Some(*number)));
            numbers[place] = numbers[place].or(free);
        }
        self.numbers = numbers.into_iter().flatten().collect();
        (self.mappings, self.taken) = (mappings, taken);
        (self.settings.captures, self.generation) = (captures, generation);
        self.asks.clear();
        self.next_look = Time::START;
        places
    }
}

impl AgentRole {
    /// Changes the device and its captures; by the former place of each capture, the new one of those that stay.
    ///
    /// # Errors
    /// If the system refuses; then nothing has changed.
    pub(in crate::agent) fn change_tunnel(
        &mut self,
        change: TunnelChange,
        io: &mut Io,
    ) -> Result<Vec<Option<usize>>, String> {
        match change {
            TunnelChange::None => {
                Ok(self.tunnel.iter().flat_map(|tunnel| 0..tunnel.numbers.len()).map(Some).collect())
            }
            TunnelChange::Begins(tunnel, mark) => self.begin_tunnel(*tunnel, mark, io).map(|()| Vec::new()),
            TunnelChange::Captures(captures, generation) => {
                let Some(tunnel) = &mut self.tunnel else {
                    return Ok(Vec::new());
                };
                let queues: Vec<u16> = captures.iter().filter_map(|capture| capture.queue).collect();
                io.change_queues(&queues).map_err(|error| error.to_string())?;
                Ok(tunnel.change(captures, generation))
            }
            TunnelChange::Ends => {
                let captures = self.tunnel.take().map_or(0, |tunnel| tunnel.numbers.len());
                drop((io.close_device(), io.close_queues()));
                // Whoever may not mark packets has not marked any.
                let _ = io.mark(0);
                Ok(vec![None; captures])
            }
        }
    }

    fn begin_tunnel(&mut self, tunnel: Tunnelled, mark: u32, io: &mut Io) -> Result<(), String> {
        io.mark(mark).map_err(|error| format!("the agent's packets cannot be marked: {error}"))?;
        self.tunnel = Some(tunnel);
        self.open_device(io).inspect_err(|_| {
            self.tunnel = None;
            drop((io.close_device(), io.close_queues()));
            let _ = io.mark(0);
        })
    }

    /// The number by which a peer knows a capture, in each run the same while the captures are; the endpoints of sockets have others.
    pub(in crate::agent) fn capture_number(&self, side: Side) -> u32 {
        let (Side::Capture { place, traffic }, Some(tunnel)) = (side, &self.tunnel) else {
            return 0;
        };
        tunnel.numbers[place] * 2 + u32::from(traffic != Traffic::CongestionControlled)
    }
}
