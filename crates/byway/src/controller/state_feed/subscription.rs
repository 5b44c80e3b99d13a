//! Stream of a path's state to one application.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use byway_state::{Direction, QueryError, StateQuery};
use byway_units::{Duration, Time};
use tokio::sync::watch;

use super::feed::{ReadablePath, StateFeed};
use super::path_table::ReadEntry;
use super::refusal::FeedRefusal;
use super::stream_slots::StreamSlot;
use crate::controller::access::Application;

/// Event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateEvent {
    /// Index of the newest entry that the reader has with it. With the return direction, both
    /// indices, as in `813-640`.
    pub(crate) id: String,
    /// JSON text of a [`StateAnswer`](byway_api::StateAnswer) with one entry of each direction, or
    /// none.
    pub(crate) data: String,
}

/// Stream of one path's state, in one direction or in both.
///
/// It begins with history, one entry an event. After that, each beat has one event with the newest
/// entry: a reader that is late misses the entries between. An event is made when the connection
/// has space for it, so a reader that does not read costs the buffers of its connection only.
#[derive(Debug)]
pub(crate) struct Subscription {
    feed: Arc<StateFeed>,
    application: Application,
    direction: Direction,
    readers: Vec<PathReader>,
    beats: watch::Receiver<u64>,
    _slot: StreamSlot,
}

/// Position of a stream in one path's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathReader {
    readable: ReadablePath,
    /// Index of the latest entry that the stream has sent.
    last: u64,
    /// Index of the newest entry at the beginning of the stream, up to which it sends history.
    history_end: u64,
}

impl Subscription {
    /// Begins a stream, with a query for the history of each direction.
    ///
    /// # Errors
    /// As for other queries, or if there are too many streams.
    pub(crate) fn begin(
        feed: &Arc<StateFeed>,
        application: Application,
        ends: (IpAddr, IpAddr),
        (there, back): (StateQuery, Option<StateQuery>),
        now: Time,
    ) -> Result<Self, FeedRefusal> {
        let paths = feed.readable(&application, ends, back.is_some(), now)?;
        let slot = feed.slots().begin(&application.tenant)?;
        let beats = feed.beats();
        let reader = |readable: ReadablePath| {
            let query = back.filter(|_| readable.is_return).unwrap_or(there);
            let (last, history_end) = feed.path(readable.path).range(query, now);
            PathReader { readable, last, history_end }
        };
        let first = paths[0].direction;
        let readers = paths.into_iter().map(reader).collect();
        Ok(Self { feed: Arc::clone(feed), application, direction: first, readers, beats, _slot: slot })
    }

    /// Returns the next event, once there is one. `None` if the application's flows are not
    /// registered any more, or its token is not valid any more.
    pub(crate) async fn next(&mut self) -> Option<StateEvent> {
        loop {
            self.beats.mark_unchanged();
            let now = self.feed.now();
            if !self.feed.renew(&self.application, self.direction, now) {
                return None;
            }
            if let Some(event) = self.event(now) {
                return Some(event);
            }
            self.beats.changed().await.ok()?;
        }
    }

    /// Returns an event with the next entry of each direction; `None` if there is none.
    fn event(&mut self, now: Time) -> Option<StateEvent> {
        let mut data = format!("{{\"epoch\":\"{}\",\"paths\":[", self.feed.epoch());
        let mut has_news = false;
        for (position, reader) in self.readers.iter_mut().enumerate() {
            let separator = if position == 0 { "" } else { "," };
            let Direction { from, to } = reader.readable.direction;
            // A text grows without an error.
            let _ = write!(data, "{separator}{{\"from\":\"{from}\",\"to\":\"{to}\",\"entries\":[");
            has_news |= reader.write_next(&self.feed, now, &mut data);
            data.push_str("]}");
        }
        data.push_str("]}");
        let indices: Vec<String> = self.readers.iter().map(|reader| reader.last.to_string()).collect();
        has_news.then(|| StateEvent { id: indices.join("-"), data })
    }
}

impl PathReader {
    /// Writes the next entry. Returns false if there is none.
    fn write_next(&mut self, feed: &StateFeed, now: Time, text: &mut String) -> bool {
        let table = feed.path(self.readable.path);
        let history = (self.last < self.history_end).then(|| table.next_after(self.last, now)).flatten();
        if let Some(read) = history {
            return self.write(feed, &read, text);
        }
        match table.newest().filter(|frame| frame.index() > self.last) {
            Some(frame) if frame.is_fresh(now) => {
                self.last = frame.index();
                text.push_str(frame.text(|entry| {
                    let read = ReadEntry { entry: entry.clone(), waited: Duration::ZERO };
                    entry_text(feed, &read)
                }));
                true
            }
            // The reader is late: ages have grown since the beat.
            Some(_) => {
                let newest = table.read(StateQuery::new(self.last, 1), now).pop();
                newest.is_some_and(|read| self.write(feed, &read, text))
            }
            None => false,
        }
    }

    fn write(&mut self, feed: &StateFeed, read: &ReadEntry, text: &mut String) -> bool {
        self.last = read.entry.index();
        text.push_str(&entry_text(feed, read));
        true
    }
}

fn entry_text(feed: &StateFeed, read: &ReadEntry) -> String {
    serde_json::to_string(&feed.named_entry(read)).expect("entries have only texts and numbers")
}

/// Reads the identifier of the last event that a reader has, as the queries for what follows it: of
/// the direction, and of the return direction.
///
/// # Errors
/// If it has other characters than an event's identifier.
pub(crate) fn queries_after(
    last_event: &str,
    max: Option<&str>,
) -> Result<(StateQuery, StateQuery), QueryError> {
    let (there, back) = last_event.split_once('-').unwrap_or((last_event, "0"));
    Ok((StateQuery::parse(there, max)?, StateQuery::parse(back, max)?))
}
