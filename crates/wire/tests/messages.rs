//! Messages survive a round trip, fit or are refused whole, and never cause a panic of the reader.

mod support;

use byway_units::{BatchId, FlowId};
use byway_wire::messages::{
    ADDRESSES_BYTES_MAX, Ack, Addresses, Aliases, AliasesReply, Candidates, Close, CloseReason, Confirm,
    CooperativeRefusal, CooperativeRequest, CopyNack, Cover, CrossStreamHead, CrossStreamRepair,
    DelayPercentiles, EarlyPacket, Entry, FlowLosses, FlowsLosses, GroupActivity, InStreamHead,
    InStreamRepair, InterRelayPacket, LatencyLimits, LossReport, Nack, NetworkTag, Offer, OfferRefusal,
    OfferReply, OfferedLatency, PathChallenge, PathResponse, Probe, ProbeReply, RELAYS_REPORTED_MAX, Refusal,
    Register, RegisterReply, RelativeDelay, RelayDelay, RelayDelayList, RelayRoundTrip, RelayedPacket,
    RepairCounters, Report, ReportedDelays, ServiceChange, ServiceChangeReply, Silence, SourceAck,
    SourceNack, Subject, TransitReply, TransitRequest, UnknownMessage, Unregister, UnregisterReply,
};
use byway_wire::{
    Ecn, Fragment, List, Message, MessageFullError, Messages, Microseconds, Plaintext, SequenceNumber,
    TrafficClass, UnprotectedMask, Writer,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use support::emitted;
use support::strategies::*;

/// Checks that the message survives a round trip, fits exactly, and is refused if a byte is
/// missing.
#[track_caller]
fn check<'a>(message: impl Into<Message<'a>>) {
    let message = message.into();
    let bytes = emitted(&[message]);
    assert_eq!(bytes[0], message.message_type());
    let read: Vec<_> = Messages::new(&bytes).collect();
    assert_eq!(read, [Ok(message)]);
    fits_exactly(&message, &bytes);
    any_length_is_survived(&message, &bytes);
}

#[test]
fn subjects_have_at_most_255_bytes() {
    assert_eq!(Subject::new(&[7; 255]).map(|subject| subject.bytes().len()), Some(255));
    assert_eq!(Subject::new(&[7; 256]), None);
}

#[track_caller]
fn fits_exactly(message: &Message<'_>, bytes: &[u8]) {
    let mut buffer = vec![0xAA; bytes.len()];
    let mut writer = Writer::new(&mut buffer);
    assert_eq!(message.emit(&mut writer), Ok(()));
    assert_eq!((writer.remaining(), writer.as_bytes()), (0, bytes));

    let mut buffer = vec![0xAA; bytes.len() + 5 - 1];
    let mut writer = Writer::new(&mut buffer);
    let first = UnknownMessage::new(255, &[7, 8]).expect("the type is unknown");
    first.emit(&mut writer).expect("it fits");
    let full = MessageFullError {
        message_type: message.message_type(),
        needed: bytes.len(),
        remaining: bytes.len() - 1,
    };
    assert_eq!(message.emit(&mut writer), Err(full));
    assert_eq!(writer.as_bytes(), [255, 0, 2, 7, 8]);
}

/// Checks that a body cut anywhere is read or rejected, and that the next message is read.
fn any_length_is_survived(message: &Message<'_>, bytes: &[u8]) {
    let behind = Message::from(Close { reason: CloseReason::Leaving });
    for length in 3..bytes.len() {
        let mut cut = bytes[..length].to_vec();
        let body_bytes = u16::try_from(length - 3).expect("tests have short messages");
        cut[1..3].copy_from_slice(&body_bytes.to_be_bytes());
        cut.extend(emitted(&[behind]));
        let read: Vec<_> = Messages::new(&cut).collect();
        assert_eq!(read.len(), 2);
        assert_ne!(read[0], Ok(*message), "{length} of {} bytes say as much", bytes.len());
        assert_eq!(read[1], Ok(behind));
    }
}

proptest! {
    #[test]
    fn register_survives(
        flow_key in flow_key(), role in flow_role(), service in service(), in_stream in shape(),
        batch in shape(), options in options(), rate in rate(), budget in micros(), consent in consent(),
        far_relay in granted_relay(), grant in payload(), revision in any::<Option<u8>>(),
    ) {
        check(Register {
            flow_key, role, service, in_stream, batch, options, rate, budget, consent, far_relay, grant: &grant, revision,
        });
    }

    #[test]
    fn registered_survives(
        flow_key in flow_key(), role in flow_role(), revision in any::<Option<u8>>(), far_relay in granted_relay(),
        outcome in prop_oneof![alias().prop_map(Ok), select(Refusal::ALL).prop_map(Err)], far in any::<u32>(),
        activity in any::<Option<(u8, u8)>>(),
    ) {
        let far_round_trip = revision.filter(|_| far > 0).map(|_| Microseconds::new(far));
        let group_activity = activity.filter(|_| revision.is_some());
        let group_activity = group_activity.map(|(coded, cached)| GroupActivity { coded, cached });
        check(RegisterReply { flow_key, role, revision, far_relay, outcome, far_round_trip, group_activity });
    }

    #[test]
    fn aliases_survive(flows in vec(announcement(), 0..20)) {
        let mut scratch = [[0; byway_wire::messages::AliasAnnouncement::BYTES]; 20];
        check(Aliases { flows: List::collect(&mut flows.iter().copied(), &mut scratch) });
    }

    #[test]
    fn aliases_known_survive(known in vec((alias_status(), any::<u32>()), 0..=255), has_networks in any::<bool>()) {
        let (mut scratch, mut scratch_of_networks) = ([[0; 3]; 255], [[0; NetworkTag::BYTES]; 255]);
        let aliases = List::collect(&mut known.iter().map(|(status, _)| *status), &mut scratch);
        let mut networks = known.iter().map(|(_, network)| NetworkTag::new(*network)).filter(|_| has_networks);
        let networks = List::collect(&mut networks, &mut scratch_of_networks);
        check(AliasesReply { aliases, networks });
    }

    #[test]
    fn unregister_survives(flow_key in flow_key(), role in flow_role(), far_relay in of(granted_relay())) {
        check(Unregister { flow_key, role, far_relay });
    }

    #[test]
    fn unregistered_survives(flow_key in flow_key(), role in flow_role(), far_relay in of(granted_relay())) {
        check(UnregisterReply { flow_key, role, far_relay });
    }

    #[test]
    fn offer_survives(
        flow in any::<u16>(), forth in terms(), back in terms(), subject in vec(any::<u8>(), 0..=255),
        of_both in (of((micros(), micros())), of((micros(), micros()))),
    ) {
        let subject = Subject::new(&subject).expect("it is short enough");
        let limits = |limits: Option<(Microseconds, Microseconds)>| {
            limits.map(|(acceptable, gain)| LatencyLimits { acceptable, gain })
        };
        let latency = OfferedLatency { forth: limits(of_both.0), back: limits(of_both.1) };
        check(Offer { flow: FlowId::new(flow), forth, back, subject, latency });
    }

    #[test]
    fn offered_survives(
        flow in any::<u16>(), outcome in prop_oneof![Just(Ok(())), select(OfferRefusal::ALL).prop_map(Err)],
    ) {
        check(OfferReply { flow: FlowId::new(flow), outcome });
    }

    #[test]
    fn early_packet_survives(
        flow in any::<u16>(), sequence in any::<u64>(), fragment in select(&[Fragment::Whole, Fragment::First, Fragment::Second][..]), waited in micros(),
        sent in timestamp(), marks in any::<u8>(), dscp in 0..64_u8, datagram in payload(),
    ) {
        let (traffic_class, unprotected) = (TrafficClass::new(dscp, Ecn::from_bits(marks)), UnprotectedMask::from_bits(marks >> 2));
        let (flow, sequence) = (FlowId::new(flow), SequenceNumber::new(sequence));
        let plaintext = Plaintext { sent, traffic_class, unprotected, datagram: &datagram };
        let packet = EarlyPacket { flow, sequence, fragment, waited, plaintext };
        // A truncated datagram is a shorter datagram.
        let bytes = emitted(&[packet.into()]);
        prop_assert_eq!(Messages::new(&bytes).collect::<Vec<_>>(), [Ok(packet.into())]);
        prop_assert_eq!(EarlyPacket::OVERHEAD + traffic_class.dscp_bytes() + datagram.len(), bytes.len());
        fits_exactly(&packet.into(), &bytes);
    }

    #[test]
    fn in_stream_repair_survives(
        alias in alias(), first_low in any::<u32>(), mask in mask(), repair_index in repair_index(),
        length_symbol in length_symbol(), payload in payload(),
    ) {
        let head = InStreamHead { alias, first_low, mask, repair_index, length_symbol };
        let repair = InStreamRepair { head, payload: &payload };
        // A truncated payload is a shorter payload.
        let bytes = emitted(&[repair.into()]);
        prop_assert_eq!(Messages::new(&bytes).collect::<Vec<_>>(), [Ok(repair.into())]);
        fits_exactly(&repair.into(), &bytes);
        in_front(&payload, &bytes, |front| head.emit_in_front(front, payload.len()));
        prop_assert_eq!(InStreamHead::BYTES + payload.len(), bytes.len());
    }

    #[test]
    fn cross_stream_repair_survives(
        batch in any::<u32>(), repair_index in repair_index(), length_symbol in length_symbol(), covered in covered(),
        with_digests in any::<bool>(), payload in payload(),
    ) {
        let (entries, digests): (Vec<Entry>, Vec<_>) = covered.into_iter().unzip();
        let mut scratch = [[0; 6]; 32];
        let listed = List::collect(&mut entries.iter().copied(), &mut scratch);
        let cover = Cover::new(listed, with_digests.then_some(digests.as_slice())).expect("1 to 32 packets");
        let head = CrossStreamHead { batch: BatchId::new(batch), repair_index, length_symbol, cover };
        let repair = CrossStreamRepair { head, payload: &payload };
        let bytes = emitted(&[repair.into()]);
        prop_assert_eq!(Messages::new(&bytes).collect::<Vec<_>>(), [Ok(repair.into())]);
        prop_assert!(cover.entries().iter().eq(entries.iter().copied()));
        fits_exactly(&repair.into(), &bytes);
        in_front(&payload, &bytes, |front| head.emit_in_front(front, payload.len()));
        prop_assert_eq!(CrossStreamHead::bytes(entries.len(), with_digests) + payload.len(), bytes.len());
    }

    #[test]
    fn nack_survives(
        alias in alias(), open_from_low in any::<Option<u32>>(), noticed_by_timer in any::<bool>(),
        (answers_confirm, queue_grows) in any::<(bool, bool)>(), repair_lifetime in micros(),
        ranges in ranges(),
    ) {
        let ranges = ranges.ranges();
        check(Nack {
            alias,
            open_from_low,
            noticed_by_timer,
            answers_confirm,
            queue_grows,
            repair_lifetime,
            ranges,
        });
    }

    #[test]
    fn loss_report_survives(flows in vec(flow_losses(), 0..64)) {
        let mut scratch = [[0; FlowLosses::BYTES]; 64];
        let flows = FlowsLosses::collect(&mut flows.into_iter(), &mut scratch);
        check(LossReport { flows });
    }

    #[test]
    fn transit_request_survives(target in of(transit_target())) {
        check(TransitRequest { target });
    }

    #[test]
    fn transit_reply_survives(
        target in of(transit_target()), label in of(transit_label()), rate in rate(),
        delays in vec(relay_delay(), 0..64),
    ) {
        let mut scratch = [[0; RelayDelay::BYTES]; 64];
        let delays = RelayDelayList::collect(&mut delays.into_iter(), &mut scratch);
        check(TransitReply { target, label, rate, delays });
    }

    #[test]
    fn copy_nack_survives(alias in alias(), ranges in ranges()) {
        check(CopyNack { alias, ranges: ranges.ranges() });
    }

    #[test]
    fn ack_survives(alias in alias(), from_low in any::<u32>()) {
        check(Ack { alias, from_low });
    }

    #[test]
    fn cooperative_request_survives(alias in alias(), repair_lifetime in micros(), ranges in ranges()) {
        check(CooperativeRequest { alias, repair_lifetime, ranges: ranges.ranges() });
    }

    #[test]
    fn lost_survives(alias in alias(), ranges in ranges()) {
        check(CooperativeRefusal { alias, ranges: ranges.ranges() });
    }

    #[test]
    fn confirm_survives(alias in alias(), ranges in ranges()) {
        check(Confirm { alias, ranges: ranges.ranges() });
    }

    #[test]
    fn report_survives(
        flow_key in flow_key(), numbers in any::<[u32; 12]>(), delays in (micros(), micros(), micros(), micros()),
        measured in vec((granted_relay(), micros()), 0..=RELAYS_REPORTED_MAX),
        by_path in any::<[Option<(u32, u32)>; 2]>(),
    ) {
        let [direct_path, relayed] =
            by_path.map(|delay| delay.map(|(least, p95)| RelativeDelay { least, p95 }));
        let [highest_low, direct, lost, in_stream, cooperative, cached, forwarded, late, bursts, longest_burst, resent, covered] =
            numbers;
        let (p50, p95, p99, detection) = delays;
        let mut relays = [None; RELAYS_REPORTED_MAX];
        for (entry, (relay, round_trip)) in relays.iter_mut().zip(measured) {
            *entry = Some(RelayRoundTrip { relay, round_trip });
        }
        check(Report {
            flow_key, highest_low, direct, lost, late, bursts, longest_burst,
            repaired: RepairCounters { in_stream, cooperative, cached, forwarded, resent },
            delay: DelayPercentiles { p50, p95, p99 },
            detection, relays, covered,
            paths: ReportedDelays { direct: direct_path, relayed },
        });
    }

    #[test]
    fn silence_survives(flow_key in flow_key(), from_low in any::<u32>(), elapsed in micros(), direct in any::<u32>()) {
        check(Silence { flow_key, from_low, elapsed, direct });
    }

    #[test]
    fn source_nack_survives(flow_key in flow_key(), ranges in ranges()) {
        check(SourceNack { flow_key, ranges: ranges.ranges() });
    }

    #[test]
    fn source_ack_survives(flow_key in flow_key(), from_low in any::<u32>()) {
        check(SourceAck { flow_key, from_low });
    }

    #[test]
    fn service_change_survives(flow_key in flow_key(), number in any::<u8>(), service in service()) {
        check(ServiceChange { flow_key, number, service });
    }

    #[test]
    fn service_change_reply_survives(flow_key in flow_key(), number in any::<u8>()) {
        check(ServiceChangeReply { flow_key, number });
    }

    #[test]
    fn probe_survives(number in any::<u32>(), sent in timestamp(), round_trip in micros()) {
        check(Probe { number, sent, round_trip });
    }

    #[test]
    fn probe_reply_survives(
        number in any::<u32>(), sent in timestamp(), received in timestamp(), envelopes in any::<u32>(),
        address in address(), transit_packets in 0..3_u32,
    ) {
        let long_packets = envelopes >> 1;
        check(ProbeReply { number, sent, received, envelopes, address, long_packets, transit_packets });
    }

    #[test]
    fn path_challenge_and_response_survive(token in any::<[u8; 8]>()) {
        check(PathChallenge { token });
        check(PathResponse { token });
    }

    #[test]
    fn relayed_on_survives(
        from in agent(), to in agent(), kind in select([4_u8, 5, 6, 8].as_slice()), rest in payload(),
    ) {
        let packet = [&[kind][..], &rest].concat();
        let relayed = InterRelayPacket::new(from, to, &packet).expect("the kind is one that relays pass on");
        let bytes = emitted(&[relayed.into()]);
        prop_assert_eq!(Messages::new(&bytes).collect::<Vec<_>>(), [Ok(relayed.into())]);
        fits_exactly(&relayed.into(), &bytes);
    }

    #[test]
    fn relayed_survives(agent in agent(), kind in select([4_u8, 5, 6, 8].as_slice()), rest in payload()) {
        let packet = [&[kind][..], &rest].concat();
        let relayed = RelayedPacket::new(agent, &packet).expect("the kind is one that relays pass on");
        let bytes = emitted(&[relayed.into()]);
        prop_assert_eq!(Messages::new(&bytes).collect::<Vec<_>>(), [Ok(relayed.into())]);
        fits_exactly(&relayed.into(), &bytes);
    }

    #[test]
    fn candidates_survive(addresses in addresses()) {
        let mut scratch = [0; ADDRESSES_BYTES_MAX];
        let listed = Addresses::collect(addresses.iter().copied(), &mut scratch);
        prop_assert!(listed.iter().eq(addresses.iter().copied()) && listed.len() == addresses.len());
        check(Candidates { addresses: listed });
    }

    #[test]
    fn close_survives(reason in select(CloseReason::ALL)) {
        check(Close { reason });
    }

    #[test]
    fn unknown_messages_survive(message_type in any::<u8>(), body in payload()) {
        if let Some(unknown) = UnknownMessage::new(message_type, &body) {
            let bytes = emitted(&[unknown.into()]);
            prop_assert_eq!(Messages::new(&bytes).collect::<Vec<_>>(), [Ok(unknown.into())]);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..300)) {
        let count = Messages::new(&bytes).count();
        prop_assert!(count <= bytes.len() / 3 + 1);
    }

    #[test]
    fn any_bodies_are_survived(message_type in 0..64_u8, body in vec(prop_oneof![any::<u8>(), 0..4_u8], 0..300)) {
        if let Ok(message) = Message::parse(message_type, &body) {
            let bytes = emitted(&[message]);
            prop_assert_eq!(Messages::new(&bytes).collect::<Vec<_>>(), [Ok(message)]);
        }
    }
}

/// Writes a head before an existing payload. The result must equal the message written at once.
#[track_caller]
fn in_front(
    payload: &[u8],
    expected: &[u8],
    emit: impl FnOnce(&mut [u8]) -> Result<usize, MessageFullError>,
) {
    let mut buffer = [&[0xAA; 400][..], payload].concat();
    let start = emit(&mut buffer[..400]).expect("the head fits");
    assert_eq!(&buffer[start..], expected);
    assert!(buffer[..start].iter().all(|byte| *byte == 0xAA));
}

#[test]
fn messages_in_a_row_are_read_in_order_past_one_that_does_not_parse() {
    let (sent, round_trip) = (byway_wire::Timestamp::new(2), Microseconds::new(3));
    let probe = Message::from(Probe { number: 1, sent, round_trip });
    let close = Message::from(Close { reason: CloseReason::Restarting });
    let mut bytes = emitted(&[probe, close, close]);
    let reason_of_the_first_close = 15 + 3;
    bytes[reason_of_the_first_close] = 9;
    let read: Vec<_> = Messages::new(&bytes).collect();
    assert_eq!((read.len(), &read[0], &read[2]), (3, &Ok(probe), &Ok(close)));
    assert!(read[1].is_err());
}

#[test]
fn a_message_that_is_cut_off_is_one_error_and_the_last() {
    let close = Message::from(Close { reason: CloseReason::Leaving });
    let bytes = emitted(&[close, close]);
    for length in 5..8 {
        let mut messages = Messages::new(&bytes[..length]);
        assert_eq!(messages.next(), Some(Ok(close)));
        assert!(messages.next().is_some_and(|message| message.is_err()), "{length} bytes");
        assert_eq!(messages.next(), None);
        assert_eq!(messages.next(), None);
    }
}

#[test]
fn a_cover_has_packets_and_a_digest_of_each_or_none() {
    let entry = Entry { alias: byway_wire::Alias::new(1).expect("not 0"), sequence_low: 2 };
    let mut scratch = [[0; 6]; 40];
    let digests = [[0; 4]; 40];
    for count in 0..=33 {
        let entries = List::collect(&mut std::iter::repeat_n(entry, count), &mut scratch);
        let is_legal = (1..=32).contains(&count);
        assert_eq!(Cover::new(entries, None).is_some(), is_legal);
        assert_eq!(Cover::new(entries, Some(&digests[..count])).is_some(), is_legal);
        assert_eq!(Cover::new(entries, Some(&digests[..=count])), None);
    }
}

#[test]
fn relays_pass_on_handshakes_and_messages_only() {
    let (one, other) = (byway_units::AgentId::new(1), byway_units::AgentId::new(2));
    let passed_on = |packet: &[u8]| RelayedPacket::new(one, packet).is_some();
    let passed_further = |packet: &[u8]| InterRelayPacket::new(one, other, packet).is_some();
    let kinds: Vec<_> = (0..=u8::MAX).filter(|kind| passed_on(&[*kind])).collect();
    assert_eq!(kinds, [4, 5, 6, 8]);
    assert!((0..=u8::MAX).all(|kind| passed_further(&[kind]) == passed_on(&[kind])));
    assert!(!passed_on(&[]) && !passed_further(&[]));
}

#[test]
fn a_grant_longer_than_any_packet_does_not_fit() {
    let grant = vec![0; 70_000];
    let bytes = bytes_of_a_register();
    let mut register = match Message::parse(Register::TYPE, &bytes) {
        Ok(Message::Register(register)) => register,
        other => panic!("no register: {other:?}"),
    };
    register.grant = &grant;
    let mut buffer = vec![0; 100_000];
    let mut writer = Writer::new(&mut buffer);
    assert!(register.emit(&mut writer).is_err() && writer.as_bytes().is_empty());
}

fn bytes_of_a_register() -> Vec<u8> {
    let mut bytes = vec![0; 36];
    (bytes[10], bytes[11]) = (1, 0);
    bytes
}
