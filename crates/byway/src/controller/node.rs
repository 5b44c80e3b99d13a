//! The `byway controller` process.

use byway_config_types::{PriceSheets, Problem};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use super::{Controller, ControllerSettings};
use crate::exit::Failure;
use crate::membership::WallClock;
use crate::reload::{self, Load, ReloadOutcome, ReloadReport, ReloadRequests, Reloadable};
use crate::settings::{LogSettings, SharedTenant};
use crate::signals::{self, StopSignal};
use crate::{logs, node, observe};

/// Settings of the controller process: the controller's own, the address of its status server, and
/// the log's.
type Settings = (ControllerSettings, SocketAddr, LogSettings);

/// Runs a controller until the process is asked to stop. `load` reads its settings, at the start
/// and at each reload.
pub(crate) fn run(load: Load<Settings>) -> Result<(), Failure> {
    let settings = load()?;
    logs::start(settings.2);
    node::block_on_all_cores(serve(settings, load))
}

async fn serve(settings: Settings, load: Load<Settings>) -> Result<(), Failure> {
    let stop = StopSignal::listen()?;
    let (reloads, reload_handle) = ReloadRequests::listen()?;
    let observed = observe::bind(settings.1).await?;
    let controller = Controller::start(settings.0.clone(), WallClock::system()).await?;
    let status = controller.status();
    let query: observe::NodeQuery = Arc::new(move || {
        let report = observe::of_controller(status());
        Box::pin(async move { report })
    });
    let costs = controller.costs();
    let own = Router::new().route("/v1/cost", get(async move || axum::Json(costs())));
    tokio::spawn(observe::serve(observed, query, reload_handle, own));
    tracing::info!(listen = ?controller.addresses(), "controller started");
    signals::notify_ready();
    let (set_prices, share_coding) = (controller.price_setter(), controller.shared_coding_setter());
    let mut running = ControllerNode { set_prices, share_coding, load, settings };
    let ended = tokio::select! {
        ended = signals::until_stopped(controller, stop) => ended,
        () = reloads.follow(&mut running) => Ok(()),
    };
    signals::notify_stopping();
    ended
}

/// Running controller process, whose settings can be reloaded.
struct ControllerNode<SetPrices, ShareCoding> {
    /// Function that replaces the prices of relays.
    set_prices: SetPrices,
    /// Function that replaces the tenants whose flows relays may code together.
    share_coding: ShareCoding,
    load: Load<Settings>,
    /// Settings of the controller process that are in force.
    settings: Settings,
}

impl<SetPrices, ShareCoding> Reloadable for ControllerNode<SetPrices, ShareCoding>
where
    SetPrices: Fn(PriceSheets),
    ShareCoding: Fn(&[SharedTenant]) -> Result<(), Problem>,
{
    async fn reload(&mut self) -> ReloadOutcome {
        let (read, observe, log) = reload::read(&self.load).await?;
        let (old, old_observe, old_log) = &mut self.settings;
        let mut report = ReloadReport::new(&old.network);
        for (setting, differs) in [
            ("controller.listen", old.listen != read.listen),
            ("controller.addresses", old.addresses != read.addresses),
            ("controller.state", old.state != read.state),
            ("controller.network", old.network != read.network),
            ("controller.grant_lifetime", old.grant_lifetime != read.grant_lifetime),
            ("controller.rate", old.rate != read.rate),
            ("controller.networks", old.topology.networks != read.topology.networks),
            ("controller.links", old.topology.links != read.topology.links),
            ("controller.paths", old.topology.paths != read.topology.paths),
            ("controller.tenant_agents_max", old.quotas.agents != read.quotas.agents),
            ("controller.tenant_pairs_max", old.quotas.pairs != read.quotas.pairs),
            ("controller.tenant_tokens_max", old.quotas.tokens != read.quotas.tokens),
            ("observe.listen", *old_observe != observe),
            ("log.format", old_log.format != log.format),
        ] {
            report.restart(setting, differs);
        }
        // Only this may fail, and then nothing has changed.
        if old.shared_coding != read.shared_coding {
            (self.share_coding)(&read.shared_coding)?;
            old.shared_coding = read.shared_coding;
            report.changed("controller.shared_coding");
        }
        if old.prices != read.prices {
            (self.set_prices)(read.prices.clone());
            old.prices = read.prices;
            report.changed("[[controller.relays]]");
        }
        reload::change_level(&mut old_log.level, log.level, &mut report);
        Ok(report.answer())
    }
}
