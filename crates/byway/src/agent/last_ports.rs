//! UDP ports of an agent's last run, which the next run binds again. NATs then keep the outside
//! port, by which relays recognise the agent.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use byway_net::BindError;

use crate::membership::files::{self, FileError};

/// Name of the file in the state folder. It contains the bound addresses, one a line.
const FILE: &str = "ports";

/// Addresses of the settings, and the addresses that the last run bound for them.
pub(super) struct LastPorts<'a> {
    asked: &'a [SocketAddr],
    bound: Vec<SocketAddr>,
    file: PathBuf,
}

impl<'a> LastPorts<'a> {
    /// Reads the ports of the last run. An unreadable file, or one without addresses, counts as
    /// none.
    pub(super) fn read(state: &Path, asked: &'a [SocketAddr]) -> Self {
        let file = state.join(FILE);
        let text = files::read_own(&file).ok().flatten().unwrap_or_default();
        // One of each family.
        let bound = text.lines().map_while(|line| line.parse().ok()).take(2).collect();
        Self { asked, bound, file }
    }

    /// Binds the addresses of the settings. If the settings leave the port to the system, it binds
    /// the port of the last run. If that port is not free, the system chooses one.
    ///
    /// # Errors
    /// The error of `bind`, for the addresses of the settings.
    pub(super) fn bind<T>(
        &self,
        bind: impl Fn(&[SocketAddr]) -> Result<T, BindError>,
    ) -> Result<T, BindError> {
        let mut wanted: Vec<SocketAddr> = self.asked.iter().map(|asked| self.with_port(*asked)).collect();
        loop {
            let error = match bind(&wanted) {
                Ok(bound) => return Ok(bound),
                Err(error) => error,
            };
            let mut both = wanted.iter_mut().zip(self.asked);
            let remembered = both.find(|(wanted, asked)| *wanted != *asked && is_unavailable(&error, wanted));
            let Some((wanted, asked)) = remembered else {
                return Err(error);
            };
            tracing::info!(
                %wanted, %error,
                "cannot bind the port of the last run; the system chooses another"
            );
            *wanted = *asked;
        }
    }

    fn with_port(&self, mut address: SocketAddr) -> SocketAddr {
        let of_family = self.bound.iter().find(|bound| bound.is_ipv4() == address.is_ipv4());
        if let Some(bound) = of_family.filter(|_| address.port() == 0) {
            address.set_port(bound.port());
        }
        address
    }

    /// Writes the ports of this run for the next one, where the settings leave one to the system.
    ///
    /// # Errors
    /// If the disk does not take them.
    pub(super) fn replace(&self, bound: &[SocketAddr]) -> Result<(), FileError> {
        if self.asked.iter().all(|asked| asked.port() != 0) || self.bound == bound {
            return Ok(());
        }
        files::make_folder(self.file.parent().unwrap_or(Path::new(".")))?;
        let lines: Vec<String> = bound.iter().map(ToString::to_string).collect();
        files::replace(&self.file, &(lines.join("\n") + "\n"))
    }
}

/// True if the error is that this process cannot bind the port of this address.
fn is_unavailable(error: &BindError, wanted: &SocketAddr) -> bool {
    matches!(error, BindError::InUse { address } | BindError::Forbidden { address } if address == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: [&str; 2] = ["0.0.0.0:0", "[::]:0"];

    fn addresses(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| address.parse().expect("an address")).collect()
    }

    /// Binds on a machine where the ports `taken` are in use and the system chooses 9. Returns the
    /// bound addresses.
    fn bound(asked: &[&str], last: &[&str], taken: &[u16]) -> Result<Vec<SocketAddr>, BindError> {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let asked = addresses(asked);
        LastPorts::read(&state, &addresses(&ANY)).replace(&addresses(last)).expect("the disk has space");
        LastPorts::read(&state, &asked).bind(|wanted| {
            match wanted.iter().find(|address| taken.contains(&address.port())) {
                Some(address) => Err(BindError::InUse { address: *address }),
                None => Ok(wanted.to_vec()),
            }
        })
    }

    #[test]
    fn each_family_has_its_port_of_the_last_run_if_the_settings_name_none() {
        let last = ["0.0.0.0:41000", "[::]:42000"];
        let bound = |asked: &[&str]| bound(asked, &last, &[]).expect("all are free");
        assert_eq!(bound(&ANY), addresses(&last));
        assert_eq!(bound(&["192.0.2.1:0"]), addresses(&["192.0.2.1:41000"]), "at another address");
        assert_eq!(bound(&["0.0.0.0:4600", "[::]:0"]), addresses(&["0.0.0.0:4600", "[::]:42000"]));
    }

    #[test]
    fn the_system_chooses_in_place_of_a_port_that_is_taken() {
        let last = ["0.0.0.0:41000", "[::]:42000"];
        let bound = |taken: &[u16]| bound(&ANY, &last, taken).expect("some are free");
        assert_eq!(bound(&[41_000]), addresses(&["0.0.0.0:0", "[::]:42000"]));
        assert_eq!(bound(&[42_000]), addresses(&["0.0.0.0:41000", "[::]:0"]));
        assert_eq!(bound(&[41_000, 42_000]), addresses(&ANY));
    }

    #[test]
    fn a_port_of_the_settings_that_is_taken_is_an_error() {
        let last = ["0.0.0.0:41000", "[::]:42000"];
        let error = bound(&["0.0.0.0:4600", "[::]:0"], &last, &[4_600, 42_000]).expect_err("it is taken");
        assert!(error.to_string().contains("0.0.0.0:4600"), "{error}");
        assert!(bound(&ANY, &last, &[0, 41_000, 42_000]).is_err(), "no port is free");
    }

    #[test]
    fn ports_of_the_settings_are_not_written_and_a_broken_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = || files::read(&folder.path().join(FILE)).expect("readable");
        let fixed = addresses(&["0.0.0.0:4600"]);
        LastPorts::read(folder.path(), &fixed).replace(&fixed).expect("nothing to write");
        assert_eq!(text(), None);
        files::replace(&folder.path().join(FILE), "0.0.0.0:no port\n[::]:42000\n")
            .expect("the disk has space");
        let any = addresses(&ANY);
        let last = LastPorts::read(folder.path(), &any);
        assert_eq!(last.bind(|wanted| Ok(wanted.to_vec())).expect("bound"), any);
        last.replace(&addresses(&["0.0.0.0:41000"])).expect("the disk has space");
        assert_eq!(text().as_deref(), Some("0.0.0.0:41000\n"));
    }
}
