//! Messages to and from the kernel's routing tables (rtnetlink): headers, attributes and answers.

use std::ops::Range;

/// A netlink header: length, type, flags, sequence number, port (RFC 3549, section 2.3.2).
pub(super) const HEADER_BYTES: usize = 16;

/// The header of an attribute: its length with the header, and its type, of which the two highest bits are flags.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ATTRIBUTE_TYPE_MASK: u16 = 0x3FFF;

/// Types of messages that every netlink socket has.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Flags of requests (`NLM_F_...`).
pub(super) const REQUEST: u16 = 0x001;
pub(super) const WITH_ANSWER: u16 = 0x004;
pub(super) const DUMP: u16 = 0x300;
pub(super) const REPLACE: u16 = 0x100;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const CREATE: u16 = 0x400;

/// Of an answer: the request's payload is left out; what was wrong follows in words.
const CAPPED: u16 = 0x100;
const EXPLAINED: u16 = 0x200;
const EXPLANATION: u16 = 1;

/// A request in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Of this type, with flags and the header of its kind of message.
    pub(super) fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | REQUEST).to_ne_bytes());
        // The sequence number follows when it is sent; the kernel knows from which port it came.
        bytes.extend([0; 8]);
        bytes.extend(header);
        Self { bytes }
    }

    /// With an attribute more.
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        add_attribute(&mut self.bytes, kind, value);
        self
    }

    /// With text, which the kernel wants to end with a zero.
    pub(super) fn with_text(self, kind: u16, text: &[u8]) -> Self {
        self.with(kind, &[text, &[0]].concat())
    }

    /// With an attribute that holds others.
    pub(super) fn with_nested(self, kind: u16, attributes: &[(u16, Vec<u8>)]) -> Self {
        let mut inner = Vec::new();
        for (kind, value) in attributes {
            add_attribute(&mut inner, *kind, value);
        }
        self.with(kind, &inner)
    }

    /// The message, as it is sent.
    pub(super) fn numbered(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).expect("a request has a few attributes");
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

fn add_attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len()).expect("values are short");
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// A message of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// Something that was asked for: the payload behind the header.
    Found(&'a [u8]),
    /// The end of a request: a number of an error, or 0, and what the kernel says of it.
    End { error: i32, said: &'a [u8] },
}

/// The messages of one datagram that answer the request with this sequence number.
pub(super) fn messages(datagram: &[u8], sequence: u32) -> impl Iterator<Item = Message<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let bytes = datagram.get(at..)?;
            let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
            let whole = bytes.get(..length).filter(|whole| whole.len() >= HEADER_BYTES)?;
            at += length.next_multiple_of(4);
            if u32_at(whole, 8)? == sequence {
                return parsed(whole);
            }
        }
    })
}

fn parsed(bytes: &[u8]) -> Option<Message<'_>> {
    let payload = &bytes[HEADER_BYTES..];
    match u16_at(bytes, 4)? {
        ERROR => {
            let error = i32::from_ne_bytes(payload.get(..4)?.try_into().ok()?).checked_neg()?;
            Some(Message::End { error, said: explanation(bytes, payload).unwrap_or_default() })
        }
        // The end of a dump carries an error, too.
        DONE => {
            let error = payload.get(..4).and_then(|word| word.try_into().ok()).map_or(0, i32::from_ne_bytes);
            Some(Message::End { error: error.checked_neg()?, said: &[] })
        }
        _ => Some(Message::Found(payload)),
    }
}

/// What the kernel says about an error, behind the request's header and, if it is repeated, its payload.
fn explanation<'a>(bytes: &[u8], payload: &'a [u8]) -> Option<&'a [u8]> {
    let flags = u16_at(bytes, 6)?;
    if flags & EXPLAINED == 0 {
        return None;
    }
    let request = usize::try_from(u32_at(payload, 4)?).ok()?;
    let skipped = if flags & CAPPED == 0 { request.next_multiple_of(4) } else { HEADER_BYTES };
    let said = attribute(payload.get(4 + skipped..)?, EXPLANATION)?;
    Some(said.strip_suffix(&[0]).unwrap_or(said))
}

/// The attributes in these bytes, as far as they make sense.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, at)?);
        let kind = u16_at(bytes, at + 2)? & ATTRIBUTE_TYPE_MASK;
        let value: Range<usize> = at + ATTRIBUTE_HEADER_BYTES..at + length;
        if length < ATTRIBUTE_HEADER_BYTES {
            return None;
        }
        at += length.next_multiple_of(4);
        bytes.get(value).map(|value| (kind, value))
    })
}

/// The value of the first attribute of this type.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// A text, without the zero that ends it.
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_ne_bytes)
}

/// A number of four bytes, in the order of this machine.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// A number of eight bytes, in the order of this machine.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_laid_out_as_the_kernel_reads_them() {
        let request =
            Request::new(36, CREATE, &[9; 4]).with_text(1, b"htb").with_nested(2, &[(3, vec![7; 5])]);
        let bytes = request.numbered(0x0102_0304);
        assert_eq!(bytes.len(), 16 + 4 + 8 + 4 + 12);
        assert_eq!(u32_at(&bytes, 0), Some(44));
        assert_eq!((u16_at(&bytes, 4), u16_at(&bytes, 6)), (Some(36), Some(0x401)));
        assert_eq!(u32_at(&bytes, 8), Some(0x0102_0304));
        let found: Vec<_> = attributes(&bytes[20..]).collect();
        assert_eq!(found[0], (1, &b"htb\0"[..]));
        assert_eq!(attributes(found[1].1).collect::<Vec<_>>(), [(3, &[7; 5][..])]);
    }

    fn answer(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(16 + payload.len()).expect("it is short").to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn answers_to_others_are_passed_over_and_what_the_kernel_says_is_kept() {
        let mut said = (-22_i32).to_ne_bytes().to_vec();
        said.extend(answer(36, 0, 7, &[]));
        add_attribute(&mut said, EXPLANATION, b"no\0");
        let datagram = [
            answer(40, 0, 6, &[1; 4]),
            answer(40, 0, 7, &[2; 4]),
            answer(ERROR, CAPPED | EXPLAINED, 7, &said),
        ]
        .concat();
        let found: Vec<_> = messages(&datagram, 7).collect();
        assert_eq!(found, [Message::Found(&[2; 4]), Message::End { error: 22, said: b"no" }]);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = messages(&bytes, 0).count();
            let _ = attributes(&bytes).count();
        }
    }
}
