//! What is asked of the system and of `WireGuard`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use super::derived::{Facts, MAIN_TABLE};
use super::wireguard::{Dump, parse};
use crate::capture::Kernel;
use crate::exit::{Cause, Failure};

/// Addresses of the Internet that stand for all of it (RFC 5737, 3849).
const FAR: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1))];

/// Asks for all that matters about a device.
///
/// # Errors
/// If there is none of this name, it is none of `WireGuard`'s, or `wg` is not there or may not say.
pub(super) async fn facts(device: &str) -> Result<Facts, Failure> {
    let refused =
        |error: io::Error| Failure::machine(format!("the system does not tell about its devices: {error}"));
    let kernel = Kernel::connect().map_err(refused)?;
    let Some(link) = kernel.link(device).await.map_err(refused)? else {
        let message = format!(
            "there is no device {device:?} (ip link shows all): take the tunnel up first, as with wg-quick up {device}"
        );
        return Err(Failure::new(Cause::Settings, message));
    };
    let dump = dump(device)?;
    let mut ways = dump.peers.iter().filter_map(|peer| peer.endpoint).map(|at| at.ip()).collect::<Vec<_>>();
    ways.extend(FAR);
    let mut takes_everything = false;
    for to in ways {
        takes_everything |= kernel.way_to(to, 0).await.map_err(refused)?.device == Some(link.index);
    }
    if takes_everything && kernel.leads_most_by(MAIN_TABLE, link.index).await.map_err(refused)? {
        return Err(Failure::new(
            Cause::Settings,
            format!(
                "{device} takes everything by routes of the main table, by which Byway's own packets would go into it, too: have wg-quick set it up with \
             AllowedIPs = 0.0.0.0/0, ::/0, which takes a table of its own"
            ),
        ));
    }
    let own = kernel.addresses(link.index).await.map_err(refused)?;
    Ok(Facts { device: device.to_owned(), mtu: link.mtu, dump, own, takes_everything })
}

/// Asks `WireGuard`.
fn dump(device: &str) -> Result<Dump, Failure> {
    let output =
        Command::new("wg").args(["show", device, "dump"]).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::machine(
            "there is no program wg, which tells about WireGuard: apt install wireguard-tools, or as the package is called on your system",
        ),
        _ => Failure::machine(format!("the program wg, which tells about WireGuard, does not start: {error}")),
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(refusal(device, said.trim()));
    }
    parse(&String::from_utf8_lossy(&output.stdout)).map_err(|error| {
        Failure::machine(format!(
            "wg show {device} dump says something else than expected: {error}: update wireguard-tools"
        ))
    })
}

/// Why `wg` tells nothing about a device that is there.
fn refusal(device: &str, said: &str) -> Failure {
    if said.contains("not permitted") || said.contains("Permission denied") {
        return Failure::machine(format!(
            "what goes through {device} is told to root alone: run this with sudo (wg says: {said})"
        ));
    }
    let message = format!(
        "{device} is no device of WireGuard: wg show interfaces lists those that are (wg says: {said})"
    );
    Failure::new(Cause::Settings, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_ask_is_told_apart_from_what_is_no_tunnel() {
        for (said, cause, words) in [
            ("Unable to access interface: Operation not permitted", Cause::Machine, "sudo"),
            (
                "Unable to access interface: Operation not supported",
                Cause::Settings,
                "no device of WireGuard",
            ),
            ("Unable to access interface: No such device", Cause::Settings, "wg show interfaces"),
        ] {
            let failure = refusal("eth0", said);
            assert!(failure.cause() == cause && failure.to_string().contains(words), "{failure}");
        }
    }
}
