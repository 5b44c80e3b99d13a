//! Meter of a relay's traffic in the calendar month, which survives restarts, and its cost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use byway_api::{BytesToRelay, RelayCost, SelfUpdate, TenantBytes};
use byway_net::Controls;
use byway_plan::{Month, MonthUsage};
use byway_proto::relay::TenantTraffic;
use byway_units::{Bytes, RelayId};
use byway_wire::TenantId;
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::driver::RelayControl;
use super::traffic::{TenantCharges, TrafficBytes, add_charges};
use crate::cost::{PricedRelays, reported};
use crate::membership::{Membership, WallClock, files};
use crate::settings::NetworkSource;

/// Interval of readings. A five-minute sample has 30 of them, so little of its traffic counts for
/// the next one.
const READING_INTERVAL: Duration = Duration::from_secs(10);

/// Interval of writes to the disk, and of reports to the controller: the length of a sample. A
/// relay that is killed loses that much of its account.
const SAVE_INTERVAL: Duration = Duration::from_secs(300);

/// Name of the file in the state folder that contains the month's usage.
const FILE: &str = "usage.json";

/// Usage of a month, as the file has it.
#[derive(Debug, Serialize, Deserialize)]
struct StoredUsage {
    since_unix_seconds: u64,
    until_unix_seconds: u64,
    received_bytes: u64,
    sent: Vec<BytesToRelay>,
    /// Received and sent bytes of each five minutes since the month's begin.
    samples: Vec<[u64; 2]>,
    #[serde(default)]
    tenants: Vec<TenantBytes>,
}

/// Account of the relay's traffic.
#[derive(Debug)]
struct Account {
    usage: MonthUsage,
    /// Bytes that were charged to tenants this month.
    tenants: TenantCharges,
    /// Counts of the shards at the latest reading.
    known: TrafficBytes,
}

impl Account {
    /// Returns the account in the state folder, if it is of this month, or else an empty one.
    fn open(file: &Path, unix_seconds: u64) -> Self {
        let stored = files::read(file).unwrap_or_else(|error| {
            tracing::warn!("cannot read the month's traffic, which begins anew: {error}");
            None
        });
        let parsed = |text: String| match serde_json::from_str(&text) {
            Ok(stored) => Some(stored),
            Err(error) => {
                let file = file.display();
                tracing::warn!("cannot use {file}, so the month's traffic begins anew: {error}");
                None
            }
        };
        let stored: Option<StoredUsage> = stored.and_then(parsed);
        let restored = stored.map(restored);
        let restored = restored.filter(|(usage, _)| usage.month() == Month::containing(unix_seconds));
        let begin = || (MonthUsage::new(unix_seconds), TenantCharges::new());
        let (usage, tenants) = restored.unwrap_or_else(begin);
        Self { usage, tenants, known: TrafficBytes::default() }
    }

    /// Adds what the shards counted since the latest reading.
    fn record(&mut self, traffic: TrafficBytes, unix_seconds: u64) {
        if Month::containing(unix_seconds) > self.usage.month() {
            self.usage = MonthUsage::new(unix_seconds);
            self.tenants.clear();
        }
        let added = traffic.since(&self.known);
        add_charges(&mut self.tenants, &added.tenants);
        let sent: Vec<_> = added.sent.into_iter().collect();
        self.usage.record(unix_seconds, added.received, &sent);
        self.known = traffic;
    }

    fn stored(&self) -> StoredUsage {
        let usage = reported(&self.usage);
        StoredUsage {
            since_unix_seconds: usage.since_unix_seconds,
            until_unix_seconds: usage.until_unix_seconds,
            received_bytes: usage.received_bytes,
            sent: usage.sent,
            samples: self.usage.samples().to_vec(),
            tenants: self.tenants(),
        }
    }

    /// Returns the bytes that were charged to tenants this month.
    fn tenants(&self) -> Vec<TenantBytes> {
        let bytes = |(tenant, traffic): (&TenantId, &TenantTraffic)| TenantBytes {
            tenant: tenant.number(),
            sent_bytes: traffic.sent,
            returned_bytes: traffic.returned,
        };
        self.tenants.iter().map(bytes).collect()
    }
}

/// Returns the traffic in a file, and the bytes that were charged to tenants.
fn restored(stored: StoredUsage) -> (MonthUsage, TenantCharges) {
    let sent = stored.sent.iter().map(|sent| (sent.relay.map(RelayId::new), Bytes::new(sent.bytes)));
    let usage = MonthUsage::restored(
        (stored.since_unix_seconds, stored.until_unix_seconds),
        Bytes::new(stored.received_bytes),
        sent.collect(),
        stored.samples,
    );
    let tenants = stored.tenants.iter().map(|TenantBytes { tenant, sent_bytes, returned_bytes }| {
        (TenantId::new(*tenant), TenantTraffic { sent: *sent_bytes, returned: *returned_bytes })
    });
    (usage, tenants.collect())
}

/// Meter of a running relay.
pub(super) struct Meter {
    name: String,
    file: PathBuf,
    shards: Vec<Controls<RelayControl>>,
    network: watch::Receiver<NetworkSource>,
    account: Mutex<Account>,
    clock: WallClock,
}

impl Meter {
    /// Returns the meter of a relay with this state folder. `network` has the prices in force.
    pub(super) fn open(
        name: &str,
        state: &Path,
        shards: Vec<Controls<RelayControl>>,
        network: watch::Receiver<NetworkSource>,
    ) -> Arc<Self> {
        let (file, clock) = (state.join(FILE), WallClock::system());
        let account = Mutex::new(Account::open(&file, clock.unix_seconds()));
        Arc::new(Self { name: name.to_owned(), file, shards, network, account, clock })
    }

    /// Reads the shards' counts, writes the account to the disk, and reports it to the controller,
    /// until it is dropped.
    pub(super) async fn follow(&self, member: Option<&Membership>) {
        let mut readings = interval(READING_INTERVAL);
        readings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut saved_at: Option<Instant> = None;
        loop {
            readings.tick().await;
            self.read().await;
            if saved_at.is_none_or(|at| at.elapsed() >= SAVE_INTERVAL) {
                saved_at = Some(Instant::now());
                self.save();
                if let Some(member) = member {
                    let usage = self.with_account(|account| reported(&account.usage));
                    member.report(SelfUpdate { usage: Some(usage), ..SelfUpdate::default() });
                }
            }
        }
    }

    /// Reads the shards' counts; returns false if one of them has ended.
    async fn read(&self) -> bool {
        let mut all = TrafficBytes::default();
        for shard in &self.shards {
            let (answer, traffic) = oneshot::channel();
            if shard.control(RelayControl::Traffic(answer)).is_err() {
                return false;
            }
            let Ok(traffic) = traffic.await else { return false };
            all.add(&traffic);
        }
        self.with_account(|account| account.record(all, self.clock.unix_seconds()));
        true
    }

    /// Writes the account to the disk. A failure, as of a full disk, is logged.
    pub(super) fn save(&self) {
        let stored = self.with_account(|account| account.stored());
        let text = serde_json::to_string(&stored).expect("the account has only numbers");
        // In a static network, nothing else may have made the state folder.
        let folder = self.file.parent().map_or(Ok(()), files::make_folder);
        if let Err(error) = folder.and_then(|()| files::replace(&self.file, &text)) {
            tracing::warn!("cannot store the month's traffic: {error}");
        }
    }

    async fn cost(&self) -> Option<RelayCost> {
        if !self.read().await {
            return None;
        }
        let (usage, tenants) = self.with_account(|account| (reported(&account.usage), account.tenants()));
        let network = self.network.borrow();
        let unpriced = byway_config_types::PriceSheets::default();
        let cost = match &*network {
            NetworkSource::Static(network) => network.priced_relays().cost(&self.name, &usage, None),
            NetworkSource::Managed(_) => {
                let relays = PricedRelays { names: BTreeMap::new(), prices: &unpriced };
                let note = "the controller has the prices: `byway cost` there shows the bill";
                RelayCost { note: Some(note.to_owned()), ..relays.cost(&self.name, &usage, None) }
            }
        };
        Some(RelayCost { tenants, ..cost })
    }

    fn with_account<T>(&self, use_it: impl FnOnce(&mut Account) -> T) -> T {
        use_it(&mut self.account.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the router of `/v1/cost`.
pub(super) fn router(meter: Arc<Meter>) -> Router {
    Router::new().route("/v1/cost", get(cost)).with_state(meter)
}

async fn cost(State(meter): State<Arc<Meter>>) -> Response {
    meter.cost().await.map_or_else(
        || (StatusCode::SERVICE_UNAVAILABLE, "a thread of the relay is busy, or has ended\n").into_response(),
        |cost| axum::Json(cost).into_response(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-01, the begin of a month of 30 days.
    const NOVEMBER: u64 = 1_793_491_200;

    fn traffic(received: u64, to_agents: u64, to_relay: u64) -> TrafficBytes {
        let sent = [(None, Bytes::new(to_agents)), (Some(RelayId::new(7)), Bytes::new(to_relay))];
        let charged = TenantTraffic { sent: to_agents + to_relay, returned: received / 10 };
        let tenants = BTreeMap::from([(TenantId::new(3), charged)]);
        TrafficBytes { received: Bytes::new(received), sent: BTreeMap::from(sent), tenants }
    }

    #[test]
    fn a_restart_continues_the_month_and_another_month_begins_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        let mut account = Account::open(&file, NOVEMBER);
        account.record(traffic(100, 40, 60), NOVEMBER + 10);
        account.record(traffic(150, 40, 70), NOVEMBER + 400);
        files::replace(&file, &serde_json::to_string(&account.stored()).expect("numbers"))
            .expect("it is written");
        let mut again = Account::open(&file, NOVEMBER + 500);
        assert_eq!((&again.usage, &again.tenants), (&account.usage, &account.tenants));
        // The counters of a new process begin at 0.
        again.record(traffic(1, 2, 3), NOVEMBER + 510);
        let usage = reported(&again.usage);
        let sent: Vec<_> = usage.sent.iter().map(|sent| (sent.relay, sent.bytes)).collect();
        assert_eq!((usage.received_bytes, sent), (151, vec![(None, 42), (Some(7), 73)]));
        assert_eq!(again.usage.samples(), [[100, 100], [51, 15]]);
        let charged = TenantBytes { tenant: 3, sent_bytes: 115, returned_bytes: 15 };
        assert_eq!(again.tenants(), [charged]);
        again.record(traffic(2, 2, 3), NOVEMBER + 31 * 86_400);
        assert_eq!(
            (reported(&again.usage).received_bytes, again.usage.month().to_string().as_str()),
            (1, "2026-12")
        );
        assert_eq!(again.tenants(), [TenantBytes { sent_bytes: 0, returned_bytes: 0, ..charged }]);
        let late = Account::open(&file, NOVEMBER + 31 * 86_400);
        assert_eq!((reported(&late.usage).received_bytes, late.tenants()), (0, vec![]));
        files::replace(&file, "{").expect("it is written");
        assert_eq!(reported(&Account::open(&file, NOVEMBER).usage).received_bytes, 0, "a broken file");
    }
}
