//! Queries of the kernel and of `WireGuard` about a tunnel's device.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use super::derivation::{RT_TABLE_MAIN, TunnelFacts};
use super::wireguard::{Dump, parse};
use crate::capture::RouteNetlink;
use crate::exit::{Cause, Failure};

/// Addresses that represent the Internet in lookups of routes (RFC 5737, 3849).
const FAR: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1))];

/// Queries the properties of a `WireGuard` device and of this machine.
///
/// # Errors
/// If it does not exist or is not a `WireGuard` device, or `wg` is missing or not permitted.
pub(super) async fn facts(device: &str) -> Result<TunnelFacts, Failure> {
    let query_failure = |error: io::Error| Failure::machine(format!("cannot query network devices: {error}"));
    let kernel = RouteNetlink::connect().map_err(query_failure)?;
    let Some(link) = kernel.device(device).await.map_err(query_failure)? else {
        let message = format!(
            "device {device:?} not found (ip link shows all): take the tunnel up first, as with \
             wg-quick up {device}"
        );
        return Err(Failure::new(Cause::Settings, message));
    };
    let dump = dump(device)?;
    let mut destinations =
        dump.peers.iter().filter_map(|peer| peer.endpoint).map(|at| at.ip()).collect::<Vec<_>>();
    destinations.extend(FAR);
    let mut is_default_route = false;
    for to in destinations {
        is_default_route |=
            kernel.lookup_route(to, 0).await.map_err(query_failure)?.device == Some(link.index);
    }
    if is_default_route && kernel.has_broad_route(RT_TABLE_MAIN, link.index).await.map_err(query_failure)? {
        return Err(Failure::new(
            Cause::Settings,
            format!(
                "{device} has the default route in the main table, which would route Byway's own \
                 packets into it: have wg-quick set it up with AllowedIPs = 0.0.0.0/0, ::/0, which uses \
                 a table of its own"
            ),
        ));
    }
    let own = kernel.addresses(link.index).await.map_err(query_failure)?;
    Ok(TunnelFacts { device: device.to_owned(), mtu: link.mtu, dump, own, is_default_route })
}

/// Runs `wg show DEVICE dump`, and parses its output.
fn dump(device: &str) -> Result<Dump, Failure> {
    let output =
        Command::new("wg").args(["show", device, "dump"]).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::machine(
            "program wg not found: install wireguard-tools (apt install wireguard-tools, or the \
             package of your system)",
        ),
        _ => Failure::machine(format!("cannot start the program wg: {error}")),
    })?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(refusal(device, stderr.trim()));
    }
    parse(&String::from_utf8_lossy(&output.stdout)).map_err(|error| {
        Failure::machine(format!(
            "unexpected output of wg show {device} dump: {error}; update wireguard-tools"
        ))
    })
}

/// Returns the failure for an error message of `wg` about an existing device.
fn refusal(device: &str, stderr: &str) -> Failure {
    if stderr.contains("not permitted") || stderr.contains("Permission denied") {
        return Failure::machine(format!(
            "no permission to query {device}: run this with sudo (wg: {stderr})"
        ));
    }
    let message = format!("{device} is not a WireGuard device: wg show interfaces lists all (wg: {stderr})");
    Failure::new(Cause::Settings, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_ask_is_told_apart_from_what_is_no_tunnel() {
        for (stderr, cause, words) in [
            ("Unable to access interface: Operation not permitted", Cause::Machine, "sudo"),
            (
                "Unable to access interface: Operation not supported",
                Cause::Settings,
                "not a WireGuard device",
            ),
            ("Unable to access interface: No such device", Cause::Settings, "wg show interfaces"),
        ] {
            let failure = refusal("eth0", stderr);
            assert!(failure.cause() == cause && failure.to_string().contains(words), "{failure}");
        }
    }
}
