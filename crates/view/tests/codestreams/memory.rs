//! Memory that hostile input may cost.

use allocation_counter::measure;
use byway_view::{Cache, Index, Request, Selection, ServerMessage};

use crate::image::{TestImage, TestPart};
use crate::windows::request;

/// Most bytes that are allocated at once for any main header: of a layout, and while it is built.
const HEADER_BYTES_MAX: u64 = 24_000_000;

/// Most bytes at once that reading the headers of `image` costs, if it has no packets.
fn cost(image: &TestImage) -> u64 {
    let part = TestPart { tile: 0, number: 0, packets: Vec::new() };
    let file = image.codestream(&[part], true);
    let info = measure(|| assert!(Index::new(&file).is_err(), "the image has no packets"));
    assert_eq!(info.bytes_current, 0);
    info.bytes_max
}

#[test]
fn no_main_header_costs_more_memory_than_the_largest_image() {
    // As many precincts as an index holds, of one pixel each, and one more.
    let precincts = TestImage { precincts: vec![[0, 0]], ..TestImage::new(1 << 19, 1, 0, 8) };
    let bytes = cost(&precincts);
    assert!((8_000_000..HEADER_BYTES_MAX).contains(&bytes), "{bytes}");
    let more = TestImage { end: [(1 << 19) + 1, 1], tile: [(1 << 19) + 1, 1], ..precincts };
    assert!(cost(&more) < 10_000);
    // 1,024 tiles of 32 resolutions and 4 components.
    let tiles = TestImage {
        tile: [1, 1],
        components: vec![[1, 1]; 4],
        precincts: Vec::new(),
        ..TestImage::new(1_024, 1, 31, 1)
    };
    let bytes = cost(&tiles);
    assert!((2_000_000..HEADER_BYTES_MAX).contains(&bytes), "{bytes}");
}

#[test]
fn an_index_costs_few_bytes_for_each_of_its_file() {
    let image = TestImage { precincts: vec![[0, 0]], ..TestImage::new(1 << 16, 1, 0, 16) };
    let part = TestPart { tile: 0, number: 0, packets: vec![vec![1]; 1 << 20] };
    let file = image.codestream(&[part], true);
    let info = measure(|| assert!(Index::new(&file).is_ok()));
    // 65,536 precincts cost at most 40 bytes.
    assert!(info.bytes_max < 8 * file.len() as u64 + 40 * 65_536, "{} of {}", info.bytes_max, file.len());
}

#[test]
fn a_request_costs_its_precincts_and_its_answer() {
    let image = TestImage { precincts: vec![[0, 0]], ..TestImage::new(300, 300, 0, 1) };
    let part = TestPart { tile: 0, number: 0, packets: vec![vec![1]; 90_000] };
    let index = Index::new(&image.codestream(&[part], true)).expect("the image is valid");
    let mut cache = Cache::new(index.layout());
    let request = Request { bytes_max: 10_000, ..request(0, 0, u32::MAX, u32::MAX) };
    let info = measure(|| {
        assert!(Selection::new(&index, &request, &mut cache).bytes() <= 10_000);
    });
    // A vector that grows to 65,536 numbers has half of them beside it for a moment.
    assert!(info.bytes_max < 6 * 65_536 + 3 * 10_000 + 1_000, "{}", info.bytes_max);
}

#[test]
fn reading_an_answer_costs_no_memory() {
    // An answer to request 0 with a million packets of one byte.
    let mut message = 3_000_007_u32.to_be_bytes().to_vec();
    message.extend([1, 2, 0, 0, 0, 0, 0]);
    message.extend([0_u8, 1, 7].repeat(1_000_000));
    let info = measure(|| {
        let Ok(Some((ServerMessage::Answer(answer), _))) = ServerMessage::decode(&message) else {
            panic!("no answer");
        };
        assert_eq!(answer.packets.count(), 1_000_000);
    });
    assert_eq!(info.count_total, 0);
}
