use alloc::vec;

use proptest::prelude::*;

use super::*;

const REQUESTED: Request = Request {
    number: 7,
    window: Window { x: 1, y: 2, width: 300, height: 4 },
    resolution: 5,
    bytes_max: 65_536,
    is_fresh: true,
};

/// Bytes of [`REQUESTED`], field by field.
const ENCODED: [u8; REQUEST_BYTES] = [
    0, 0, 0, 28, 1, 1, // length, version, kind
    0, 0, 0, 7, // number
    0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1, 44, 0, 0, 0, 4, // window
    5, 1, // resolution, flags
    0, 1, 0, 0, // bytes
];

/// Message of this kind and content.
fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    begin(kind, &mut message);
    message.extend_from_slice(content);
    finish(&mut message);
    message
}

fn answer_error(bytes: &[u8]) -> MessageError {
    ServerMessage::decode(bytes).expect_err("the message is faulty")
}

#[test]
fn a_request_has_its_fields_in_order() {
    assert_eq!(REQUESTED.encode(), ENCODED);
    assert_eq!(Request::decode(&ENCODED), Ok(Some((REQUESTED, REQUEST_BYTES))));
}

#[test]
fn a_request_is_read_when_all_its_bytes_are_there() {
    for length in 0..REQUEST_BYTES {
        assert_eq!(Request::decode(&ENCODED[..length]), Ok(None), "{length}");
    }
    let mut two = ENCODED.to_vec();
    two.extend(ENCODED);
    assert_eq!(Request::decode(&two), Ok(Some((REQUESTED, REQUEST_BYTES))));
}

#[test]
fn faulty_requests_are_refused() {
    let with = |index: usize, byte: u8| {
        let mut bytes = ENCODED;
        bytes[index] = byte;
        Request::decode(&bytes)
    };
    assert_eq!(with(4, 2), Err(MessageError::Version(2)));
    assert_eq!(with(5, 2), Err(MessageError::Kind(2)));
    assert_eq!(with(3, 29), Err(MessageError::Length(29)));
    assert_eq!(with(3, 1), Err(MessageError::Length(1)));
    assert_eq!(with(0, 255), Err(MessageError::Length(0xFF00_001C)));
    // One byte too few, and a flag that this version does not know.
    assert_eq!(with(3, 27), Err(MessageError::Content(1)));
    assert_eq!(with(27, 3), Err(MessageError::Content(1)));
}

#[test]
fn a_length_that_no_request_has_is_refused_before_its_bytes_arrive() {
    assert_eq!(Request::decode(&[0, 0x40, 0, 0]), Err(MessageError::Length(0x0040_0000)));
    assert_eq!(answer_error(&[0, 0x40, 0, 0]), MessageError::Length(0x0040_0000));
}

#[test]
fn an_answer_has_its_packets_in_order() {
    // Packet 3 (step 3, coded 6) with two bytes, and packet 4 (step 0) with one.
    let bytes = message(ANSWER, &[0, 0, 0, 7, 1, 6, 2, 0xA, 0xB, 0, 1, 0xC]);
    let Ok(Some((ServerMessage::Answer(answer), length))) = ServerMessage::decode(&bytes) else {
        panic!("no answer");
    };
    assert_eq!((answer.number, answer.remainder, length), (7, Remainder::Pending, bytes.len()));
    let packets: Vec<_> = answer.packets.collect();
    let expected: [(PacketNumber, &[u8]); 2] =
        [(PacketNumber::new(3), &[0xA, 0xB]), (PacketNumber::new(4), &[0xC])];
    assert_eq!(packets, expected);
}

#[test]
fn faulty_answers_are_refused() {
    let content = MessageError::Content(ANSWER);
    for bytes in [
        vec![0, 0, 0],
        vec![0, 0, 0, 7, 3],
        // A packet without bytes, one that is cut, and one before the first.
        vec![0, 0, 0, 7, 0, 6, 0],
        vec![0, 0, 0, 7, 0, 6, 2, 0xA],
        vec![0, 0, 0, 7, 0, 1, 1, 0xA],
    ] {
        assert_eq!(answer_error(&message(ANSWER, &bytes)), content, "{bytes:?}");
    }
    assert_eq!(answer_error(&message(REQUEST, &[0; 26])), MessageError::Kind(REQUEST));
}

#[test]
fn faulty_outlines_are_refused() {
    let content = MessageError::Content(OUTLINE);
    assert_eq!(answer_error(&message(OUTLINE, &[0, 0, 0])), content);
    assert_eq!(answer_error(&message(OUTLINE, &[0, 0, 0, 9, 1])), content);
    assert_eq!(answer_error(&message(OUTLINE, &[0xFF, 0xFF, 0xFF, 0xFF, 1])), content);
    // Four bytes are the packets of a tile-part, three are not.
    assert_eq!(answer_error(&message(OUTLINE, &[0, 0, 0, 1, 1, 0, 0, 0])), content);
    let error = answer_error(&message(OUTLINE, &[0, 0, 0, 1, 1, 0, 0, 0, 0]));
    assert!(matches!(error, MessageError::Outline(OutlineError::Header(_))), "{error}");
}

proptest! {
    #[test]
    fn any_request_is_what_it_was(
        numbers in prop::array::uniform6(any::<u32>()),
        resolution in any::<u8>(),
        is_fresh in any::<bool>(),
    ) {
        let [number, x, y, width, height, bytes_max] = numbers;
        let window = Window { x, y, width, height };
        let request = Request { number, window, resolution, bytes_max, is_fresh };
        prop_assert_eq!(Request::decode(&request.encode()), Ok(Some((request, REQUEST_BYTES))));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..64),
        is_framed in any::<bool>(),
    ) {
        if is_framed && bytes.len() >= 6 {
            bytes[4] = MESSAGE_VERSION;
            finish(&mut bytes);
        }
        let _ = Request::decode(&bytes);
        if let Ok(Some((ServerMessage::Answer(answer), length))) = ServerMessage::decode(&bytes) {
            let packets: usize = answer.packets.map(|(_, packet)| packet.len() + 2).sum();
            prop_assert!(packets <= length && length <= bytes.len());
        }
    }
}
