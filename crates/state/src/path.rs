//! Links of one direction between two endpoints.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::limits::LINKS_MAX;
use crate::link_state::{LinkId, NetworkId};

/// Links of one direction of a path, in the order that packets pass them: 1 to 64, each once.
///
/// Links of one network are next to each other, because a path that comes back to a network is a
/// loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    links: Vec<LinkId>,
}

impl Path {
    /// Creates the path of these links.
    ///
    /// # Errors
    /// If there are no links or more than 64, or if a link or a network occurs again.
    pub fn new(links: impl IntoIterator<Item = LinkId>) -> Result<Self, PathError> {
        // One more than allowed is enough to be refused.
        let links: Vec<LinkId> = links.into_iter().take(LINKS_MAX + 1).collect();
        check_links(&links.iter().copied())?;
        Ok(Self { links })
    }

    /// Creates the path of parts in different networks, one after the other.
    ///
    /// # Errors
    /// As for [`Path::new`].
    pub fn joined<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Result<Self, PathError> {
        Self::new(parts.into_iter().flat_map(|part| part.links.iter().copied()))
    }

    /// Returns the links, in the order that packets pass them.
    #[must_use]
    pub fn links(&self) -> &[LinkId] {
        &self.links
    }

    /// Returns the networks, in the order that packets pass them.
    pub fn networks(&self) -> impl Iterator<Item = NetworkId> {
        let before = [None].into_iter().chain(self.links.iter().map(|link| Some(link.network)));
        self.links
            .iter()
            .zip(before)
            .filter(|(link, before)| *before != Some(link.network))
            .map(|(link, _)| link.network)
    }
}

/// Checks the rules of [`Path`].
pub(crate) fn check_links(links: &(impl ExactSizeIterator<Item = LinkId> + Clone)) -> Result<(), PathError> {
    let count = links.len();
    if !(1..=LINKS_MAX).contains(&count) {
        return Err(PathError::Length(count));
    }
    let mut network = None;
    for (position, link) in links.clone().enumerate() {
        let mut before = links.clone().take(position);
        if before.clone().any(|other| other == link) {
            return Err(PathError::LinkAgain(link));
        }
        if network != Some(link.network) && before.any(|other| other.network == link.network) {
            return Err(PathError::NetworkAgain(link.network));
        }
        network = Some(link.network);
    }
    Ok(())
}

/// Error of links that are no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// No links, or more than 64 (the count may be cut there).
    Length(usize),
    /// A link that occurs twice.
    LinkAgain(LinkId),
    /// A network that the path leaves and enters again.
    NetworkAgain(NetworkId),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(0) => f.write_str("path invalid: it has no links"),
            Self::Length(_) => write!(f, "path invalid: it has more than {LINKS_MAX} links"),
            Self::LinkAgain(link) => write!(f, "path invalid: it has {link} twice"),
            Self::NetworkAgain(network) => write!(f, "path invalid: it enters {network} twice"),
        }
    }
}

impl Error for PathError {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;
    use std::vec;

    use super::*;
    use crate::test_values::link;

    #[test]
    fn one_to_64_links_are_a_path() {
        assert_eq!(Path::new([]), Err(PathError::Length(0)));
        assert!(Path::new((0..64).map(|number| link(1, number))).is_ok());
        assert_eq!(Path::new((0..65).map(|number| link(1, number))), Err(PathError::Length(65)));
        assert_eq!(Path::new((0..).map(|number| link(1, number))), Err(PathError::Length(65)));
    }

    #[test]
    fn a_path_over_itself_is_refused() {
        assert_eq!(Path::new([link(1, 1), link(1, 2), link(1, 1)]), Err(PathError::LinkAgain(link(1, 1))));
        let back = Path::new([link(1, 1), link(2, 1), link(1, 2)]);
        assert_eq!(back, Err(PathError::NetworkAgain(NetworkId::new(1))));
    }

    #[test]
    fn parts_join_in_order() {
        let parts =
            [vec![link(1, 1), link(1, 2)], vec![link(2, 1)]].map(|links| Path::new(links).expect("a path"));
        let path = Path::joined(&parts).expect("they are different");
        assert_eq!(path.links(), [link(1, 1), link(1, 2), link(2, 1)]);
        assert_eq!(path.networks().collect::<Vec<_>>(), [1, 2].map(NetworkId::new));
        assert_eq!(Path::joined([&path, &parts[0]]), Err(PathError::LinkAgain(link(1, 1))));
    }

    #[test]
    fn errors_name_the_link_and_the_network() {
        assert!(PathError::Length(0).to_string().contains("no links"));
        assert!(PathError::Length(65).to_string().contains("more than 64"));
        assert!(PathError::LinkAgain(link(1, 7)).to_string().contains("link 7 of network 1"));
        assert!(PathError::NetworkAgain(NetworkId::new(3)).to_string().contains("network 3"));
    }
}
