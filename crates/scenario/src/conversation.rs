//! Simulated applications over TCP: a client and a server, each with its end of every connection.

use std::net::SocketAddr;

use byway_sim::tcp::{
    self, Application, BulkSender, Connection, ConnectionId, Fetch, FetchServer, Ports, Sink, Statistics,
    TcpHost,
};
use byway_sim::{Datagram, Host, Seed};
use byway_units::{Duration, Time};
use byway_wire::Ecn;

use crate::record::Transfer;
use crate::scenario::{ConversationPlan, Marks, Task};

/// TCP port of all simulated servers.
const SERVER_PORT: u16 = 80;

/// First of the ports that clients use in turn, as operating systems do (RFC 6335, 6).
const CLIENT_PORT_FIRST: u16 = 49_152;

/// Number of ports that clients use in turn: more than connections in the minute for which a server
/// remembers one.
const CLIENT_PORTS: u32 = 1 << 14;

/// End of a [`Conversation`]: its client or its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

impl End {
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];
}

/// Client's application on a TCP connection, and the time at which the connection was open.
#[derive(Clone, Copy, Debug)]
struct TimedTask {
    task: tcp::TcpApplication,
    connected: Option<Time>,
}

impl Application for TimedTask {
    fn advance(&mut self, connection: &mut Connection, now: Time) {
        self.task.advance(connection, now);
        if self.connected.is_none() && connection.congestion_window().is_some() {
            self.connected = Some(now);
        }
    }
}

/// Connection of a conversation's client that was not yet removed.
#[derive(Clone, Copy, Debug)]
struct OpenConnection {
    id: ConnectionId,
    /// Index of the connection's transfer in the conversation.
    transfer: usize,
}

/// Simulated application over TCP: client, server, and the records of its transfers.
#[derive(Debug)]
pub(crate) struct Conversation {
    plan: ConversationPlan,
    client: TcpHost<TimedTask>,
    server: TcpHost<TimedTask>,
    open: Vec<OpenConnection>,
    /// Start of the next transfer; `None` if there is none.
    next: Option<Time>,
    /// Wake-up time of the conversation for which an event is scheduled in the world.
    alarm: Option<Time>,
    transfers: Vec<Transfer>,
    seconds: Vec<u64>,
}

impl Conversation {
    pub(crate) fn new(plan: ConversationPlan, seed: Seed) -> Self {
        let end = |name| TcpHost::new(plan.settings, seed.named(name));
        let mut server = end("server");
        let task = match plan.task {
            Task::Fetches { request, response, .. } => {
                tcp::TcpApplication::FetchServer(FetchServer::new(request, response))
            }
            Task::Bulk(_) => tcp::TcpApplication::Sink(Sink::default()),
        };
        server.listen(SERVER_PORT, TimedTask { task, connected: None });
        // Applications must not send in lockstep.
        let pause = if let Task::Fetches { pause, .. } = plan.task { pause } else { Duration::ZERO };
        let phase = Duration::from_nanos(seed.named("phase").sequence().below(pause.as_nanos().max(1)));
        let next = Some(Time::START + plan.begin + phase);
        let (open, transfers, seconds) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan, client: end("client"), server, open, next, alarm: None, transfers, seconds }
    }

    /// Returns the index of the flow that transports the segments of this end.
    pub(crate) const fn flow_from(&self, end: End) -> usize {
        match end {
            End::Client => self.plan.flows[0],
            End::Server => self.plan.flows[1],
        }
    }

    /// True if the conversation is a bulk transfer, whose received bytes are counted in each
    /// second.
    pub(crate) const fn is_bulk(&self) -> bool {
        matches!(self.plan.task, Task::Bulk(_))
    }

    pub(crate) const fn begin(&self) -> Duration {
        self.plan.begin
    }

    const fn end_mut(&mut self, end: End) -> &mut TcpHost<TimedTask> {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }

    /// Passes a received segment to the TCP host at this end.
    pub(crate) fn receive(&mut self, end: End, payload: &mut [u8], ecn: Ecn, now: Time) {
        let (source, destination) = (nobody(), nobody());
        self.end_mut(end).receive(Datagram { source, destination, ecn, payload }, now);
        self.collect_finished(now);
    }

    /// Handles the due timers of both ends, and begins the next transfer if it is due.
    pub(crate) fn wake(&mut self, now: Time) {
        if self.alarm.is_some_and(|alarm| alarm <= now) {
            self.alarm = None;
        }
        if self.next.is_some_and(|next| next <= now) {
            self.next = None;
            self.begin_transfer(now);
        }
        for end in End::BOTH {
            if self.end_mut(end).deadline().is_some_and(|deadline| deadline <= now) {
                self.end_mut(end).wake(now);
            }
        }
        self.collect_finished(now);
    }

    /// Appends the next segment of this end to the buffer. Returns its ECN field; `None` if there
    /// is no segment to send.
    pub(crate) fn transmit(&mut self, end: End, buffer: &mut Vec<u8>, now: Time) -> Option<Ecn> {
        let transmit = self.end_mut(end).transmit(now)?;
        buffer.extend_from_slice(transmit.payload);
        Some(transmit.ecn)
    }

    /// Returns the next wake-up time, if the caller must schedule an event for it because none is
    /// scheduled by then.
    pub(crate) fn alarm(&mut self, now: Time) -> Option<Time> {
        let deadlines = [self.next, self.client.deadline(), self.server.deadline()];
        let deadline = deadlines.into_iter().flatten().min()?.max(now);
        let is_needed = self.alarm.is_none_or(|alarm| deadline < alarm);
        is_needed.then(|| *self.alarm.insert(deadline))
    }

    fn begin_transfer(&mut self, now: Time) {
        let task = match self.plan.task {
            Task::Fetches { request, response, .. } => {
                tcp::TcpApplication::Fetch(Fetch::new(request, response))
            }
            Task::Bulk(bytes) => tcp::TcpApplication::Bulk(BulkSender::new(bytes)),
        };
        let nth = u32::try_from(self.transfers.len()).unwrap_or(u32::MAX) % CLIENT_PORTS;
        let source = CLIENT_PORT_FIRST.saturating_add(u16::try_from(nth).unwrap_or(u16::MAX));
        let id = ConnectionId { peer: nobody(), ports: Ports { source, destination: SERVER_PORT } };
        let transfer = self.transfers.len();
        self.transfers.push(Transfer {
            begun: now,
            completion: None,
            has_failed: false,
            syn: None,
            syn_ack: None,
        });
        if self.client.open(id, TimedTask { task, connected: None }, now) {
            self.open.push(OpenConnection { id, transfer });
        } else {
            // The next port is still in use, because ports have wrapped around.
            self.transfers[transfer].has_failed = true;
            self.plan_next(now);
        }
    }

    /// Records finished transfers, and removes closed connections.
    fn collect_finished(&mut self, now: Time) {
        let open = std::mem::take(&mut self.open);
        for one in open {
            let Some((connection, timed)) = self.client.connection(one.id) else {
                continue;
            };
            let (timed, is_over) = (*timed, connection.is_closed());
            let transfer = self.transfers[one.transfer];
            if transfer.completion.is_none() && !transfer.has_failed {
                self.update_transfer(one, timed, is_over, now);
            }
            if is_over {
                self.client.remove(one.id);
            } else {
                self.open.push(one);
            }
        }
    }

    fn update_transfer(&mut self, one: OpenConnection, timed: TimedTask, is_over: bool, now: Time) {
        let transfer = &mut self.transfers[one.transfer];
        let at_server = ConnectionId { peer: one.id.peer, ports: one.id.ports.reversed() };
        if transfer.syn_ack.is_none()
            && let (Some(connected), Some((server, _))) = (timed.connected, self.server.connection(at_server))
        {
            transfer.syn = Some(server.opened_at().saturating_since(transfer.begun));
            transfer.syn_ack = Some(connected.saturating_since(server.opened_at()));
        }
        let (completion, has_failed) = match timed.task {
            tcp::TcpApplication::Fetch(fetch) => (fetch.completion(), fetch.has_failed()),
            tcp::TcpApplication::Bulk(bulk) if bulk.is_finished() => {
                (Some(now.saturating_since(transfer.begun)), false)
            }
            _ => (None, false),
        };
        transfer.completion = completion;
        transfer.has_failed = has_failed || (is_over && completion.is_none());
        if transfer.completion.is_some() || transfer.has_failed {
            self.plan_next(now);
        }
    }

    /// Schedules the next fetch, if there is one.
    fn plan_next(&mut self, now: Time) {
        let Task::Fetches { count, pause, .. } = self.plan.task else {
            return;
        };
        let next = now + pause;
        let is_wanted = count.is_none_or(|count| self.transfers.len() < count as usize);
        self.next = (is_wanted && next < Time::START + self.plan.end).then_some(next);
    }

    /// Records the bytes received in the last second.
    pub(crate) fn note_second(&mut self) {
        let before: u64 = self.seconds.iter().sum();
        self.seconds.push(self.server.statistics().bytes_received.count() - before);
    }

    /// Returns the memory of the conversation's records, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.transfers.len() * size_of::<Transfer>() + self.seconds.len() * size_of::<u64>()
    }

    /// Ends the conversation. Returns its transfers, the bytes received in each second, and the
    /// statistics of both ends.
    ///
    /// # Panics
    /// If a segment arrived with bytes of another position, because the network below must not mix
    /// up payloads.
    pub(crate) fn close(mut self, now: Time) -> (Vec<Transfer>, Vec<u64>, Statistics) {
        for host in [&self.client, &self.server] {
            assert_eq!(
                (host.misplaced_segments(), host.damaged()),
                (0, 0),
                "segments arrive as they were sent"
            );
        }
        if self.is_bulk() && Time::START + self.plan.begin < now {
            self.note_second();
        }
        let mut statistics = self.client.statistics();
        statistics.add(&self.server.statistics());
        (self.transfers, self.seconds, statistics)
    }
}

/// Returns the unspecified address: the peer of all connections, because flows identify the ends.
fn nobody() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

impl Marks {
    /// True if these settings select the segment for a copy to the ingress relay. A full segment
    /// has `bytes_max` bytes.
    pub(crate) fn matches(self, segment: &[u8], bytes_max: usize) -> bool {
        let [offset, flags] = [12, 13].map(|index| segment.get(index).copied().unwrap_or_default());
        let flags = tcp::Flags::from_bits(flags).unwrap_or(tcp::Flags::NONE);
        let is_syn = flags.contain(tcp::Flags::SYN);
        let has_payload = segment.len() > usize::from(offset >> 4) * 4;
        match self {
            Self::Ends => {
                is_syn || flags.contain(tcp::Flags::FIN) || (has_payload && segment.len() < bytes_max)
            }
            Self::Syn => is_syn,
            Self::SynAck => is_syn && flags.contain(tcp::Flags::ACK),
        }
    }
}
