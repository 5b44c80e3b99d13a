//! Fuzz target: images, requests, outlines and answers of windows, valid and not.

use byway_view::{
    Cache, Index, Outline, PacketNumber, PacketStore, Remainder, Request, Selection, ServerMessage, Window,
};

use crate::harness::input::Input;

/// Bytes at the beginning of an image that damages change: its headers, mostly.
const DAMAGED_BYTES: usize = 300;

/// Limits of answers: none, less than a packet, some packets, all.
const LIMITS: [u32; 6] = [0, 11, 40, 200, 2_000, u32::MAX];

/// Reads anything as an image and as messages, or requests windows of a valid image.
///
/// # Panics
/// - If reading panics, or a packet is outside of its file.
/// - If an answer exceeds its limit, or has a packet twice.
/// - If a codestream of all packets is not the image.
pub fn view(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.byte() % 4 {
        0 => read_anything(input.bytes(usize::MAX)),
        1 => {
            let mut file = image(&mut input);
            while !input.is_empty() {
                let at = input.long() as usize % file.len().min(DAMAGED_BYTES);
                file[at] = input.byte();
            }
            read_anything(&file);
        }
        _ => request_windows(&mut input),
    }
}

fn read_anything(bytes: &[u8]) {
    if let Ok(index) = Index::new(bytes) {
        for number in 0..index.layout().packets() {
            let packet = PacketNumber::new(number);
            assert!(index.packet(bytes, packet).is_some_and(|packet| !packet.is_empty()), "{packet:?}");
        }
        let outline = Outline::new(&index, bytes).expect("the file is the same");
        let assembled = outline.assemble(|packet| index.packet(bytes, packet)).expect("files are short");
        let codestream = index.codestream();
        assert_eq!(assembled.len() as u64, codestream.end - codestream.start);
    }
    if let Ok(Some((request, length))) = Request::decode(bytes) {
        assert_eq!(request.encode(), bytes[..length]);
    }
    match ServerMessage::decode(bytes) {
        Ok(Some((ServerMessage::Answer(answer), length))) => {
            let packets: usize = answer.packets.map(|(_, packet)| packet.len() + 2).sum();
            assert!(packets < length && length <= bytes.len());
        }
        Ok(Some((ServerMessage::Outline(outline), _))) => {
            let codestream = outline.assemble(|_| None).expect("empty packets are short");
            assert!(codestream.len() > outline.layout().packets() as usize);
        }
        Ok(None) | Err(_) => {}
    }
}

/// A server of an image and its client.
struct Viewing {
    file: Vec<u8>,
    index: Index,
    outline: Outline,
    cache: Cache,
    store: PacketStore,
}

fn request_windows(input: &mut Input<'_>) {
    let file = image(input);
    let index = Index::new(&file).expect("the image is valid");
    let message = Outline::new(&index, &file).expect("the file is the same").encode().expect("it is short");
    let Ok(Some((ServerMessage::Outline(outline), _))) = ServerMessage::decode(&message) else {
        panic!("the outline is not read");
    };
    let (cache, store) = (Cache::new(index.layout()), PacketStore::new(usize::MAX));
    let mut viewing = Viewing { file, index, outline: *outline, cache, store };
    while !input.is_empty() {
        let [x, y, width, height, resolution, choice] = input.array::<6>();
        let [x, y, width, height] = [x, y, width, height].map(u32::from);
        viewing.request(Request {
            number: x,
            window: Window { x, y, width, height },
            resolution: resolution % 8,
            bytes_max: LIMITS[usize::from(choice) % LIMITS.len()],
            is_fresh: choice > 250,
        });
    }
    let some = viewing.assemble();
    let window = Window { x: 0, y: 0, width: u32::MAX, height: u32::MAX };
    let rest = Request { number: 0, window, resolution: u8::MAX, bytes_max: u32::MAX, is_fresh: false };
    viewing.request(rest);
    assert_eq!(viewing.cache.count(), viewing.index.layout().packets());
    let all = viewing.assemble();
    assert!(some.starts_with(&[0xFF, 0x4F]) && all.len() <= viewing.file.len());
    let outline = Outline::new(&viewing.index, &viewing.file).expect("the file is the same");
    let original = outline.assemble(|packet| viewing.store.get(packet)).expect("it is short");
    assert!(original == viewing.file, "all packets are not the image");
}

impl Viewing {
    fn request(&mut self, request: Request) {
        if request.is_fresh {
            self.store.clear();
            self.cache.clear();
        }
        let before = self.cache.count();
        let selection = Selection::new(&self.index, &request, &mut self.cache);
        let count = selection.packets().len();
        assert_eq!((before as usize) + count, self.cache.count() as usize, "a packet is there twice");
        assert!(count == 0 || selection.bytes() <= request.bytes_max);
        let message = selection.encode(|packet| self.index.packet(&self.file, packet));
        let message = message.expect("the file is the same");
        assert_eq!(message.len(), selection.bytes() as usize);
        let Ok(Some((ServerMessage::Answer(answer), _))) = ServerMessage::decode(&message) else {
            panic!("the answer is not read");
        };
        assert!(answer.remainder != Remainder::Refused, "the image is small");
        let mut selected = selection.packets().iter();
        for (packet, bytes) in answer.packets {
            assert_eq!(selected.next(), Some(&packet));
            assert_eq!(self.index.packet(&self.file, packet), Some(bytes));
            self.store.insert(packet, bytes).expect("the store has no limit");
        }
        assert_eq!(selected.next(), None);
    }

    fn assemble(&self) -> Vec<u8> {
        self.outline.assemble(|packet| self.store.get(packet)).expect("it is short")
    }
}

/// Sizes of an image of up to 67 x 67 pixels.
struct Sizes {
    begin: [u32; 2],
    end: [u32; 2],
    tile: [u32; 2],
    components: Vec<[u8; 2]>,
    precincts: Vec<[u8; 2]>,
}

/// Writes a valid image of the input's choice, in which each tile has one tile-part.
fn image(input: &mut Input<'_>) -> Vec<u8> {
    let begin = [0; 2].map(|_: u32| number(input, 8));
    let end = begin.map(|begin| begin + 1 + number(input, 60));
    let tile = [0; 2].map(|_: u32| 20 + number(input, 50));
    let components = vec![[1 + small(input, 3), 1 + small(input, 3)]; 1 + input.below(3)];
    let levels = small(input, 4);
    let precincts = (0..=levels).map(|_| [2 + small(input, 4), 2 + small(input, 4)]).collect();
    let (layers, style) = (1 + small(input, 3), 1 + 4 * small(input, 2));
    let sizes = Sizes { begin, end, tile, components, precincts };

    let mut file = vec![0xFF, 0x4F];
    file.extend(segment(0x51, &sizes.content()));
    let mut coding = vec![style, 2, 0, layers, 0, levels, 4, 4, 0, 0];
    coding.extend(sizes.precincts.iter().map(|[x, y]| (y << 4) | x));
    file.extend(segment(0x52, &coding));
    let [columns, rows] = [0, 1].map(|axis: usize| end[axis].div_ceil(tile[axis]));
    for (number, tile) in (0_u16..).zip(0..columns * rows) {
        let packets = sizes.precincts_of([tile % columns, tile / columns]) * u32::from(layers);
        file.extend(tile_part(number, packets));
    }
    file.extend([0xFF, 0xD9]);
    file
}

fn small(input: &mut Input<'_>, end: u8) -> u8 {
    input.byte() % end
}

fn number(input: &mut Input<'_>, end: u8) -> u32 {
    u32::from(small(input, end))
}

impl Sizes {
    /// Returns the content of SIZ.
    fn content(&self) -> Vec<u8> {
        let mut content = vec![0, 0];
        for [x, y] in [self.end, self.begin, self.tile, [0, 0]] {
            content.extend(x.to_be_bytes());
            content.extend(y.to_be_bytes());
        }
        content.extend(u16::try_from(self.components.len()).unwrap_or(0).to_be_bytes());
        self.components.iter().for_each(|[x, y]| content.extend([7, *x, *y]));
        content
    }

    /// Returns the number of precincts of all components and resolutions of a tile.
    fn precincts_of(&self, tile: [u32; 2]) -> u32 {
        let mut sum = 0;
        for (precinct, above) in self.precincts.iter().rev().zip(0..) {
            for sampling in &self.components {
                let counts = [0, 1].map(|axis: usize| {
                    let begin = (tile[axis] * self.tile[axis]).max(self.begin[axis]);
                    let end = ((tile[axis] + 1) * self.tile[axis]).min(self.end[axis]);
                    let sample = |pixel: u32| pixel.div_ceil(u32::from(sampling[axis])).div_ceil(1 << above);
                    let (begin, end) = (sample(begin), sample(end));
                    if begin < end {
                        end.div_ceil(1 << precinct[axis]) - (begin >> precinct[axis])
                    } else {
                        0
                    }
                });
                sum += counts[0] * counts[1];
            }
        }
        sum
    }
}

/// Writes a tile-part whose packets have 1 to 5 bytes.
fn tile_part(tile: u16, packets: u32) -> Vec<u8> {
    let lengths: Vec<u8> = (1..=5).cycle().take(packets as usize).collect();
    let mut header = Vec::new();
    for (number, lengths) in lengths.chunks(60_000).enumerate() {
        header.extend(segment(0x58, &[&[u8::try_from(number).unwrap_or(0)][..], lengths].concat()));
    }
    header.extend([0xFF, 0x93]);
    let data: u32 = lengths.iter().copied().map(u32::from).sum();
    let length = 12 + u32::try_from(header.len()).unwrap_or(0) + data;
    let mut start = tile.to_be_bytes().to_vec();
    start.extend(length.to_be_bytes());
    start.extend([0, 1]);
    let data: Vec<u8> = (0..=255).cycle().take(data as usize).collect();
    [segment(0x90, &start), header, data].concat()
}

fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len() + 2).unwrap_or(0).to_be_bytes();
    [&[0xFF, marker][..], &length, content].concat()
}
