//! Task that adapts the system's routing to the agent's capture state and settings.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::device_watch::{DeviceWatch, next_state};
use super::plan::RoutingPlan;
use super::{CaptureRouting, check_plan, system_failure};
use crate::agent::CaptureState;
use crate::exit::{Cause, Failure};
use crate::settings::{ExposedResource, Tunnel};

/// Interval in which the task sets all addresses, routes and rules again, because other programs
/// may have changed them.
const ADDRESS_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Settings of a reload for which the task prepares the routing.
struct Proposal {
    tunnel: Tunnel,
    exposed: Vec<ExposedResource>,
    /// Generation of these settings, which the capture state has once they are in force.
    generation: u64,
    answer: oneshot::Sender<Result<(), Failure>>,
}

/// Handle to the task that adapts the system's routing to the captures. When the agent's thread
/// ends or no longer captures packets, the task undoes all changes and ends.
pub(crate) struct RoutingTask {
    task: JoinHandle<()>,
    proposals: mpsc::Sender<Proposal>,
}

impl RoutingTask {
    pub(crate) fn start(capturing: CaptureRouting, capture_state: watch::Receiver<CaptureState>) -> Self {
        let (proposals, proposed) = mpsc::channel(1);
        Self { task: tokio::spawn(capturing.follow(capture_state, proposed)), proposals }
    }

    /// Prepares the routing for the settings of a reload. They are in force once the capture state
    /// has their generation.
    ///
    /// # Errors
    /// If a conflict exists, or the system refuses.
    pub(crate) async fn prepare(
        &self,
        tunnel: &Tunnel,
        exposed: &[ExposedResource],
        generation: u64,
    ) -> Result<(), Failure> {
        let ended =
            || Failure::new(Cause::Byway, "the task that updates the routing has ended: restart the agent");
        let (answer, outcome) = oneshot::channel();
        let (tunnel, exposed) = (tunnel.clone(), exposed.to_vec());
        let proposal = Proposal { tunnel, exposed, generation, answer };
        self.proposals.send(proposal).await.map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }

    /// Waits until the task has undone all changes to the routing.
    pub(crate) async fn ended(self) {
        drop(self.proposals);
        // The task may have panicked.
        let _ = self.task.await;
    }
}

impl CaptureRouting {
    /// Adapts the routing to the agent's capture state until the agent's thread has ended; then
    /// undoes all changes. Retries failed updates after [`ADDRESS_POLL_INTERVAL`].
    async fn follow(
        mut self,
        mut capture_state: watch::Receiver<CaptureState>,
        mut proposals: mpsc::Receiver<Proposal>,
    ) {
        let mut refresh_interval = tokio::time::interval(ADDRESS_POLL_INTERVAL);
        let mut watch = DeviceWatch::of_number(self.device)
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot watch the device: if it is set down, peers continue to \
                                        send to it");
            })
            .ok();
        loop {
            let set = tokio::select! {
                changed = capture_state.changed() => match changed {
                    Ok(()) => {
                        let capture_state = capture_state.borrow_and_update().clone();
                        self.apply_capture_state(capture_state).await
                    }
                    Err(_) => break,
                },
                Some(proposal) = proposals.recv() => {
                    let Proposal { tunnel, exposed, generation, answer } = proposal;
                    // The receiver may have been dropped.
                    let _ = answer.send(self.prepare_settings(&tunnel, &exposed, generation).await);
                    Ok(())
                }
                Some(is_up) = next_state(&mut watch) => self.on_device_state(is_up).await,
                _ = refresh_interval.tick() => self.refresh().await,
            };
            if let Err(error) = set {
                tracing::error!(%error, "cannot update the system's routing; retrying in \
                                         {ADDRESS_POLL_INTERVAL:?}");
            }
        }
        self.guard.finish(self.plan.table).await;
    }

    /// Records and logs that the TUN device was set up or down. Once it is up, sets all routing
    /// again, because the system forgets the routes and the IPv6 addresses of a device that is
    /// down.
    async fn on_device_state(&mut self, is_up: bool) -> std::io::Result<()> {
        if !self.state.set(is_up) {
            return Ok(());
        }
        let name = &self.device_name;
        if !is_up {
            tracing::warn!(
                "device {name} is down: packets bypass Byway until it is up (ip link set {name} up)"
            );
            return Ok(());
        }
        tracing::info!("device {name} is up again");
        self.reapply().await
    }

    /// Checks the state of the TUN device, because a notification may have been lost. While the
    /// device is up, sets all routing again.
    async fn refresh(&mut self) -> std::io::Result<()> {
        let device = self.kernel.device(&self.device_name).await?;
        let is_up = device.is_some_and(|device| device.index == self.device && device.is_up);
        if is_up && self.state.is_up() { self.reapply().await } else { self.on_device_state(is_up).await }
    }

    async fn apply_capture_state(&mut self, state: CaptureState) -> std::io::Result<()> {
        if let Some((_, plan)) = self.pending_plan.take_if(|(generation, _)| *generation == state.generation)
        {
            self.plan = plan;
            self.logged.clear();
        }
        self.capture_state = state;
        self.log_captures();
        self.set_rules(false).await
    }

    /// Checks the settings of a reload for conflicts, and sets their routes. No packet uses the
    /// routes before their rules exist.
    async fn prepare_settings(
        &mut self,
        tunnel: &Tunnel,
        exposed: &[ExposedResource],
        generation: u64,
    ) -> Result<(), Failure> {
        let plan = RoutingPlan::new(tunnel, exposed);
        check_plan(&self.kernel, tunnel, &plan).await?;
        let plan = if self.speaks_ipv6 { plan } else { plan.without_ipv6() };
        // The system refuses routes to a device that is down. The task sets them once the device is
        // up.
        if self.state.is_up() {
            self.set_routes_of(&plan).await.map_err(|error| system_failure("cannot add a route", &error))?;
        }
        self.pending_plan = Some((generation, plan));
        Ok(())
    }
}
