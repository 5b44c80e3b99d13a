//! Tests of agents and relays in the world; each test is named after the sentence that it proves.

mod support;

mod adversaries;
mod autonomy;
mod cohorts;
mod fallback;
mod faults;
mod flow_setup;
mod forwarding;
mod handshakes;
mod harm;
mod hops;
mod injection;
mod keys;
mod on_request;
mod ordering;
mod overhead;
mod path_mtu;
mod recovery;
mod redundancy;
mod relays;
mod routes;
mod secrecy;
mod selection;
mod service_changes;
mod services;
mod swarm;
mod teardown;
mod tenants;
mod transit;
