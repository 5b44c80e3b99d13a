//! Leases of registered flows: an application sees the paths of its own flows, for as long as it
//! reads their state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use byway_api::FlowTuple;
use byway_state::LEASE;
use byway_units::Time;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use super::addresses::AddressPair;
use super::refusal::FeedRefusal;
use super::routed_flows::RoutedFlows;
use super::topology::Topology;
use crate::controller::access::Application;
use crate::controller::limits::{TUPLES_MAX, TUPLES_PER_TENANT_MAX};

/// Identifier of a lease, which nobody can guess. As text, it is 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseId(pub(crate) [u8; 16]);

impl LeaseId {
    /// Reads the identifier of a lease. Any text that is none counts as an unknown lease.
    pub(super) fn parse(text: &str) -> Result<Self, FeedRefusal> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(FeedRefusal::NoLease)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// All leases. Reads of a pair of endpoints renew all flows that the application has between them,
/// whatever leases they are in.
#[derive(Debug, Default)]
pub(super) struct LeaseTable {
    leases: BTreeMap<LeaseId, Lease>,
    /// Endpoints of leased flows, by the application's number.
    pairs: BTreeMap<(u32, AddressPair), LeasedPair>,
    /// Number of registered flows of each tenant.
    tuples_by_tenant: BTreeMap<Arc<str>, usize>,
    tuples: usize,
    /// Registered flows by path.
    flows: RoutedFlows,
}

/// Registered flows of one request.
#[derive(Debug)]
struct Lease {
    application: u32,
    tenant: Arc<str>,
    tuples: Vec<FlowTuple>,
}

/// Leases of one application with flows between two endpoints.
#[derive(Debug)]
struct LeasedPair {
    /// End of the registration, unless a read renews it.
    until: Time,
    leases: BTreeSet<LeaseId>,
}

impl LeaseTable {
    /// Creates the empty table of a topology, whose paths the flows take.
    pub(super) fn new(topology: Arc<Topology>) -> Self {
        Self { flows: RoutedFlows::new(topology), ..Self::default() }
    }

    /// Returns the registered flows by path.
    pub(super) const fn flows(&self) -> &RoutedFlows {
        &self.flows
    }

    /// Registers an application's flows, which are checked and distinct, as a new lease. Flows that
    /// it has registered before move there from their earlier lease.
    ///
    /// A flow may be in leases of several applications, because both of its ends may register it.
    pub(super) fn register(
        &mut self,
        application: &Application,
        id: LeaseId,
        tuples: Vec<FlowTuple>,
        now: Time,
    ) -> Result<(), FeedRefusal> {
        let moved = self.registered_before(application.number, &tuples);
        let added = tuples.len() - moved.values().map(BTreeSet::len).sum::<usize>();
        let of_tenant = self.tuples_by_tenant.get(&application.tenant).copied().unwrap_or_default();
        if of_tenant + added > TUPLES_PER_TENANT_MAX {
            return Err(FeedRefusal::TenantFull(application.tenant.to_string()));
        }
        if self.tuples + added > TUPLES_MAX {
            return Err(FeedRefusal::Full);
        }
        let until = now.saturating_add(LEASE);
        for tuple in &tuples {
            let key = (application.number, AddressPair::of_tuple(tuple));
            let pair = self.pairs.entry(key).or_insert_with(|| LeasedPair { until, leases: BTreeSet::new() });
            pair.until = pair.until.max(until);
            pair.leases.insert(id);
            self.flows.add(&application.tenant, tuple);
        }
        self.tuples += tuples.len();
        self.tuples_by_tenant.insert(Arc::clone(&application.tenant), of_tenant + tuples.len());
        let tenant = Arc::clone(&application.tenant);
        // Last, so that flows that move are never absent for the links.
        for (earlier, tuples) in &moved {
            self.move_away(application.number, *earlier, tuples);
        }
        self.leases.insert(id, Lease { application: application.number, tenant, tuples });
        Ok(())
    }

    /// Returns those of the flows that an application has registered before, by their lease. Each
    /// flow of an application is in one lease.
    fn registered_before(
        &self,
        application: u32,
        tuples: &[FlowTuple],
    ) -> BTreeMap<LeaseId, BTreeSet<FlowTuple>> {
        let wanted: BTreeSet<&FlowTuple> = tuples.iter().collect();
        let pairs: BTreeSet<AddressPair> = tuples.iter().map(AddressPair::of_tuple).collect();
        let leased = pairs.into_iter().filter_map(|pair| self.pairs.get(&(application, pair)));
        let ids: BTreeSet<LeaseId> = leased.flat_map(|leased| leased.leases.iter().copied()).collect();
        let mut found: BTreeMap<LeaseId, BTreeSet<FlowTuple>> = BTreeMap::new();
        for id in ids {
            let Some(lease) = self.leases.get(&id) else { continue };
            for tuple in lease.tuples.iter().filter(|tuple| wanted.contains(tuple)) {
                found.entry(id).or_default().insert(*tuple);
            }
        }
        found
    }

    /// Removes flows of an application from a lease, because a newer one has them. Their endpoints
    /// forget the lease, unless it has other flows between them.
    fn move_away(&mut self, application: u32, id: LeaseId, tuples: &BTreeSet<FlowTuple>) {
        self.remove_tuples(id, |tuple| tuples.contains(tuple));
        let left = self.leases.get(&id).map(|lease| lease.tuples.as_slice()).unwrap_or_default();
        let left: BTreeSet<AddressPair> = left.iter().map(AddressPair::of_tuple).collect();
        for pair in tuples.iter().map(AddressPair::of_tuple).filter(|pair| !left.contains(pair)) {
            let key = (application, pair);
            let Some(leased) = self.pairs.get_mut(&key) else { continue };
            leased.leases.remove(&id);
            if leased.leases.is_empty() {
                self.pairs.remove(&key);
            }
        }
    }

    /// Renews an application's flows between two endpoints. Returns false if it has none, or if
    /// their registration has ended.
    pub(super) fn renew(&mut self, application: u32, pair: AddressPair, now: Time) -> bool {
        let Some(leased) = self.pairs.get_mut(&(application, pair)).filter(|leased| leased.until > now)
        else {
            return false;
        };
        leased.until = leased.until.max(now.saturating_add(LEASE));
        true
    }

    /// Ends an application's lease.
    pub(super) fn release(&mut self, application: u32, id: LeaseId, now: Time) -> Result<(), FeedRefusal> {
        let own = self.leases.get(&id).filter(|lease| lease.application == application);
        let lease = own.ok_or(FeedRefusal::NoLease)?;
        let pairs: BTreeSet<AddressPair> = lease.tuples.iter().map(AddressPair::of_tuple).collect();
        let mut is_current = false;
        for pair in pairs {
            let key = (application, pair);
            let Some(leased) = self.pairs.get_mut(&key) else { continue };
            is_current |= leased.until > now;
            leased.leases.remove(&id);
            if leased.leases.is_empty() {
                self.pairs.remove(&key);
            }
        }
        self.remove_tuples(id, |_| true);
        if is_current { Ok(()) } else { Err(FeedRefusal::NoLease) }
    }

    /// Removes the flows whose registration has ended.
    pub(super) fn expire(&mut self, now: Time) {
        let ended = self.pairs.iter().filter(|(_, leased)| leased.until <= now);
        let ended: Vec<(u32, AddressPair)> = ended.map(|(key, _)| *key).collect();
        for key in ended {
            let leases = self.pairs.remove(&key).map(|leased| leased.leases).unwrap_or_default();
            for id in leases {
                self.remove_tuples(id, |tuple| AddressPair::of_tuple(tuple) == key.1);
            }
        }
    }

    /// Returns the number of registered flows.
    pub(super) const fn tuples(&self) -> usize {
        self.tuples
    }

    /// Removes some flows of a lease, and a lease that has none left.
    fn remove_tuples(&mut self, id: LeaseId, is_removed: impl Fn(&FlowTuple) -> bool) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let before = lease.tuples.len();
        let tenant = Arc::clone(&lease.tenant);
        let flows = &mut self.flows;
        lease.tuples.retain(|tuple| {
            let is_kept = !is_removed(tuple);
            if !is_kept {
                flows.remove(&tenant, tuple);
            }
            is_kept
        });
        let removed = before - lease.tuples.len();
        if lease.tuples.is_empty() {
            self.leases.remove(&id);
        }
        self.tuples -= removed;
        if let Some(of_tenant) = self.tuples_by_tenant.get_mut(&tenant) {
            *of_tenant -= removed;
            if *of_tenant == 0 {
                self.tuples_by_tenant.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_api::FlowProtocol;
    use byway_state::Direction;
    use byway_units::Duration;

    use super::*;

    fn application(number: u32, tenant: &str) -> Application {
        Application { number, tenant: tenant.into() }
    }

    fn tuple(from: [u8; 4], to: [u8; 4], port: u16) -> FlowTuple {
        FlowTuple { from: (from, 4_433).into(), to: (to, port).into(), protocol: FlowProtocol::Udp }
    }

    const HERE: [u8; 4] = [10, 0, 0, 2];
    const THERE: [u8; 4] = [198, 51, 100, 7];

    fn pair(from: [u8; 4], to: [u8; 4]) -> AddressPair {
        AddressPair::of(Direction { from: from.into(), to: to.into() })
    }

    fn at(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    fn id(number: u8) -> LeaseId {
        LeaseId([number; 16])
    }

    /// Returns a table with a lease of one flow of application 1, from second 0 on.
    fn leased() -> LeaseTable {
        let mut table = LeaseTable::default();
        let registered = table.register(&application(1, "lab"), id(1), vec![tuple(HERE, THERE, 1)], at(0));
        assert_eq!(registered, Ok(()));
        table
    }

    fn is_empty(table: &LeaseTable) -> bool {
        let LeaseTable { leases, pairs, tuples_by_tenant, tuples, flows } = table;
        let has_none = leases.is_empty() && pairs.is_empty() && tuples_by_tenant.is_empty();
        has_none && *tuples == 0 && flows.is_empty()
    }

    #[test]
    fn a_lease_shows_its_pair_in_both_directions_to_its_application_only() {
        let mut table = leased();
        assert!(table.renew(1, pair(HERE, THERE), at(1)) && table.renew(1, pair(THERE, HERE), at(1)));
        assert!(!table.renew(2, pair(HERE, THERE), at(1)), "another application");
        assert!(!table.renew(1, pair(HERE, [198, 51, 100, 8]), at(1)), "another pair");
    }

    #[test]
    fn a_lease_ends_after_a_minute_without_a_read() {
        let mut table = leased();
        assert!(table.renew(1, pair(HERE, THERE), at(59)));
        assert!(table.renew(1, pair(HERE, THERE), at(118)), "the read before has renewed it");
        table.expire(at(177));
        assert_eq!(table.tuples(), 1);
        assert!(!table.renew(1, pair(HERE, THERE), at(178)), "it has ended before it is removed");
        table.expire(at(178));
        assert!(is_empty(&table));
        assert_eq!(table.release(1, id(1), at(178)), Err(FeedRefusal::NoLease));
    }

    #[test]
    fn a_lease_is_released_by_its_application_only() {
        let mut table = leased();
        assert_eq!(table.release(2, id(1), at(1)), Err(FeedRefusal::NoLease));
        assert_eq!(table.release(1, id(2), at(1)), Err(FeedRefusal::NoLease));
        assert_eq!(table.release(1, id(1), at(1)), Ok(()));
        assert!(is_empty(&table) && !table.renew(1, pair(HERE, THERE), at(1)));
        assert_eq!(table.release(1, id(1), at(1)), Err(FeedRefusal::NoLease));
    }

    #[test]
    fn leases_of_one_pair_are_renewed_together_and_end_apart() {
        let mut table = leased();
        let lab = application(1, "lab");
        let tuples = vec![tuple(HERE, THERE, 2), tuple(THERE, HERE, 3), tuple(HERE, [192, 0, 2, 1], 4)];
        assert_eq!(table.register(&lab, id(2), tuples, at(50)), Ok(()));
        table.expire(at(100));
        assert_eq!(table.tuples(), 4, "the second lease has renewed the first one's flow");
        assert!(table.renew(1, pair(HERE, THERE), at(100)));
        table.expire(at(110));
        assert_eq!(table.tuples(), 3, "nobody has read about the third endpoint");
        assert_eq!(table.release(1, id(1), at(110)), Ok(()));
        assert!(table.renew(1, pair(HERE, THERE), at(110)), "the second lease is there");
        assert_eq!(table.release(1, id(2), at(110)), Ok(()));
        assert!(is_empty(&table));
    }

    #[test]
    fn several_applications_may_register_one_flow() {
        let mut table = leased();
        for (number, tenant) in [(2, "lab"), (3, "office")] {
            let registered = table.register(
                &application(number, tenant),
                id(number.to_be_bytes()[3]),
                vec![tuple(HERE, THERE, 1)],
                at(1),
            );
            assert_eq!(registered, Ok(()));
        }
        assert_eq!(table.release(1, id(1), at(2)), Ok(()));
        assert!(!table.renew(1, pair(HERE, THERE), at(2)));
        assert!(table.renew(2, pair(HERE, THERE), at(2)) && table.renew(3, pair(HERE, THERE), at(2)));
    }

    #[test]
    fn a_hundred_thousand_registrations_are_bounded_by_tenant_and_in_all() {
        let mut table = LeaseTable::default();
        let mut full = [0, 0];
        for number in 0..100_000_u32 {
            let [_, _, high, low] = number.to_be_bytes();
            let tenant = application(number % 20, &format!("tenant-{}", number % 20));
            let lease = LeaseId(u128::from(number).to_be_bytes());
            match table.register(&tenant, lease, vec![tuple([10, 1, high, low], THERE, 1)], at(0)) {
                Ok(()) => {}
                Err(FeedRefusal::TenantFull(_)) => full[0] += 1,
                Err(FeedRefusal::Full) => full[1] += 1,
                Err(error) => panic!("{error}"),
            }
        }
        // 20 tenants want 5,000 each, may have 4,096 each, and find 65,536 in all.
        assert_eq!((table.tuples(), full), (65_536, [0, 34_464]));
        let lab = application(99, "lab");
        table.expire(at(60));
        assert!(is_empty(&table));
        let register = |table: &mut LeaseTable, number: u32| {
            let lease = LeaseId(u128::from(number).to_be_bytes());
            let port = u16::try_from(number + 1).expect("a port");
            table.register(&lab, lease, vec![tuple(HERE, THERE, port)], at(60))
        };
        assert!((0..4_096).all(|number| register(&mut table, number).is_ok()));
        assert_eq!(register(&mut table, 4_096), Err(FeedRefusal::TenantFull("lab".to_owned())));
    }

    #[test]
    fn flows_that_are_registered_again_move_to_the_new_lease_and_count_once() {
        let mut table = LeaseTable::default();
        let lab = application(1, "lab");
        let flows: Vec<FlowTuple> = (1..=64).map(|port| tuple(HERE, THERE, port)).collect();
        for number in 1..=100 {
            assert_eq!(table.register(&lab, id(number), flows.clone(), at(0)), Ok(()));
            let of_pair = table.pairs.values().map(|leased| leased.leases.len()).sum::<usize>();
            assert_eq!((table.tuples(), table.leases.len(), of_pair), (64, 1, 1), "{number}");
        }
        assert_eq!(table.release(1, id(99), at(0)), Err(FeedRefusal::NoLease), "nothing is left of it");
        assert_eq!(table.release(1, id(100), at(0)), Ok(()));
        assert!(is_empty(&table));
    }

    #[test]
    fn a_lease_keeps_the_flows_that_are_not_registered_again() {
        let mut table = LeaseTable::default();
        let lab = application(1, "lab");
        let [first, second, other] =
            [tuple(HERE, THERE, 1), tuple(HERE, THERE, 2), tuple(HERE, [192, 0, 2, 1], 3)];
        assert_eq!(table.register(&lab, id(1), vec![first, second, other], at(0)), Ok(()));
        assert_eq!(table.register(&lab, id(2), vec![first, other], at(30)), Ok(()));
        assert_eq!((table.tuples(), table.leases.len()), (3, 2));
        assert_eq!(table.release(1, id(2), at(30)), Ok(()));
        assert!(table.renew(1, pair(HERE, THERE), at(30)), "the second flow is in the first lease");
        assert!(!table.renew(1, pair(HERE, [192, 0, 2, 1]), at(30)), "its only flow had moved");
        assert_eq!(table.release(1, id(1), at(30)), Ok(()));
        assert!(is_empty(&table));
    }

    #[test]
    fn a_full_tenant_may_register_its_flows_again() {
        let mut table = LeaseTable::default();
        let lab = application(1, "lab");
        let flows = |lease: u16| -> Vec<FlowTuple> {
            (1..=64).map(|port| tuple(HERE, THERE, 64 * lease + port)).collect()
        };
        for lease in 0..64 {
            let number = LeaseId(u128::from(lease).to_be_bytes());
            assert_eq!(table.register(&lab, number, flows(lease), at(0)), Ok(()));
        }
        let full = Err(FeedRefusal::TenantFull("lab".to_owned()));
        assert_eq!(table.register(&lab, id(7), flows(64), at(0)), full);
        assert_eq!(table.register(&lab, id(7), flows(63), at(0)), Ok(()));
        assert_eq!((table.tuples(), table.leases.len()), (4_096, 64));
    }

    #[test]
    fn identifiers_are_32_digits() {
        assert_eq!(LeaseId::parse(&id(7).to_string()), Ok(id(7)));
        for text in ["", "07", &"0".repeat(31), &"0".repeat(33), &"0".repeat(34), &"x".repeat(32)] {
            assert_eq!(LeaseId::parse(text), Err(FeedRefusal::NoLease), "{text}");
        }
    }
}
