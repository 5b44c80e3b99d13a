//! Detection of a watched device that is removed and created again, as by `wg-quick down` and `up`.

use std::io;
use std::time::Duration;

use super::device_watch::{DeviceWatch, next_state};
use super::netlink::RouteNetlink;
use crate::reload::ReloadHandle;

/// Interval between two checks of the watched device. They complement the system's notifications,
/// one of which may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Interval between two reloads after one failed. A device may exist before it has its peers.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Reloads the agent's settings each time a new device of this name is up, because its ports,
/// endpoints and addresses may differ.
pub(crate) async fn follow_renewals(name: String, reloads: ReloadHandle) {
    if let Err(error) = follow(&name, &reloads).await {
        tracing::warn!(%error, "cannot watch the device {name}: run byway reload after it was created anew");
    }
}

async fn follow(name: &str, reloads: &ReloadHandle) -> io::Result<()> {
    let kernel = RouteNetlink::connect()?;
    let mut watch = Some(DeviceWatch::of_name(name.to_owned())?);
    let mut known = index(&kernel, name).await;
    let mut interval = POLL_INTERVAL;
    loop {
        tokio::select! {
            state = next_state(&mut watch) => watch = watch.filter(|_| state.is_some()),
            () = tokio::time::sleep(interval) => {}
        }
        let now = index(&kernel, name).await;
        interval = POLL_INTERVAL;
        if now.is_none() || now == known {
            continue;
        }
        match reloads.request().await {
            Ok(_) => known = now,
            // The agent logs the reason.
            Err(_) => interval = RETRY_INTERVAL,
        }
    }
}

/// Returns the interface index of the device of this name; `None` if it is down or absent, or the
/// system does not answer.
async fn index(kernel: &RouteNetlink, name: &str) -> Option<u32> {
    let device = kernel.device(name).await.ok().flatten()?;
    device.is_up.then_some(device.index)
}
