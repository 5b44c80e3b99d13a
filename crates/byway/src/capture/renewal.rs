//! A tunnel's device that others remove and make anew, as `wg-quick down` and `up` do.

use std::io;
use std::time::Duration;

use super::kernel::Kernel;
use super::watch::{DeviceWatch, next_state};
use crate::reload::Asker;

/// Interval of looks at the device beside the system's notifications, of which one may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Time after which settings that could not be read are read again: a device may be there before it has its peers.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Has the agent read its settings again each time that another device has this name, as ports, endpoints and addresses
/// may have changed with it.
pub(crate) async fn follow_renewals(name: String, reloads: Asker) {
    if let Err(error) = follow(&name, &reloads).await {
        tracing::warn!(%error, "cannot watch the device {name}: after it is made anew, run byway reload");
    }
}

async fn follow(name: &str, reloads: &Asker) -> io::Result<()> {
    let kernel = Kernel::connect()?;
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
        match reloads.ask().await {
            Ok(_) => known = now,
            // The agent logs the reason.
            Err(_) => interval = RETRY_INTERVAL,
        }
    }
}

/// The number of the device that has this name and is up; `None` also where the system does not say.
async fn index(kernel: &Kernel, name: &str) -> Option<u32> {
    let device = kernel.link(name).await.ok().flatten()?;
    device.is_up.then_some(device.index)
}
