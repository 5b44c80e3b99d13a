//! The batch that `algorithm.md` works out by hand.

use byway_code::{Engine, coefficient, decode, encode};
use byway_units::BatchId;

#[test]
fn the_page_has_its_numbers_right() {
    let row: Vec<_> = (0..3).map(|column| coefficient(1, column)).collect();
    assert_eq!(row, [0x7F, 0xFC, 0x7E]);

    let sources: [&[u8]; 3] = [b"A", b"B", b"C"];
    let mut payloads = [[0]; 2];
    let mut views = payloads.each_mut().map(|payload| &mut payload[..]);
    let encoded = encode(Engine::fastest(), &sources, &mut views).expect("the batch is valid");
    assert_eq!(payloads, [[0x40], [0xA9]]);

    let repairs: Vec<_> = encoded.repairs(BatchId::new(0), &payloads).collect();
    let mut buffers = [[0]; 2];
    let mut views = buffers.each_mut().map(|buffer| &mut buffer[..]);
    let recovered = decode(Engine::fastest(), &[None, Some(b"B"), None], &repairs, &mut views);
    assert_eq!(recovered.map(|recovered| recovered.count()), Ok(2));
    assert_eq!(buffers, [[0x41], [0x43]]);
}
