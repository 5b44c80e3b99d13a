//! Messages of the kernel's routing tables (rtnetlink): headers, attributes and answers.

use std::ops::Range;

/// Length in bytes of a netlink header: length, type, flags, sequence number, port (RFC 3549,
/// section 2.3.2).
pub(super) const NLMSG_HDRLEN: usize = 16;

/// Length in bytes of an attribute's header: its length including the header, and its type, whose
/// two highest bits are flags.
const NLA_HDRLEN: usize = 4;
const NLA_TYPE_MASK: u16 = 0x3FFF;

/// Types of messages of all netlink families.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// Flags of requests (`NLM_F_...`).
pub(super) const NLM_F_REQUEST: u16 = 0x001;
pub(super) const NLM_F_ACK: u16 = 0x004;
pub(super) const NLM_F_DUMP: u16 = 0x300;
pub(super) const NLM_F_REPLACE: u16 = 0x100;
pub(super) const NLM_F_EXCL: u16 = 0x200;
pub(super) const NLM_F_CREATE: u16 = 0x400;

/// Flags of an answer: the request's payload is left out; an error message follows as text.
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// Builder of an rtnetlink request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Creates a request with this type, these flags, and the header of its kind of message.
    pub(super) fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | NLM_F_REQUEST).to_ne_bytes());
        // The sequence number is set when the request is sent; the kernel knows the port.
        bytes.extend([0; 8]);
        bytes.extend(header);
        Self { bytes }
    }

    /// Adds an attribute of this type to the request.
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        add_attribute(&mut self.bytes, kind, value);
        self
    }

    /// Adds a text attribute, which the kernel requires to end with a zero.
    pub(super) fn with_text(self, kind: u16, text: &[u8]) -> Self {
        self.with(kind, &[text, &[0]].concat())
    }

    /// Adds an attribute that contains other attributes.
    pub(super) fn with_nested(self, kind: u16, attributes: &[(u16, Vec<u8>)]) -> Self {
        let mut inner = Vec::new();
        for (kind, value) in attributes {
            add_attribute(&mut inner, *kind, value);
        }
        self.with(kind, &inner)
    }

    /// Returns the encoded request with this sequence number.
    pub(super) fn numbered(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).expect("a request has a few attributes");
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

fn add_attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(NLA_HDRLEN + value.len()).expect("values are short");
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Message of the kernel in answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// One result of the request: the payload after the netlink header.
    Found(&'a [u8]),
    /// End of the answer, with an error number, or 0 for success, and the kernel's message.
    End { error: i32, explanation: &'a [u8] },
}

/// Returns the messages of one datagram that answer the request with this sequence number.
pub(super) fn messages(datagram: &[u8], sequence: u32) -> impl Iterator<Item = Message<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let bytes = datagram.get(at..)?;
            let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
            let whole = bytes.get(..length).filter(|whole| whole.len() >= NLMSG_HDRLEN)?;
            at += length.next_multiple_of(4);
            if u32_at(whole, 8)? == sequence {
                return parse_message(whole);
            }
        }
    })
}

fn parse_message(bytes: &[u8]) -> Option<Message<'_>> {
    let payload = &bytes[NLMSG_HDRLEN..];
    match u16_at(bytes, 4)? {
        NLMSG_ERROR => {
            let error = i32::from_ne_bytes(payload.get(..4)?.try_into().ok()?).checked_neg()?;
            Some(Message::End { error, explanation: explanation(bytes, payload).unwrap_or_default() })
        }
        // The end of a dump also has an error number.
        NLMSG_DONE => {
            let error = payload.get(..4).and_then(|word| word.try_into().ok()).map_or(0, i32::from_ne_bytes);
            Some(Message::End { error: error.checked_neg()?, explanation: &[] })
        }
        _ => Some(Message::Found(payload)),
    }
}

/// Returns the text of an error message. It comes after the request's header and, if that is
/// repeated, the request's payload.
fn explanation<'a>(bytes: &[u8], payload: &'a [u8]) -> Option<&'a [u8]> {
    let flags = u16_at(bytes, 6)?;
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let request = usize::try_from(u32_at(payload, 4)?).ok()?;
    let skipped = if flags & NLM_F_CAPPED == 0 { request.next_multiple_of(4) } else { NLMSG_HDRLEN };
    let message = attribute(payload.get(4 + skipped..)?, NLMSGERR_ATTR_MSG)?;
    Some(message.strip_suffix(&[0]).unwrap_or(message))
}

/// Returns the type and value of each attribute in these bytes, up to the first invalid one.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, at)?);
        let kind = u16_at(bytes, at + 2)? & NLA_TYPE_MASK;
        let value: Range<usize> = at + NLA_HDRLEN..at + length;
        if length < NLA_HDRLEN {
            return None;
        }
        at += length.next_multiple_of(4);
        bytes.get(value).map(|value| (kind, value))
    })
}

/// Returns the value of the first attribute of this type; `None` without one.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// Returns the text in an attribute's value, without its terminating zero.
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_ne_bytes)
}

/// Returns the number of four bytes at this offset, in this machine's byte order.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Returns the number of eight bytes at this offset, in this machine's byte order.
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
            Request::new(36, NLM_F_CREATE, &[9; 4]).with_text(1, b"htb").with_nested(2, &[(3, vec![7; 5])]);
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
        let mut bytes_of_error = (-22_i32).to_ne_bytes().to_vec();
        bytes_of_error.extend(answer(36, 0, 7, &[]));
        add_attribute(&mut bytes_of_error, NLMSGERR_ATTR_MSG, b"no\0");
        let datagram = [
            answer(40, 0, 6, &[1; 4]),
            answer(40, 0, 7, &[2; 4]),
            answer(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, 7, &bytes_of_error),
        ]
        .concat();
        let found: Vec<_> = messages(&datagram, 7).collect();
        assert_eq!(found, [Message::Found(&[2; 4]), Message::End { error: 22, explanation: b"no" }]);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = messages(&bytes, 0).count();
            let _ = attributes(&bytes).count();
        }
    }
}
