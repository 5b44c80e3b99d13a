//! Codestreams that a client assembles of what it has.

use std::collections::BTreeSet;

use byway_view::{
    Cache, FileChanged, Index, MessageError, Outline, OutlineError, PacketNumber, PacketStore, Remainder,
    Request, Selection, ServerMessage,
};
use proptest::prelude::*;

use crate::image::{TestImage, TestPart, any_image, segment};
use crate::windows::request;

/// The outline of a file as a client receives it.
pub(crate) fn received_outline(index: &Index, file: &[u8]) -> Outline {
    let message =
        Outline::new(index, file).expect("the file is the same").encode().expect("headers are short");
    match ServerMessage::decode(&message) {
        Ok(Some((ServerMessage::Outline(outline), length))) if length == message.len() => *outline,
        other => panic!("no outline: {other:?}"),
    }
}

/// Requests a window until nothing of it is missing, and stores what arrives.
pub(crate) fn fetch(
    index: &Index,
    file: &[u8],
    request: &Request,
    cache: &mut Cache,
    store: &mut PacketStore,
) {
    loop {
        let (request, _) = Request::decode(&request.encode()).expect("it is valid").expect("it is complete");
        let selection = Selection::new(index, &request, cache);
        let message = selection.encode(|packet| index.packet(file, packet)).expect("the file is the same");
        let Ok(Some((ServerMessage::Answer(answer), _))) = ServerMessage::decode(&message) else {
            panic!("no answer");
        };
        assert_eq!(answer.number, request.number);
        for (packet, bytes) in answer.packets {
            store.insert(packet, bytes).expect("the store is large");
        }
        if answer.remainder == Remainder::Nothing {
            return;
        }
        assert!(!selection.packets().is_empty(), "the limit is too low");
    }
}

/// The codestream without lengths in which empty packets stand for all that are not in `present`,
/// and for layers above these.
fn expected(image: &TestImage, parts: &[TestPart], present: &BTreeSet<usize>) -> Vec<u8> {
    let empty: &[u8] = if image.has_header_ends { &[0, 0xFF, 0x92] } else { &[0] };
    let layers = usize::from(image.layers);
    let mut parts = parts.to_vec();
    for (number, packet) in parts.iter_mut().flat_map(|part| &mut part.packets).enumerate() {
        let lowest = number - number % layers;
        if !(lowest..=number).all(|layer| present.contains(&layer)) {
            *packet = empty.to_vec();
        }
    }
    image.codestream(&parts, false)
}

/// Three layers of one precinct, in a tile-part.
fn three_layers(has_header_ends: bool) -> (TestImage, TestPart) {
    let image = TestImage { has_header_ends, ..TestImage::new(8, 8, 0, 3) };
    (image, TestPart { tile: 0, number: 0, packets: vec![vec![0x81, 1], vec![0x82, 2], vec![0x83, 3]] })
}

/// The data of the only tile-part that is assembled of some of three layers.
fn assembled(has_header_ends: bool, present: &[u32]) -> Vec<u8> {
    let (image, part) = three_layers(has_header_ends);
    let file = image.codestream(&[part], true);
    let index = Index::new(&file).expect("the image is valid");
    let outline = Outline::new(&index, &file).expect("the file is the same");
    let packet =
        |packet: PacketNumber| index.packet(&file, packet).filter(|_| present.contains(&packet.get()));
    let codestream = outline.assemble(packet).expect("it is short");
    let data = codestream.windows(2).position(|marker| marker == [0xFF, 0x93]).expect("a tile-part") + 2;
    codestream[data..codestream.len() - 2].to_vec()
}

#[test]
fn an_empty_packet_stands_for_each_missing_one_and_those_above_it() {
    assert_eq!(assembled(false, &[0, 1, 2]), [0x81, 1, 0x82, 2, 0x83, 3]);
    assert_eq!(assembled(false, &[0, 1]), [0x81, 1, 0x82, 2, 0]);
    assert_eq!(assembled(false, &[0, 2]), [0x81, 1, 0, 0]);
    assert_eq!(assembled(false, &[1, 2]), [0, 0, 0]);
    assert_eq!(assembled(false, &[]), [0, 0, 0]);
    assert_eq!(assembled(true, &[0]), [0x81, 1, 0, 0xFF, 0x92, 0, 0xFF, 0x92]);
}

#[test]
fn a_file_that_became_shorter_is_an_error() {
    let (image, part) = three_layers(false);
    let file = image.codestream(&[part], true);
    let index = Index::new(&file).expect("the image is valid");
    let main_end = file.windows(2).position(|marker| marker == [0xFF, 0x90]).expect("a tile-part");
    assert_eq!(Outline::new(&index, &file[..main_end - 1]), Err(FileChanged));
    assert_eq!(Outline::new(&index, &file[..=main_end]), Err(FileChanged));
    let selection = Selection::new(&index, &request(0, 0, 8, 8), &mut Cache::new(index.layout()));
    let cut = &file[..file.len() - 3];
    assert_eq!(selection.encode(|packet| index.packet(cut, packet)), Err(FileChanged));
    assert_eq!(selection.encode(|_| Some(&[1][..])), Err(FileChanged), "packets of another length");
}

#[test]
fn an_image_whose_headers_are_too_long_has_no_message() {
    let (image, part) = three_layers(false);
    let file = image.codestream(&[part], true);
    let coding = file.windows(2).position(|marker| marker == [0xFF, 0x52]).expect("a coding");
    let comments: Vec<u8> = (0..17).flat_map(|_| segment(0x64, &vec![1; 65_000])).collect();
    let file = [&file[..coding], &comments, &file[coding..]].concat();
    let index = Index::new(&file).expect("comments are skipped");
    let outline = Outline::new(&index, &file).expect("the file is the same");
    assert!(outline.encode().is_err());
}

#[test]
fn a_client_refuses_outlines_that_do_not_fit_their_image() {
    let (image, part) = three_layers(false);
    let file = image.codestream(&[part], true);
    let index = Index::new(&file).expect("the image is valid");
    let message = Outline::new(&index, &file).expect("the file is the same").encode().expect("it is short");
    let error = |message: &[u8]| match ServerMessage::decode(message) {
        Err(MessageError::Outline(error)) => error,
        other => panic!("no error of an outline: {other:?}"),
    };
    // The last four bytes are the packets of the only tile-part.
    let mut other_count = message.clone();
    *other_count.last_mut().expect("a message") = 4;
    assert_eq!(error(&other_count), OutlineError::PacketCount);
    // The length of the message at its first bytes loses those of the tile-part.
    let mut no_count = message[..message.len() - 4].to_vec();
    no_count[3] -= 4;
    assert_eq!(error(&no_count), OutlineError::PacketCount);
    // SOC is the first marker behind two lengths, version and kind.
    let mut no_start = message.clone();
    no_start[10] = 0;
    assert!(matches!(error(&no_start), OutlineError::Header(_)));
    assert!(matches!(ServerMessage::decode(&message), Ok(Some(_))));
}

proptest! {
    #[test]
    fn all_packets_are_the_original_byte_by_byte(image in any_image(), seed in any::<u32>()) {
        let parts = image.parts(seed);
        let file = image.codestream(&parts, true);
        let index = Index::new(&file).expect("the image is valid");
        let outline = Outline::new(&index, &file).expect("the file is the same");
        prop_assert_eq!(outline.assemble(|packet| index.packet(&file, packet)), Ok(file.clone()));
        // A client has no lengths.
        let outline = received_outline(&index, &file);
        prop_assert_eq!(outline.layout(), index.layout());
        let assembled = outline.assemble(|packet| index.packet(&file, packet));
        prop_assert_eq!(assembled, Ok(image.codestream(&parts, false)));
    }

    #[test]
    fn any_packets_and_empty_ones_are_a_codestream(
        image in any_image(),
        seed in any::<u32>(),
        missing in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let parts = image.parts(seed);
        let file = image.codestream(&parts, true);
        let index = Index::new(&file).expect("the image is valid");
        let count = index.layout().packets() as usize;
        prop_assume!(count > 0);
        let missing: BTreeSet<_> = missing.into_iter().map(|number| number.index(count)).collect();
        let present: BTreeSet<_> = (0..count).filter(|number| !missing.contains(number)).collect();
        let packet = |packet: PacketNumber| {
            index.packet(&file, packet).filter(|_| present.contains(&(packet.get() as usize)))
        };
        let codestream = expected(&image, &parts, &present);
        let outline = Outline::new(&index, &file).expect("the file is the same");
        prop_assert_eq!(outline.assemble(packet), Ok(codestream.clone()));
        prop_assert_eq!(received_outline(&index, &file).assemble(packet), Ok(codestream));
    }

    #[test]
    fn a_client_that_fetches_windows_has_their_codestream(
        image in any_image(),
        windows in prop::collection::vec([0_u32..40, 0_u32..40, 1_u32..30, 1_u32..30], 1..4),
        bytes_max in 220_u32..3_000,
    ) {
        let parts = image.parts(5);
        let file = image.codestream(&parts, true);
        let index = Index::new(&file).expect("the image is valid");
        let (mut cache, mut store) = (Cache::new(index.layout()), PacketStore::new(usize::MAX));
        for [x, y, width, height] in windows {
            let request = Request { bytes_max, ..request(x, y, width, height) };
            fetch(&index, &file, &request, &mut cache, &mut store);
        }
        let count = index.layout().packets();
        let present: BTreeSet<_> = (0..count)
            .filter(|number| cache.contains(PacketNumber::new(*number)))
            .map(|number| number as usize)
            .collect();
        let assembled = received_outline(&index, &file).assemble(|packet| store.get(packet));
        prop_assert_eq!(assembled, Ok(expected(&image, &parts, &present)));
    }
}
