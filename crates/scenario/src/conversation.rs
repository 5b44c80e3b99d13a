//! Applications over TCP: a client and a server, each with its end of every connection.

use std::net::SocketAddr;

use byway_sim::tcp::{
    self, Application, Bulk, Connection, ConnectionId, Fetch, Ports, Serve, Sink, Statistics, TcpHost,
};
use byway_sim::{Datagram, Host, Seed};
use byway_units::{Duration, Time};
use byway_wire::Ecn;

use crate::record::Transfer;
use crate::scenario::{ConversationPlan, Marks, Task};

/// The port of all servers.
const SERVER_PORT: u16 = 80;

/// The first of the ports that clients take in turn, as systems do (RFC 6335, 6).
const CLIENT_PORT_FIRST: u16 = 49_152;

/// How many there are: more than connections in the minute for which a server remembers one.
const CLIENT_PORTS: u32 = 1 << 14;

/// The end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

impl End {
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];
}

/// A task, with the time at which its connection was open.
#[derive(Clone, Copy, Debug)]
struct Timed {
    task: tcp::Task,
    connected: Option<Time>,
}

impl Application for Timed {
    fn advance(&mut self, connection: &mut Connection, now: Time) {
        self.task.advance(connection, now);
        if self.connected.is_none() && connection.congestion_window().is_some() {
            self.connected = Some(now);
        }
    }
}

/// A connection that the client has not forgotten.
#[derive(Clone, Copy, Debug)]
struct Open {
    id: ConnectionId,
    /// The place of its transfer.
    transfer: usize,
}

/// An application over TCP.
#[derive(Debug)]
pub(crate) struct Conversation {
    plan: ConversationPlan,
    client: TcpHost<Timed>,
    server: TcpHost<Timed>,
    open: Vec<Open>,
    /// When the next transfer begins.
    next: Option<Time>,
    /// When it is woken, as far as the world knows.
    alarm: Option<Time>,
    transfers: Vec<Transfer>,
    seconds: Vec<u64>,
}

impl Conversation {
    pub(crate) fn new(plan: ConversationPlan, seed: Seed) -> Self {
        let end = |name| TcpHost::new(plan.settings, seed.named(name));
        let mut server = end("server");
        let task = match plan.task {
            Task::Fetches { request, response, .. } => tcp::Task::Serve(Serve::new(request, response)),
            Task::Bulk(_) => tcp::Task::Sink(Sink::default()),
        };
        server.listen(SERVER_PORT, Timed { task, connected: None });
        // Applications do not begin in step.
        let pause = if let Task::Fetches { pause, .. } = plan.task { pause } else { Duration::ZERO };
        let phase = Duration::from_nanos(seed.named("phase").sequence().below(pause.as_nanos().max(1)));
        let next = Some(Time::START + plan.begin + phase);
        let (open, transfers, seconds) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan, client: end("client"), server, open, next, alarm: None, transfers, seconds }
    }

    /// The place of the flow that carries what this end sends.
    pub(crate) const fn flow_from(&self, end: End) -> usize {
        match end {
            End::Client => self.plan.flows[0],
            End::Server => self.plan.flows[1],
        }
    }

    /// Whether somebody wants to know what arrives in each second.
    pub(crate) const fn is_bulk(&self) -> bool {
        matches!(self.plan.task, Task::Bulk(_))
    }

    pub(crate) const fn begin(&self) -> Duration {
        self.plan.begin
    }

    const fn end_mut(&mut self, end: End) -> &mut TcpHost<Timed> {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }

    /// A segment comes to this end.
    pub(crate) fn receive(&mut self, end: End, payload: &mut [u8], ecn: Ecn, now: Time) {
        let (source, destination) = (nobody(), nobody());
        self.end_mut(end).receive(Datagram { source, destination, ecn, payload }, now);
        self.settle(now);
    }

    /// What is due is done.
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
        self.settle(now);
    }

    /// Writes the next segment of this end behind what is in the buffer; its ECN field, if there is one.
    pub(crate) fn transmit(&mut self, end: End, buffer: &mut Vec<u8>, now: Time) -> Option<Ecn> {
        let transmit = self.end_mut(end).transmit(now)?;
        buffer.extend_from_slice(transmit.payload);
        Some(transmit.ecn)
    }

    /// When to wake it, if nobody has been told to by then.
    pub(crate) fn alarm(&mut self, now: Time) -> Option<Time> {
        let deadlines = [self.next, self.client.deadline(), self.server.deadline()];
        let deadline = deadlines.into_iter().flatten().min()?.max(now);
        let is_needed = self.alarm.is_none_or(|alarm| deadline < alarm);
        is_needed.then(|| *self.alarm.insert(deadline))
    }

    fn begin_transfer(&mut self, now: Time) {
        let task = match self.plan.task {
            Task::Fetches { request, response, .. } => tcp::Task::Fetch(Fetch::new(request, response)),
            Task::Bulk(bytes) => tcp::Task::Bulk(Bulk::new(bytes)),
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
        if self.client.open(id, Timed { task, connected: None }, now) {
            self.open.push(Open { id, transfer });
        } else {
            // So many connections are under way that ports come around.
            self.transfers[transfer].has_failed = true;
            self.plan_next(now);
        }
    }

    /// Notes what was finished, and forgets what is over.
    fn settle(&mut self, now: Time) {
        let open = std::mem::take(&mut self.open);
        for one in open {
            let Some((connection, timed)) = self.client.connection(one.id) else {
                continue;
            };
            let (timed, is_over) = (*timed, connection.is_over());
            let transfer = self.transfers[one.transfer];
            if transfer.completion.is_none() && !transfer.has_failed {
                self.look_at(one, timed, is_over, now);
            }
            if is_over {
                self.client.take(one.id);
            } else {
                self.open.push(one);
            }
        }
    }

    fn look_at(&mut self, one: Open, timed: Timed, is_over: bool, now: Time) {
        let transfer = &mut self.transfers[one.transfer];
        let at_server = ConnectionId { peer: one.id.peer, ports: one.id.ports.reversed() };
        if transfer.syn_ack.is_none()
            && let (Some(connected), Some((server, _))) = (timed.connected, self.server.connection(at_server))
        {
            transfer.syn = Some(server.opened().saturating_since(transfer.begun));
            transfer.syn_ack = Some(connected.saturating_since(server.opened()));
        }
        let (completion, has_failed) = match timed.task {
            tcp::Task::Fetch(fetch) => (fetch.completion(), fetch.has_failed()),
            tcp::Task::Bulk(bulk) if bulk.is_finished() => {
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

    /// After a fetch, another one, if there is to be one.
    fn plan_next(&mut self, now: Time) {
        let Task::Fetches { count, pause, .. } = self.plan.task else {
            return;
        };
        let next = now + pause;
        let is_wanted = count.is_none_or(|count| self.transfers.len() < count as usize);
        self.next = (is_wanted && next < Time::START + self.plan.end).then_some(next);
    }

    /// A second has passed.
    pub(crate) fn note_second(&mut self) {
        let before: u64 = self.seconds.iter().sum();
        self.seconds.push(self.server.statistics().bytes_received.count() - before);
    }

    /// What it has written down, in bytes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.transfers.len() * size_of::<Transfer>() + self.seconds.len() * size_of::<u64>()
    }

    /// What came of it: its transfers, what arrived in each second, and what both ends counted.
    ///
    /// # Panics
    /// If a segment arrived with bytes of another place: nothing that carries them may do that.
    pub(crate) fn close(mut self, now: Time) -> (Vec<Transfer>, Vec<u64>, Statistics) {
        for host in [&self.client, &self.server] {
            assert_eq!((host.misplaced(), host.damaged()), (0, 0), "segments arrive as they were sent");
        }
        if self.is_bulk() && Time::START + self.plan.begin < now {
            self.note_second();
        }
        let mut statistics = self.client.statistics();
        statistics.add(&self.server.statistics());
        (self.transfers, self.seconds, statistics)
    }
}

/// Ends know each other by their flows, and need no addresses.
fn nobody() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

impl Marks {
    /// Whether the application marks this segment, of at most so many bytes.
    pub(crate) fn take(self, segment: &[u8], bytes_max: usize) -> bool {
        let [offset, flags] = [12, 13].map(|place| segment.get(place).copied().unwrap_or_default());
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
