//! Parts of the image and bytes of the file that packets have.

use byway_view::{Index, PacketNumber, PacketPosition};
use proptest::prelude::*;

use crate::image::{TestImage, any_image, packets};

/// A codestream of one packet with three bytes, byte by byte.
pub(crate) const TINY: [u8; 84] = [
    0xFF, 0x4F, // SOC, byte 0
    0xFF, 0x51, 0, 41, 0, 0, // SIZ, byte 2
    0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, // 8 x 8 pixels from byte 8 on
    0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, // one tile, from byte 24 on
    0, 1, 7, 1, 1, // one component, byte 40
    0xFF, 0x52, 0, 12, 0, 2, 0, 1, 0, 0, 4, 4, 0, 0, // COD, byte 45
    0xFF, 0x90, 0, 10, 0, 0, 0, 0, 0, 23, 0, 1, // SOT, byte 59
    0xFF, 0x58, 0, 4, 0, 3, // PLT, byte 71
    0xFF, 0x93, 0xA, 0xB, 0xC, // SOD, byte 77
    0xFF, 0xD9, // EOC, byte 82
];

fn index(image: &TestImage) -> Index {
    Index::new(&image.codestream(&image.parts(0), true)).expect("the image is valid")
}

fn number(index: &Index, position: PacketPosition) -> Option<u32> {
    index.layout().number(position).map(PacketNumber::get)
}

/// First packet of a precinct of the only tile and component.
fn precinct(resolution: u8, column: u32, row: u32) -> PacketPosition {
    PacketPosition { tile: 0, resolution, component: 0, column, row, layer: 0 }
}

#[test]
fn a_packet_has_the_bytes_behind_its_header() {
    let index = Index::new(&TINY).expect("the image is valid");
    assert_eq!((index.codestream(), index.layout().packets()), (0..84, 1));
    assert_eq!(index.packet_bytes(PacketNumber::new(0)), Some(79..82));
    assert_eq!(index.packet(&TINY, PacketNumber::new(0)), Some(&[0xA, 0xB, 0xC][..]));
    assert_eq!(index.packet_bytes(PacketNumber::new(1)), None);
    assert_eq!(index.packet(&TINY[..81], PacketNumber::new(0)), None);
}

#[test]
fn a_tile_part_without_a_length_ends_with_the_codestream() {
    let mut file = TINY;
    file[68] = 0;
    let index = Index::new(&file).expect("the image is valid");
    assert_eq!(index.packet_bytes(PacketNumber::new(0)), Some(79..82));
}

#[test]
fn bytes_of_packets_are_those_of_the_file_around_the_codestream() {
    let mut file = b"\0\0\0\x0CjP  \r\n\x87\n\0\0\0\0jp2c".to_vec();
    file.extend(TINY);
    let index = Index::new(&file).expect("the image is valid");
    assert_eq!((index.codestream(), index.packet_bytes(PacketNumber::new(0))), (20..104, Some(99..102)));
}

#[test]
fn resolutions_follow_one_another_by_rows_of_precincts() {
    // 300 x 200 pixels are 3 x 2 precincts of 128, and 150 x 100 pixels 2 x 1; two layers each.
    let index = index(&TestImage::new(300, 200, 1, 2));
    let layout = index.layout();
    assert_eq!((layout.packets(), layout.resolution_max(), layout.layers()), (16, 1, 2));
    assert_eq!((layout.image_size(), layout.tiles(), layout.components()), ([300, 200], 1, 1));
    for (position, expected) in [
        (precinct(0, 0, 0), 0),
        (precinct(0, 1, 0), 2),
        (precinct(1, 0, 0), 4),
        (precinct(1, 2, 0), 8),
        (precinct(1, 0, 1), 10),
        (PacketPosition { layer: 1, ..precinct(1, 2, 1) }, 15),
    ] {
        assert_eq!(number(&index, position), Some(expected), "{position:?}");
        assert_eq!(layout.position(PacketNumber::new(expected)), Some(position));
    }
}

#[test]
fn positions_that_the_image_has_not_have_no_packet() {
    let index = index(&TestImage::new(300, 200, 1, 2));
    let inside = precinct(1, 0, 0);
    for outside in [
        PacketPosition { tile: 1, ..inside },
        PacketPosition { resolution: 2, ..inside },
        PacketPosition { component: 1, ..inside },
        PacketPosition { column: 3, ..inside },
        PacketPosition { row: 2, ..inside },
        PacketPosition { layer: 2, ..inside },
    ] {
        assert_eq!(number(&index, outside), None, "{outside:?}");
    }
    assert_eq!(index.layout().position(PacketNumber::new(16)), None);
}

#[test]
fn components_are_in_turn_where_their_precincts_begin() {
    // Precincts of 8 x 8 samples: the first component has four, the halved one a single one, which
    // begins with the first of these.
    let image = TestImage {
        components: vec![[1, 1], [2, 2]],
        precincts: vec![[3, 3]],
        ..TestImage::new(16, 16, 0, 1)
    };
    let index = index(&image);
    let order: Vec<_> = (0..5)
        .map(|number| index.layout().position(PacketNumber::new(number)).expect("five packets"))
        .map(|position| (position.component, position.column, position.row))
        .collect();
    assert_eq!(order, [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)]);
}

#[test]
fn precincts_are_counted_from_coordinate_zero() {
    // Pixels 100 to 299 are in the precincts 0 to 2 of 128 pixels.
    let image = TestImage { begin: [100, 0], end: [300, 8], tile: [300, 8], ..TestImage::new(1, 1, 0, 1) };
    let index = index(&image);
    assert_eq!((index.layout().packets(), index.layout().image_size()), (3, [200, 8]));
}

#[test]
fn tiles_follow_one_another_by_rows() {
    // Two by two tiles, the right and lower ones of 4 pixels; precincts of 8 pixels.
    let image = TestImage { tile: [16, 16], precincts: vec![[3, 3]], ..TestImage::new(20, 20, 0, 1) };
    let index = index(&image);
    // 2 x 2 precincts, 1 x 2, 2 x 1 and 1.
    assert_eq!(index.layout().packets(), 9);
    for (tile, first) in [(0, 0), (1, 4), (2, 6), (3, 8)] {
        assert_eq!(number(&index, PacketPosition { tile, ..precinct(0, 0, 0) }), Some(first));
    }
}

proptest! {
    #[test]
    fn packets_are_those_of_the_standard_and_have_their_bytes(image in any_image(), seed in any::<u32>()) {
        let parts = image.parts(seed);
        let (file, packets) = (image.codestream(&parts, true), packets(&parts));
        let positions = image.positions();
        let index = Index::new(&file).expect("the image is valid");
        prop_assert_eq!(index.layout().packets() as usize, positions.len());
        prop_assert_eq!(index.codestream(), 0..file.len() as u64);
        for (number, position) in positions.into_iter().enumerate() {
            let packet = PacketNumber::new(number as u32);
            prop_assert_eq!(index.layout().position(packet), Some(position));
            prop_assert_eq!(index.layout().number(position), Some(packet));
            prop_assert_eq!(index.packet(&file, packet), Some(&packets[number][..]));
        }
    }
}
