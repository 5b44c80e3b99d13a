//! Images that are cut, damaged or hostile.

use byway_view::{Fault, Field, Index, Limit, Marker, PacketNumber};
use proptest::prelude::*;

use crate::geometry::TINY;
use crate::image::{TestImage, TestPart, any_image};

/// Marker, byte of the file and fault of an error.
type Expected = (Marker, u64, Fault);

fn error(file: &[u8]) -> Expected {
    let error = Index::new(file).expect_err("the image is faulty");
    (error.marker, error.offset, error.fault)
}

/// The error of [`TINY`] with other bytes from one on.
fn damaged(at: usize, bytes: &[u8]) -> Expected {
    let mut file = TINY;
    file[at..at + bytes.len()].copy_from_slice(bytes);
    error(&file)
}

fn check(damages: &[(usize, &[u8], Expected)]) {
    for (at, bytes, expected) in damages {
        assert_eq!(damaged(*at, bytes), *expected, "{bytes:?} at byte {at}");
    }
}

#[test]
fn a_cut_image_is_an_error_at_a_byte_that_it_has() {
    for length in 0..TINY.len() {
        let error = Index::new(&TINY[..length]).expect_err("the image is cut");
        assert_eq!(error.fault, Fault::CutShort, "{length} bytes: {error}");
        assert!(error.offset <= length as u64, "{length} bytes: {error}");
    }
    assert_eq!(error(&TINY[..82]), (Marker::SOT, 82, Fault::CutShort));
    assert_eq!(error(&TINY[..81]), (Marker::SOT, 59, Fault::CutShort));
    assert_eq!(error(&TINY[..58]), (Marker::COD, 45, Fault::CutShort));
}

#[test]
fn the_text_of_an_error_names_marker_and_byte() {
    let error = Index::new(&TINY[..81]).expect_err("the image is cut");
    assert_eq!(error.to_string(), "cannot index the image: SOT at byte 59: the file ends here");
    let mut file = TINY;
    file[50] = 0;
    let error = Index::new(&file).expect_err("the progression is LRCP");
    let expected = "cannot index the image: COD at byte 45: progression (RPCL needed) invalid";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn faulty_sizes_are_refused() {
    let size = |fault| (Marker::SIZ, 2, fault);
    let range = |field| size(Fault::OutOfRange(field));
    check(&[
        (4, &[0, 1], size(Fault::SegmentLength)),
        (4, &[0, 40], size(Fault::SegmentLength)),
        (6, &[0x80], range(Field::Extensions)),
        // No pixel, then an image that ends before it begins.
        (11, &[0], range(Field::ImageSize)),
        (19, &[9], range(Field::ImageSize)),
        // No size of tiles; an origin behind the image's; a first tile before the image.
        (27, &[0], range(Field::TileSize)),
        (35, &[1], range(Field::TileSize)),
        (19, &[7, 0, 0, 0, 0, 0, 0, 0, 7], range(Field::TileSize)),
        (41, &[0], range(Field::Components)),
        (41, &[2], size(Fault::SegmentLength)),
        (41, &[17], size(Fault::TooMany(Limit::Components))),
        (43, &[0], range(Field::Subsampling)),
        (44, &[0], range(Field::Subsampling)),
    ]);
}

#[test]
fn images_of_absurd_size_are_refused() {
    // 2^31 columns of tiles; then two to the power of 32 in both directions.
    let mut file = TINY;
    file[8..12].copy_from_slice(&[0x80, 0, 0, 0]);
    file[24..28].copy_from_slice(&[0, 0, 0, 1]);
    assert_eq!(error(&file), (Marker::SIZ, 2, Fault::TooMany(Limit::Tiles)));
    file[8..16].copy_from_slice(&[0xFF; 8]);
    file[24..32].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
    assert_eq!(error(&file), (Marker::SIZ, 2, Fault::TooMany(Limit::Tiles)));
    // One tile of 2^32 x 2^32 pixels: 131,072 x 131,072 precincts of 32,768.
    file[24..32].copy_from_slice(&[0xFF; 8]);
    assert_eq!(error(&file), (Marker::COD, 45, Fault::TooMany(Limit::Precincts)));
    // 65 precincts (2,129,920 pixels) of 65,535 layers are more than 2^22 packets.
    let mut file = TINY;
    file[8..12].copy_from_slice(&[0, 0x20, 0x80, 0]);
    file[24..28].copy_from_slice(&[0, 0x20, 0x80, 0]);
    file[51..53].copy_from_slice(&[0xFF, 0xFF]);
    assert_eq!(error(&file), (Marker::COD, 45, Fault::TooMany(Limit::Packets)));
    // 4,096 tiles of 33 resolutions are more than 2^17.
    let mut file = TINY;
    file[8..12].copy_from_slice(&[0, 0, 0x10, 0]);
    file[24..28].copy_from_slice(&[0, 0, 0, 1]);
    file[54] = 32;
    assert_eq!(error(&file), (Marker::COD, 45, Fault::TooMany(Limit::Resolutions)));
}

#[test]
fn faulty_codings_are_refused() {
    let coding = |fault| (Marker::COD, 45, fault);
    let range = |field| coding(Fault::OutOfRange(field));
    check(&[
        (47, &[0, 11], coding(Fault::SegmentLength)),
        // Precincts without their sizes, and an unknown style.
        (49, &[1], coding(Fault::SegmentLength)),
        (49, &[8], range(Field::Extensions)),
        (50, &[0], range(Field::Progression)),
        (52, &[0], range(Field::Layers)),
        (54, &[33], range(Field::Levels)),
    ]);
    // A precinct of one sample is possible at the lowest resolution only.
    let zero = |resolution: usize, axis: usize| {
        let mut image = TestImage::new(8, 8, 1, 1);
        image.precincts[resolution][axis] = 0;
        Index::new(&image.codestream(&image.parts(0), true)).map_err(|error| error.fault)
    };
    assert!(zero(0, 0).is_ok() && zero(0, 1).is_ok());
    assert_eq!(zero(1, 0), Err(Fault::OutOfRange(Field::PrecinctSize)));
    assert_eq!(zero(1, 1), Err(Fault::OutOfRange(Field::PrecinctSize)));
}

#[test]
fn markers_that_are_missing_twice_or_not_supported_are_refused() {
    let at_coding = |code, fault| (Marker::new(code), 45, fault);
    let at_lengths = |code, fault| (Marker::new(code), 71, fault);
    check(&[
        (1, &[0], (Marker::SOC, 0, Fault::Missing)),
        (3, &[0x64], (Marker::SIZ, 2, Fault::Missing)),
        (46, &[0x5C], (Marker::COD, 59, Fault::Missing)),
        (46, &[0x51], at_coding(0xFF51, Fault::Repeated)),
        (46, &[0x53], at_coding(0xFF53, Fault::Unsupported)),
        (46, &[0x5F], at_coding(0xFF5F, Fault::Unsupported)),
        (46, &[0x60], at_coding(0xFF60, Fault::Unsupported)),
        (46, &[0x58], at_coding(0xFF58, Fault::Unexpected)),
        (46, &[0xD9], at_coding(0xFFD9, Fault::Unexpected)),
        (72, &[0x52], at_lengths(0xFF52, Fault::Unsupported)),
        (72, &[0x53], at_lengths(0xFF53, Fault::Unsupported)),
        (72, &[0x5F], at_lengths(0xFF5F, Fault::Unsupported)),
        (72, &[0x61], at_lengths(0xFF61, Fault::Unsupported)),
        (72, &[0x51], at_lengths(0xFF51, Fault::Unexpected)),
        (72, &[0x90], at_lengths(0xFF90, Fault::Unexpected)),
        (72, &[0x30], at_lengths(0xFF30, Fault::Unexpected)),
        (82, &[0xFF, 0x64], (Marker::COM, 82, Fault::Unexpected)),
    ]);
    let twice = [&TINY[..59], &TINY[45..]].concat();
    assert_eq!(error(&twice), (Marker::COD, 59, Fault::Repeated));
}

#[test]
fn lying_packet_lengths_are_refused() {
    let lengths = |fault| (Marker::PLT, 71, fault);
    check(&[
        (76, &[2], lengths(Fault::LengthSum)),
        (76, &[4], lengths(Fault::LengthSum)),
        (76, &[0x83], lengths(Fault::LengthSum)),
        (76, &[0], lengths(Fault::OutOfRange(Field::PacketLength))),
        // A comment in place of the lengths: they are missing at SOD.
        (72, &[0x64], (Marker::PLT, 77, Fault::Missing)),
        (74, &[2], lengths(Fault::SegmentLength)),
    ]);
    // In a tile-part without a length, the lengths lead beyond the end of the file.
    let mut file = TINY;
    (file[68], file[76]) = (0, 6);
    assert_eq!(error(&file), (Marker::SOT, 59, Fault::CutShort));
    file[76] = 2;
    assert_eq!(error(&file), (Marker::new(0x0CFF), 81, Fault::Unexpected));
}

#[test]
fn faulty_tile_parts_are_refused() {
    let start = |fault| (Marker::SOT, 59, fault);
    check(&[
        (61, &[0, 9], start(Fault::SegmentLength)),
        (64, &[1], start(Fault::OutOfRange(Field::TileNumber))),
        (68, &[13], start(Fault::OutOfRange(Field::TilePartLength))),
        (65, &[0xFF; 4], start(Fault::CutShort)),
        (68, &[22], (Marker::PLT, 71, Fault::LengthSum)),
        (68, &[24], (Marker::PLT, 71, Fault::LengthSum)),
        // The header does not fit into the tile-part.
        (68, &[17], (Marker::PLT, 71, Fault::CutShort)),
        (69, &[1], start(Fault::OutOfRange(Field::TilePartNumber))),
    ]);
    // Nothing follows a tile-part that has no length.
    let mut file = [&TINY[..82], &TINY[59..]].concat();
    file[68] = 0;
    assert_eq!(error(&file), (Marker::SOT, 82, Fault::Unexpected));
}

#[test]
fn numbers_of_packets_are_those_of_the_geometry() {
    let image = TestImage::new(8, 8, 0, 3);
    let with = |count: usize| {
        let part = TestPart { tile: 0, number: 0, packets: vec![vec![1]; count] };
        Index::new(&image.codestream(&[part], true)).map_err(|error| (error.marker, error.fault))
    };
    assert_eq!(with(2), Err((Marker::EOC, Fault::PacketCount)));
    assert_eq!(with(3).map(|index| index.layout().packets()), Ok(3));
    assert_eq!(with(4), Err((Marker::PLT, Fault::PacketCount)));
}

#[test]
fn tiles_are_complete_and_in_order() {
    let image = TestImage { tile: [8, 8], ..TestImage::new(16, 8, 0, 2) };
    let with = |parts: &[(u16, u8, usize)]| {
        let part = |(tile, number, count): (u16, u8, usize)| TestPart {
            tile,
            number,
            packets: vec![vec![1]; count],
        };
        let parts: Vec<_> = parts.iter().copied().map(part).collect();
        Index::new(&image.codestream(&parts, true)).map(|_| ()).map_err(|error| error.fault)
    };
    assert_eq!(with(&[(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 2)]), Ok(()));
    assert_eq!(with(&[(0, 0, 1), (1, 0, 2), (0, 1, 1)]), Err(Fault::PacketCount));
    assert_eq!(with(&[(0, 0, 2), (1, 0, 2), (0, 1, 0)]), Err(Fault::OutOfRange(Field::TileNumber)));
    assert_eq!(with(&[(1, 0, 2), (0, 0, 2)]), Err(Fault::PacketCount));
    assert_eq!(with(&[(0, 0, 1), (0, 2, 1)]), Err(Fault::OutOfRange(Field::TilePartNumber)));
    assert_eq!(with(&[(0, 0, 2), (1, 1, 2)]), Err(Fault::OutOfRange(Field::TilePartNumber)));
    assert_eq!(with(&[(0, 0, 2)]), Err(Fault::PacketCount));
}

#[test]
fn more_tile_parts_than_an_index_holds_are_refused() {
    // 258 tiles of one pixel with 255 tile-parts each, of which the first has a packet.
    let image = TestImage { tile: [1, 1], ..TestImage::new(258, 1, 0, 1) };
    let part = |(tile, number): (u16, u8)| TestPart {
        tile,
        number,
        packets: vec![vec![1]; usize::from(number == 0)],
    };
    let parts: Vec<_> =
        (0..258).flat_map(|tile| (0..255).map(move |number| (tile, number))).map(part).collect();
    let error = Index::new(&image.codestream(&parts, true)).expect_err("65,790 tile-parts");
    assert_eq!((error.marker, error.fault), (Marker::SOT, Fault::TooMany(Limit::TileParts)));
    assert!(Index::new(&image.codestream(&parts, true)[..100_000]).is_err());
}

/// Checks that all packets of an index are bytes of the file.
fn check_bytes(file: &[u8]) {
    let Ok(index) = Index::new(file) else { return };
    for number in 0..index.layout().packets() {
        let bytes = index.packet_bytes(PacketNumber::new(number)).expect("the packet is there");
        assert!(bytes.start < bytes.end && bytes.end <= file.len() as u64, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_damage_causes_a_panic_or_a_packet_outside_of_the_file(
        image in any_image(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut file = image.codestream(&image.parts(3), true);
        for (at, byte) in damages {
            let at = at.index(file.len().min(400));
            file[at] = byte;
        }
        if is_cut {
            file.truncate(cut.index(file.len()));
        }
        check_bytes(&file);
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_bytes(&bytes);
        // The same behind a valid main header.
        check_bytes(&[&TINY[..59], &bytes].concat());
    }
}
