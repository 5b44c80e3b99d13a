//! `byway controller`, until it is asked to stop.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{Controller, ControllerSettings};
use crate::exit::Failure;
use crate::membership::WallClock;
use crate::reload::{self, Load, Outcome, Reloadable, Reloads, Report};
use crate::settings::LogSettings;
use crate::signals::{self, Stop};
use crate::{logs, node, observe};

/// A controller's settings, with where it answers about itself, and what it logs.
type Settings = (ControllerSettings, SocketAddr, LogSettings);

/// Runs a controller until it is asked to stop. `load` reads its settings, at first and whenever they are to be read again.
///
/// # Errors
/// If it cannot start, or cannot serve any more.
pub(crate) fn run(load: Load<Settings>) -> Result<(), Failure> {
    let settings = load()?;
    logs::start(settings.2);
    node::block_on_all_cores(serve(settings, load))
}

async fn serve(settings: Settings, load: Load<Settings>) -> Result<(), Failure> {
    let stop = Stop::listen()?;
    let (reloads, asker) = Reloads::listen()?;
    let observed = observe::bind(settings.1).await?;
    let controller = Controller::start(settings.0.clone(), WallClock::system()).await?;
    let status = controller.status();
    let ask: observe::Ask = Arc::new(move || {
        let report = observe::of_controller(status());
        Box::pin(async move { report })
    });
    tokio::spawn(observe::serve(observed, ask, asker));
    tracing::info!(listen = ?controller.addresses(), "the controller works");
    signals::tell_ready();
    let mut running = ControllerNode { load, settings };
    let ended = tokio::select! {
        ended = signals::until_stopped(controller, stop) => ended,
        () = reloads.follow(&mut running) => Ok(()),
    };
    signals::tell_stopping();
    ended
}

/// A running controller.
struct ControllerNode {
    load: Load<Settings>,
    /// Those in force.
    settings: Settings,
}

impl Reloadable for ControllerNode {
    async fn reload(&mut self) -> Outcome {
        let (read, observe, log) = reload::read(&self.load).await?;
        let (old, old_observe, old_log) = &mut self.settings;
        let mut report = Report::new(&old.network);
        for (setting, differs) in [
            ("controller.listen", old.listen != read.listen),
            ("controller.addresses", old.addresses != read.addresses),
            ("controller.state", old.state != read.state),
            ("controller.network", old.network != read.network),
            ("controller.grant_lifetime", old.grant_lifetime != read.grant_lifetime),
            ("controller.rate", old.rate != read.rate),
            ("controller.tenant_agents_max", old.quotas.agents != read.quotas.agents),
            ("controller.tenant_pairs_max", old.quotas.pairs != read.quotas.pairs),
            ("controller.tenant_tokens_max", old.quotas.tokens != read.quotas.tokens),
            ("observe.listen", *old_observe != observe),
            ("log.format", old_log.format != log.format),
        ] {
            report.restart(setting, differs);
        }
        reload::change_level(&mut old_log.level, log.level, &mut report);
        Ok(report.answer())
    }
}
