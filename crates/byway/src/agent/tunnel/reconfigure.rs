//! Changes of the TUN device and the captures while the agent runs, by a reload of its settings.

use byway_net::Io;
use byway_proto::agent::Traffic;
use byway_units::Time;

use super::TunForwarder;
use crate::agent::driver::AgentDriver;
use crate::agent::mappings::Side;
use crate::reload::match_unchanged;
use crate::settings::Capture;

/// Change of the agent's TUN device and its captures by a reload.
pub(in crate::agent) enum TunnelChange {
    /// No change.
    None,
    /// Start to capture packets with this forwarder. The number is the mark of the agent's own
    /// packets.
    Start(Box<TunForwarder>, u32),
    /// Replace the captures. The capture state then has this generation.
    Captures(Vec<Capture>, u64),
    /// Close the device and the queues, and stop all captures.
    Stop,
}

impl TunForwarder {
    /// Replaces the captures. Unchanged ones retain their mappings and numbers. Returns the new
    /// index of each unchanged capture, by its former index.
    fn change(&mut self, captures: Vec<Capture>, generation: u64) -> Vec<Option<usize>> {
        let new_indices = match_unchanged(&self.settings.captures, &captures);
        let mut mappings = vec![[None; 2]; captures.len()];
        let mut numbers: Vec<Option<u32>> = vec![None; captures.len()];
        let mut counts = vec![0; captures.len()];
        for (old, new) in new_indices.iter().enumerate() {
            if let Some(new) = *new {
                (mappings[new], numbers[new]) = (self.mappings[old], Some(self.numbers[old]));
                counts[new] = self.captured[old];
            }
        }
        for index in 0..numbers.len() {
            // Of one more number than there are captures, one is free.
            let free = (0..).take(numbers.len() + 1).find(|number| !numbers.contains(&Some(*number)));
            numbers[index] = numbers[index].or(free);
        }
        self.numbers = numbers.into_iter().flatten().collect();
        (self.mappings, self.captured) = (mappings, counts);
        (self.settings.captures, self.generation) = (captures, generation);
        self.offer_retries.clear();
        self.next_poll = Time::START;
        new_indices
    }
}

impl AgentDriver {
    /// Changes the device and its captures; returns the new index of each unchanged capture, by its
    /// former index.
    ///
    /// # Errors
    /// If the system refuses. Nothing has then changed.
    pub(in crate::agent) fn change_tunnel(
        &mut self,
        change: TunnelChange,
        io: &mut Io,
    ) -> Result<Vec<Option<usize>>, String> {
        match change {
            TunnelChange::None => {
                Ok(self.tunnel.iter().flat_map(|tunnel| 0..tunnel.numbers.len()).map(Some).collect())
            }
            TunnelChange::Start(tunnel, mark) => self.begin_tunnel(*tunnel, mark, io).map(|()| Vec::new()),
            TunnelChange::Captures(captures, generation) => {
                let Some(tunnel) = &mut self.tunnel else {
                    return Ok(Vec::new());
                };
                let queues: Vec<u16> = captures.iter().filter_map(|capture| capture.queue).collect();
                io.rebind_queues(&queues).map_err(|error| error.to_string())?;
                Ok(tunnel.change(captures, generation))
            }
            TunnelChange::Stop => {
                let captures = self.tunnel.take().map_or(0, |tunnel| tunnel.numbers.len());
                drop((io.close_device(), io.close_queues()));
                // A process without the right to mark packets has not marked any.
                let _ = io.mark(0);
                Ok(vec![None; captures])
            }
        }
    }

    fn begin_tunnel(&mut self, tunnel: TunForwarder, mark: u32, io: &mut Io) -> Result<(), String> {
        io.mark(mark).map_err(|error| format!("cannot mark the agent's packets: {error}"))?;
        self.tunnel = Some(tunnel);
        self.open_device(io).inspect_err(|_| {
            self.tunnel = None;
            drop((io.close_device(), io.close_queues()));
            let _ = io.mark(0);
        })
    }

    /// Returns the number by which the peer knows a mapping's capture and traffic; 0 if it is no
    /// capture. It stays the same while the capture is unchanged. Endpoints of sockets have other
    /// numbers.
    pub(in crate::agent) fn capture_number(&self, side: Side) -> u32 {
        let (Side::Capture { index, traffic }, Some(tunnel)) = (side, &self.tunnel) else {
            return 0;
        };
        tunnel.numbers[index] * 2 + u32::from(traffic != Traffic::CongestionControlled)
    }
}
