//! Tests of probes of sessions that are idle, watched or kept alive.

use super::*;
use crate::limits::{KEEPALIVE_INTERVAL, WATCH_INTERVAL};

#[test]
fn a_session_that_is_not_used_is_not_probed() {
    let mut pair = SessionPair::established();
    pair.run(secs(3));
    pair.sent.clear();
    pair.run(secs(60));
    assert_eq!(pair.sent, []);
}

#[test]
fn a_watched_session_is_probed_seldom_until_it_is_used_or_the_peer_is_silent() {
    let mut pair = SessionPair::new();
    pair.nodes[SMALL] = TestNode::new(SMALL, 3, 1_000, true, pair.now);
    pair.connect(SMALL);
    pair.run(secs(3));
    let watch = |pair: &mut SessionPair, time: Duration| {
        let until = pair.now + time;
        pair.sent.clear();
        while pair.now < until {
            let node = &mut pair.nodes[SMALL];
            node.sessions.watch_session(node.peer, pair.now);
            pair.send(SMALL);
            pair.run(ms(100));
        }
        pair.sent.len()
    };
    watch(&mut pair, secs(3));
    assert_eq!(watch(&mut pair, WATCH_INTERVAL * 10), 20, "ten probes and their answers");
    let node = &mut pair.nodes[SMALL];
    node.sessions.use_session(node.peer, pair.now);
    pair.send(SMALL);
    pair.sent.clear();
    pair.run(ms(900));
    assert!((8..=12).contains(&pair.sent.len()), "{} in 0.9 s of use", pair.sent.len());
    watch(&mut pair, secs(3));
    pair.loses(|_| true);
    watch(&mut pair, WATCH_INTERVAL + ms(600));
    assert!(pair.nodes[SMALL].sessions.get(pair.nodes[SMALL].peer).is_some_and(|session| session.is_dead));
}

#[test]
fn a_session_to_be_kept_is_kept_alive() {
    let mut pair = SessionPair::new();
    pair.nodes[SMALL] = TestNode::new(SMALL, 3, 1_000, true, pair.now);
    pair.connect(SMALL);
    pair.run(secs(3));
    pair.sent.clear();
    pair.run(KEEPALIVE_INTERVAL * 3);
    assert_eq!(pair.sent.len(), 6, "three probes and their answers");
}
