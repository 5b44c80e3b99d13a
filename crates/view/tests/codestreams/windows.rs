//! Packets that answer a request for a window.

use std::collections::BTreeSet;

use byway_view::{Cache, Index, PacketNumber, PacketPosition, Remainder, Request, Selection, Window};
use proptest::prelude::*;

use crate::image::{TestImage, TestPart, any_image};

/// A request of the highest resolution, without a limit.
pub(crate) fn request(x: u32, y: u32, width: u32, height: u32) -> Request {
    let window = Window { x, y, width, height };
    Request { number: 1, window, resolution: u8::MAX, bytes_max: u32::MAX, is_fresh: false }
}

/// The index of 1,024 x 1,024 pixels in two layers and three resolutions. These have 2 x 2, 4 x 4
/// and 8 x 8 precincts, which begin at the numbers 0, 4 and 20.
fn square() -> Index {
    let image = TestImage::new(1_024, 1_024, 2, 2);
    let packets = vec![vec![1; 10]; 2 * (4 + 16 + 64)];
    let part = TestPart { tile: 0, number: 0, packets };
    Index::new(&image.codestream(&[part], true)).expect("the image is valid")
}

fn numbers(selection: &Selection) -> Vec<u32> {
    selection.packets().iter().map(|packet| packet.get()).collect()
}

/// The packets of one request to a client that has none.
fn selected(index: &Index, request: &Request) -> Vec<u32> {
    let selection = Selection::new(index, request, &mut Cache::new(index.layout()));
    assert_eq!(selection.remainder(), Remainder::Nothing);
    numbers(&selection)
}

#[test]
fn a_window_has_the_precincts_that_its_decoding_reads_coarse_ones_first() {
    // Pixels 512 to 639 are read from the samples 254 to 321 of the bands below the image, which
    // are precincts of 64 samples: 3 to 5. These are read from the samples 125 to 162 of the bands
    // below: precincts 1 and 2. The lowest band has precincts of 128: 0 and 1.
    let lowest = [0, 1, 2, 3];
    let middle = [5, 6, 9, 10].map(|precinct| 4 + precinct);
    let highest = [27, 28, 29, 35, 36, 37, 43, 44, 45].map(|precinct| 20 + precinct);
    let mut expected = Vec::new();
    for precincts in [&lowest[..], &middle, &highest] {
        for layer in 0..2 {
            expected.extend(precincts.iter().map(|precinct| 2 * precinct + layer));
        }
    }
    assert_eq!(selected(&square(), &request(512, 512, 128, 128)), expected);
}

#[test]
fn a_lower_resolution_has_fewer_packets() {
    let index = square();
    let at = |resolution| selected(&index, &Request { resolution, ..request(512, 512, 128, 128) });
    // Pixels 512 to 639 are the samples 128 to 159 of the lowest resolution: the last precinct.
    assert_eq!(at(0), [6, 7]);
    // They are the samples 256 to 319 of the middle one, read from samples 126 to 161 below.
    assert_eq!(at(1)[..8], [0, 2, 4, 6, 1, 3, 5, 7]);
    assert_eq!(at(1)[8..], [18, 20, 26, 28, 19, 21, 27, 29]);
    assert_eq!(at(2), at(u8::MAX));
}

#[test]
fn a_window_outside_of_the_image_has_no_packets() {
    let index = square();
    for (x, y, width, height) in [(1_024, 0, 9, 9), (0, u32::MAX, 9, u32::MAX), (5, 5, 0, 9), (5, 5, 9, 0)] {
        assert_eq!(selected(&index, &request(x, y, width, height)), [0; 0]);
    }
    assert_eq!(selected(&index, &request(0, 0, u32::MAX, u32::MAX)).len(), 168);
}

#[test]
fn an_answer_ends_before_the_packet_that_exceeds_its_limit() {
    // An answer has 11 bytes, and its first packet a step, a length and 10 bytes.
    let (index, mut cache) = (square(), Cache::new(square().layout()));
    let mut ask = |bytes_max| {
        let selection =
            Selection::new(&index, &Request { bytes_max, ..request(0, 0, 1_024, 1_024) }, &mut cache);
        (numbers(&selection), selection.bytes(), selection.remainder())
    };
    assert_eq!(ask(22), (vec![], 11, Remainder::Pending));
    assert_eq!(ask(23), (vec![0], 23, Remainder::Pending));
    // The next packet that is missing is the number 2.
    assert_eq!(ask(46), (vec![2, 4], 35, Remainder::Pending));
    assert_eq!(ask(47), (vec![6, 1, 3], 47, Remainder::Pending));
    assert_eq!(ask(0), (vec![], 11, Remainder::Pending));
}

#[test]
fn a_client_receives_no_packet_twice_unless_it_has_lost_all() {
    let (index, mut cache) = (square(), Cache::new(square().layout()));
    let first = Selection::new(&index, &request(0, 0, 200, 200), &mut cache);
    assert_eq!(u32::try_from(first.packets().len()), Ok(cache.count()));
    assert_eq!(numbers(&Selection::new(&index, &request(0, 0, 200, 200), &mut cache)), [0; 0]);
    let moved = Selection::new(&index, &request(100, 0, 400, 200), &mut cache);
    assert!(
        !moved.packets().is_empty() && moved.packets().iter().all(|packet| !first.packets().contains(packet))
    );
    let fresh = Request { is_fresh: true, ..request(0, 0, 200, 200) };
    assert_eq!(Selection::new(&index, &fresh, &mut cache).packets(), first.packets());
}

#[test]
fn a_window_of_too_many_precincts_has_the_coarse_ones() {
    // 300 x 300 precincts of one pixel are more than 65,536; those of the first 218 rows are not.
    let image = TestImage { precincts: vec![[0, 0]], ..TestImage::new(300, 300, 0, 1) };
    let part = TestPart { tile: 0, number: 0, packets: vec![vec![1]; 90_000] };
    let index = Index::new(&image.codestream(&[part], true)).expect("the image is valid");
    let mut cache = Cache::new(index.layout());
    let selection = Selection::new(&index, &request(0, 0, 300, 300), &mut cache);
    assert_eq!((selection.packets().len(), selection.remainder()), (65_536, Remainder::Refused));
    let selection = Selection::new(&index, &request(0, 0, 300, 200), &mut cache);
    assert_eq!((selection.packets().len(), selection.remainder()), (0, Remainder::Nothing));
}

/// Checks the order of an answer's packets.
fn check_order(positions: &[(PacketPosition, u32)]) {
    let key = |(position, number): &(PacketPosition, u32)| (position.resolution, position.layer, *number);
    assert!(positions.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])), "{positions:?}");
}

/// True if a precinct overlaps the window, or would if it had so many samples more on each side.
fn overlaps(image: &TestImage, position: PacketPosition, window: Window, samples: u32) -> bool {
    let windows = [(window.x, window.width), (window.y, window.height)];
    image.area(position).into_iter().zip(windows).zip(image.begin).all(|((area, window), begin)| {
        let ((from, to, sample), (first, count)) = (area, window);
        let first = begin + first;
        from < to && from < first + count + samples * sample && first < to + samples * sample
    })
}

proptest! {
    #[test]
    fn answers_have_each_packet_of_a_window_once_in_order_and_within_their_limit(
        image in any_image(),
        window in [0_u32..40, 0_u32..40, 1_u32..30, 1_u32..30],
        resolution in 0_u8..5,
        bytes_max in 220_u32..3_000,
    ) {
        let file = image.codestream(&image.parts(1), true);
        let index = Index::new(&file).expect("the image is valid");
        let [x, y, width, height] = window;
        let request = Request { resolution, bytes_max, ..request(x, y, width, height) };
        let (mut cache, mut received) = (Cache::new(index.layout()), BTreeSet::new());
        loop {
            let selection = Selection::new(&index, &request, &mut cache);
            let answer = selection.encode(|packet| index.packet(&file, packet));
            let answer = answer.expect("the file is the same");
            prop_assert!(answer.len() == selection.bytes() as usize && selection.bytes() <= bytes_max);
            let position = |packet: PacketNumber| index.layout().position(packet).expect("it is there");
            let positions: Vec<_> =
                selection.packets().iter().map(|packet| (position(*packet), packet.get())).collect();
            check_order(&positions);
            for packet in selection.packets() {
                prop_assert!(received.insert(*packet), "{packet:?} is there twice");
            }
            if selection.remainder() == Remainder::Nothing {
                break;
            }
            // A packet has at most 204 bytes in an answer.
            prop_assert!(!selection.packets().is_empty());
        }
        prop_assert_eq!(received.len(), cache.count() as usize);
        for (number, position) in image.positions().into_iter().enumerate() {
            let is_received = received.contains(&PacketNumber::new(number as u32));
            let is_coarse = position.resolution <= resolution;
            if is_coarse && overlaps(&image, position, request.window, 0) {
                prop_assert!(is_received, "{position:?} is missing");
            }
            // The filters reach less than 6 samples of a band, which are 12 of a resolution, and
            // coordinates are rounded.
            if is_received {
                let is_near = overlaps(&image, position, request.window, 16);
                prop_assert!(is_coarse && is_near, "{position:?} is needless");
            }
        }
    }
}
