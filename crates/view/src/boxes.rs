//! Boxes of JP2 files, which surround a codestream.

use crate::fault::{CodestreamError, Fault};
use crate::marker::Marker;
use crate::reader::Reader;

/// First box of a JP2 file (ISO/IEC 15444-1, annex I.5.1).
const SIGNATURE: [u8; 12] = *b"\0\0\0\x0CjP  \r\n\x87\n";

/// Type of the box that has the codestream.
const CODESTREAM: [u8; 4] = *b"jp2c";

/// Lengths that are none: the length follows in eight bytes, and the box ends with the file.
const LONG: u32 = 1;
const UNTIL_END: u32 = 0;

/// Returns a reader of the codestream: the file itself, or the first codestream of a JP2 file.
pub(crate) fn codestream(file: &[u8]) -> Result<Reader<'_>, CodestreamError> {
    let mut boxes = Reader::new(file);
    if !file.starts_with(&SIGNATURE) {
        return Ok(boxes);
    }
    while !boxes.is_empty() {
        let (kind, content) = read_box(&mut boxes)?;
        if kind == CODESTREAM {
            return Ok(content);
        }
    }
    Err(CodestreamError::new(Marker::SOC, boxes.offset(), Fault::Missing))
}

fn read_box<'a>(boxes: &mut Reader<'a>) -> Result<([u8; 4], Reader<'a>), CodestreamError> {
    let begin = boxes.position();
    let error = |fault| CodestreamError::new(Marker::SOC, begin as u64, fault);
    let cut = error(Fault::CutShort);
    let length = boxes.u32().ok_or(cut)?;
    let kind = boxes.array().ok_or(cut)?;
    let length = match length {
        UNTIL_END => (boxes.end() - begin) as u64,
        LONG => boxes.u64().ok_or(cut)?,
        length => u64::from(length),
    };
    let length = usize::try_from(length).map_err(|_| cut)?;
    let end = begin.checked_add(length).ok_or(cut)?;
    if end < boxes.position() {
        return Err(error(Fault::SegmentLength));
    }
    let content = boxes.until(end).ok_or(cut)?;
    boxes.read(end - boxes.position());
    Ok((kind, content))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn file(boxes: &[&[u8]]) -> Vec<u8> {
        let mut file = SIGNATURE.to_vec();
        file.extend(boxes.concat());
        file
    }

    #[test]
    fn boxes_before_and_behind_the_codestream_are_skipped() {
        let file = file(&[b"\0\0\0\x0Aftypab", b"\0\0\0\x0Bjp2cxyz", b"\0\0\0\x08free"]);
        let mut reader = codestream(&file).expect("a codestream");
        // 12 bytes of the signature, 10 of the next box, and 8 of the codestream's box header.
        assert_eq!((reader.position(), reader.end(), reader.read(3)), (30, 33, Some(&b"xyz"[..])));
    }

    #[test]
    fn long_boxes_and_boxes_until_the_end_are_read() {
        let long = file(&[b"\0\0\0\x01jp2c\0\0\0\0\0\0\0\x12xy"]);
        let reader = codestream(&long).expect("a codestream");
        assert_eq!((reader.position(), reader.end()), (28, 30));
        let last = file(&[b"\0\0\0\0jp2cxyz"]);
        let reader = codestream(&last).expect("a codestream");
        assert_eq!((reader.position(), reader.end()), (20, 23));
    }

    #[test]
    fn faulty_boxes_are_errors_at_their_first_byte() {
        let cases: [(&[u8], u64, Fault); 6] = [
            (b"\0\0\0\x08free", 20, Fault::Missing),
            (b"\0\0\0\x07free", 12, Fault::SegmentLength),
            (b"\0\0\0\x09free", 12, Fault::CutShort),
            (b"\0\0\0\x01free\0\0\0\0\0\0\0\x0F", 12, Fault::SegmentLength),
            (b"\0\0\0\x01free\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 12, Fault::CutShort),
            (b"\0\0\0", 12, Fault::CutShort),
        ];
        for (content, offset, fault) in cases {
            let file = file(&[content]);
            let error = codestream(&file).expect_err("the box is faulty");
            assert_eq!((error.marker, error.offset, error.fault), (Marker::SOC, offset, fault));
        }
    }

    #[test]
    fn a_file_without_boxes_is_a_codestream() {
        let reader = codestream(&[0xFF, 0x4F]).expect("a codestream");
        assert_eq!((reader.position(), reader.end()), (0, 2));
    }
}
