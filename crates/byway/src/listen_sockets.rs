//! Sockets on which a node listens for others, also on machines that support one address family
//! only.

use std::net::SocketAddr;

use byway_net::BindError;

/// Error of binding a socket, which an unsupported address family may have caused.
pub(crate) trait FamilyError {
    /// Returns the address whose family the machine does not support; `None` if the error has
    /// another cause.
    fn unsupported_family(&self) -> Option<SocketAddr>;
}

impl FamilyError for BindError {
    fn unsupported_family(&self) -> Option<SocketAddr> {
        match self {
            Self::FamilyUnsupported { address } => Some(*address),
            _ => None,
        }
    }
}

/// Binds the listening addresses of a node by `bind`. If they are the default, skips an address
/// family that the machine does not support.
///
/// # Errors
/// If the machine refuses, or supports neither family.
pub(crate) fn bind<T, E: FamilyError>(
    listen: &[SocketAddr],
    is_default: bool,
    bind: impl Fn(&[SocketAddr]) -> Result<T, E>,
) -> Result<T, E> {
    let error = match bind(listen) {
        Ok(bound) => return Ok(bound),
        Err(error) => error,
    };
    let Some(address) = error.unsupported_family().filter(|_| is_default) else {
        return Err(error);
    };
    let supported: Vec<SocketAddr> =
        listen.iter().copied().filter(|other| other.is_ipv4() != address.is_ipv4()).collect();
    if supported.is_empty() {
        return Err(error);
    }
    tracing::info!(
        listen = ?supported,
        "this machine does not support the address family of {address}: not listening on it, because \
         `listen` is not set"
    );
    bind(&supported)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: &str = "0.0.0.0:4600";
    const IPV6: &str = "[::]:4600";

    fn addresses(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| address.parse().expect("an address")).collect()
    }

    /// Binds on a simulated machine that supports some families; returns the bound addresses.
    fn bound(
        listen: &[&str],
        is_default: bool,
        is_spoken: fn(&SocketAddr) -> bool,
    ) -> Result<Vec<SocketAddr>, BindError> {
        bind(&addresses(listen), is_default, |listen| {
            match listen.iter().find(|address| !is_spoken(address)) {
                Some(address) => Err(BindError::FamilyUnsupported { address: *address }),
                None => Ok(listen.to_vec()),
            }
        })
    }

    #[test]
    fn of_the_default_a_family_that_the_machine_does_not_speak_is_left_out() {
        let both = [IPV4, IPV6];
        let bound = |is_spoken| bound(&both, true, is_spoken).expect("one family is spoken");
        assert_eq!(bound(SocketAddr::is_ipv4), addresses(&[IPV4]));
        assert_eq!(bound(SocketAddr::is_ipv6), addresses(&[IPV6]));
        assert_eq!(bound(|_| true), addresses(&both));
    }

    #[test]
    fn what_was_asked_for_is_not_left_out() {
        let error = bound(&[IPV4, IPV6], false, SocketAddr::is_ipv4).expect_err("it was asked for");
        assert!(error.to_string().contains(IPV6), "{error}");
    }

    #[test]
    fn a_machine_that_speaks_neither_is_an_error() {
        assert!(bound(&[IPV4, IPV6], true, |_| false).is_err());
        assert!(bound(&[IPV6], true, SocketAddr::is_ipv4).is_err());
    }

    #[test]
    fn another_error_leaves_nothing_out() {
        let listen = addresses(&[IPV4, IPV6]);
        let address = listen[1];
        let error = bind(&listen, true, |_| Err::<(), _>(BindError::InUse { address }));
        assert!(error.is_err_and(|error| error.to_string().contains("another process")));
    }
}
