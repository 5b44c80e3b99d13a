//! Agents and relays in the world: each test tells a story and is named as the sentence it proves.

mod support;

mod additions;
mod adversaries;
mod autonomy;
mod beginnings;
mod closing;
mod fallback;
mod faults;
mod handshakes;
mod harm;
mod hops;
mod keys;
mod lengths;
mod ordering;
mod overhead;
mod recovery;
mod relays;
mod secrecy;
mod services;
mod swarm;
mod tenants;
