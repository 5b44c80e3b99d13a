//! Rules that follow the agent's doors, and its settings.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::plan::Plan;
use super::watch::{DeviceWatch, next_state};
use super::{Capturing, check_plan, refused};
use crate::agent::Doors;
use crate::exit::{Cause, Failure};
use crate::settings::{Exposed, Tunnel};

/// How often is looked whether this machine has other addresses now.
const LOOKS_EVERY: Duration = Duration::from_secs(10);

/// Settings that are about to be in force.
struct Proposal {
    tunnel: Tunnel,
    exposed: Vec<Exposed>,
    /// Their number, which doors name as soon as they are in force.
    generation: u64,
    answer: oneshot::Sender<Result<(), Failure>>,
}

/// The task that has the system's routing follow an agent, as that agent sees it. It ends, and undoes everything, when the agent's thread
/// has ended or captures nothing any more.
pub(crate) struct Follower {
    task: JoinHandle<()>,
    proposals: mpsc::Sender<Proposal>,
}

impl Follower {
    pub(crate) fn start(capturing: Capturing, doors: watch::Receiver<Doors>) -> Self {
        let (proposals, proposed) = mpsc::channel(1);
        Self { task: tokio::spawn(capturing.follow(doors, proposed)), proposals }
    }

    /// Has all ready for other settings, which are in force once doors name their number.
    ///
    /// # Errors
    /// If something stands in the way, or the system refuses.
    pub(crate) async fn prepare(
        &self,
        tunnel: &Tunnel,
        exposed: &[Exposed],
        generation: u64,
    ) -> Result<(), Failure> {
        let ended = || Failure::new(Cause::Byway, "nothing follows the captures any more: restart the agent");
        let (answer, outcome) = oneshot::channel();
        let (tunnel, exposed) = (tunnel.clone(), exposed.to_vec());
        let proposal = Proposal { tunnel, exposed, generation, answer };
        self.proposals.send(proposal).await.map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }

    /// Waits until everything is undone.
    pub(crate) async fn ended(self) {
        drop(self.proposals);
        // It has ended by itself at worst.
        let _ = self.task.await;
    }
}

impl Capturing {
    /// Opens and closes doors as the agent says, until it has ended.
    async fn follow(mut self, mut doors: watch::Receiver<Doors>, mut proposals: mpsc::Receiver<Proposal>) {
        let mut looks = tokio::time::interval(LOOKS_EVERY);
        let mut watch = DeviceWatch::of_number(self.device)
            .inspect_err(|error| tracing::warn!(%error, "cannot watch the device: if it is set down, peers go on sending to it"))
            .ok();
        loop {
            let set = tokio::select! {
                changed = doors.changed() => match changed {
                    Ok(()) => {
                        let doors = doors.borrow_and_update().clone();
                        self.take_doors(doors).await
                    }
                    Err(_) => break,
                },
                Some(proposal) = proposals.recv() => {
                    let Proposal { tunnel, exposed, generation, answer } = proposal;
                    // Whoever proposed it may have gone.
                    let _ = answer.send(self.propose(&tunnel, &exposed, generation).await);
                    Ok(())
                }
                Some(is_up) = next_state(&mut watch) => self.note_state(is_up).await,
                _ = looks.tick() => self.look().await,
            };
            if let Err(error) = set {
                tracing::error!(%error, "the system's routing cannot be changed; it is tried again in {LOOKS_EVERY:?}");
            }
        }
        self.guard.finish(self.plan.table).await;
    }

    /// Notes that the device was set up or down. The system forgets the routes and the IPv6 addresses of one that is down.
    async fn note_state(&mut self, is_up: bool) -> std::io::Result<()> {
        if !self.state.set(is_up) {
            return Ok(());
        }
        let name = &self.device_name;
        if !is_up {
            tracing::warn!(
                "the device {name} is down: packets go without Byway until it is up (ip link set {name} up)"
            );
            return Ok(());
        }
        tracing::info!("the device {name} is up again");
        self.set_again().await
    }

    /// Looks at the device, a notification of which may have been lost, and sets everything again while it is up.
    async fn look(&mut self) -> std::io::Result<()> {
        let device = self.kernel.link(&self.device_name).await?;
        let is_up = device.is_some_and(|device| device.index == self.device && device.is_up);
        if is_up && self.state.is_up() { self.set_again().await } else { self.note_state(is_up).await }
    }

    async fn take_doors(&mut self, doors: Doors) -> std::io::Result<()> {
        if let Some((_, plan)) = self.next.take_if(|(generation, _)| *generation == doors.generation) {
            self.plan = plan;
            self.told.clear();
        }
        self.doors = doors;
        self.tell();
        self.set_rules(false).await
    }

    /// Checks settings that are about to be in force, and sets their routes: without rules, nothing goes by them.
    async fn propose(
        &mut self,
        tunnel: &Tunnel,
        exposed: &[Exposed],
        generation: u64,
    ) -> Result<(), Failure> {
        let plan = Plan::new(tunnel, exposed);
        check_plan(&self.kernel, tunnel, &plan).await?;
        let plan = if self.speaks_ipv6 { plan } else { plan.without_ipv6() };
        // The system takes no routes to a device that is down: they are set once it is up.
        if self.state.is_up() {
            self.set_routes_of(&plan).await.map_err(|error| refused("a route cannot be set", &error))?;
        }
        self.next = Some((generation, plan));
        Ok(())
    }
}
