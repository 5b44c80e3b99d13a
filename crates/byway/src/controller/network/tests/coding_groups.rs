//! Tests of coding groups: pairings and tenants whose flows are coded together.

use super::*;

#[test]
fn a_coding_group_has_so_many_pairings_and_one_tenant() {
    let mut state = TestNetworkState::default();
    let (lab, office) =
        (state.token(Role::Agent, Some("lab"), None), state.token(Role::Agent, Some("office"), None));
    let relays = state.token(Role::Relay, None, None);
    state.relay(relays, "a", 1);
    let mut paired = |token, names: std::ops::Range<u32>| {
        let agents: Vec<_> = names.map(|name| state.agent(token, &name.to_string())).collect();
        for (agent, peer) in agents.iter().zip(&agents[1..]) {
            let peer = state.network.node(*peer).expect("a member").name.clone();
            state.pair(*agent, &peer).expect("one tenant");
        }
    };
    paired(lab, 0..300);
    paired(office, 300..310);
    let plan = PathPlan::of(&state.network);
    let mut sizes: BTreeMap<(Option<u32>, u32), usize> = BTreeMap::new();
    for [one, other] in state.network.pairs().map(Pair::agents) {
        for (sender, receiver) in [(one, other), (other, one)] {
            let tenant = state.network.node(sender).expect("a member").tenant;
            let group = plan.paths(sender, receiver)[0].group;
            *sizes.entry((tenant, group)).or_default() += 1;
        }
    }
    let mut all: Vec<_> = sizes.values().copied().collect();
    all.sort_unstable();
    assert_eq!(all, [18, 598 - 512, 256, 256]);
    assert_eq!(sizes.keys().map(|(_, group)| group).collect::<BTreeSet<_>>().len(), 4);
}

/// Two pairs of agents of each of two tenants, between relays `a` and `b`.
fn two_tenants() -> (TestNetworkState, Vec<[u32; 2]>) {
    let mut state = TestNetworkState::default();
    let relays = state.token(Role::Relay, None, None);
    state.relay(relays, "a", 1);
    state.relay(relays, "b", 1);
    let mut pairs = Vec::new();
    for tenant in ["lab", "office"] {
        let token = state.token(Role::Agent, Some(tenant), None);
        for nth in 0..2 {
            let names = ["from", "to"].map(|end| format!("{tenant}-{end}-{nth}"));
            let agents = [0, 1].map(|end: usize| state.agent(token, &names[end]));
            state.pair(agents[0], &names[1]).expect("one tenant");
            pairs.push(agents);
        }
    }
    (state, pairs)
}

#[test]
fn only_tenants_that_share_coding_have_a_group_in_common_and_grants_that_allow_it() {
    let (mut state, pairs) = two_tenants();
    let granted = |state: &TestNetworkState| -> Vec<(bool, u32)> {
        let of_pair = |[sender, receiver]: &[u32; 2]| {
            let map = state.map(*sender, NOW);
            let forth = |pairing: &&Pairing| (pairing.sender, pairing.receiver) == (*sender, *receiver);
            let pairing = map.pairings.iter().find(forth).expect("they are paired");
            let grant = grants(pairing)[0];
            (grant.sharing, grant.coding_group.number())
        };
        pairs.iter().map(of_pair).collect()
    };
    let [lab, office] = ["lab", "office"].map(|name| state.network.tenant_number(name).expect("a tenant"));
    let alone = granted(&state);
    assert!(alone.iter().all(|(sharing, _)| !sharing));
    assert!(alone[0].1 == alone[1].1 && alone[2].1 == alone[3].1 && alone[0].1 != alone[2].1);
    assert!(state.network.share_coding(BTreeSet::from([lab])));
    assert!(!state.network.share_coding(BTreeSet::from([lab])), "as before");
    let one = granted(&state);
    assert_eq!(one.iter().map(|(sharing, _)| *sharing).collect::<Vec<_>>(), [true, true, false, false]);
    assert_ne!(one[0].1, one[2].1);
    assert!(state.network.share_coding(BTreeSet::from([lab, office])));
    let both = granted(&state);
    assert!(both.iter().all(|granted| *granted == (true, both[0].1)), "{both:?}");
    assert!(state.network.share_coding(BTreeSet::new()));
    assert_eq!(granted(&state), alone);
    assert_eq!(state.network.tenant_number("nobody"), None);
}
