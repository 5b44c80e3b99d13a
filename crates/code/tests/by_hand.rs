//! The batch that `algorithm.md` works out by hand.

use byway_code::field::multiply;
use byway_code::{Engine, coefficient, decode, encode};
use byway_units::BatchId;

#[test]
fn the_page_has_its_numbers_right() {
    let row: Vec<_> = (0..3).map(|column| coefficient(1, column)).collect();
    assert_eq!(row, [0x7F, 0xFC, 0x7E]);

    let products = [multiply(0x7F, 0x41), multiply(0xFC, 0x42), multiply(0x7E, 0x43)];
    assert_eq!(products, [0xC9, 0x14, 0x74]);
    assert_eq!((0x40 ^ 0x42, 0xA9 ^ products[1]), (0x02, 0xBD));
    assert_eq!((multiply(0x7E, 0x02), 0xFC ^ 0xBD), (0xFC, 0x41));
    assert_eq!((multiply(0x80, 2), multiply(0x07, 3)), (0x1D, 0x09));

    let sources: [&[u8]; 3] = [b"A", b"B", b"C"];
    let mut payloads = [[0]; 2];
    let encoded = encode(Engine::fastest(), &sources, &mut payloads).expect("the batch is valid");
    assert_eq!(payloads, [[0x40], [0xA9]]);

    let repairs: Vec<_> = encoded.repairs(BatchId::new(0), &payloads).collect();
    let mut buffers = [[0]; 2];
    let recovered = decode(Engine::fastest(), &[None, Some(b"B"), None], &repairs, &mut buffers);
    assert_eq!(recovered.map(|recovered| recovered.count()), Ok(2));
    assert_eq!(buffers, [[0x41], [0x43]]);
}
