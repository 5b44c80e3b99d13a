//! Access to memory through C pointers. Only this module dereferences them.

use std::ffi::{CStr, c_char};

use crate::error::{Error, ErrorDetail};

/// Borrows the value of a C pointer. Returns an error if the pointer is null.
///
/// # Safety
/// A pointer that is not null points to a value that does not change during the borrow.
pub(crate) unsafe fn read<'a, T>(pointer: *const T) -> Result<&'a T, ErrorDetail> {
    // SAFETY: the caller vouches for all but null.
    unsafe { pointer.as_ref() }.ok_or_else(|| Error::NullPointer.into())
}

/// Borrows the value of a C pointer mutably. Returns an error if the pointer is null.
///
/// # Safety
/// A pointer that is not null points to a value that no other code uses during the borrow.
pub(crate) unsafe fn read_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, ErrorDetail> {
    // SAFETY: the caller vouches for all but null.
    unsafe { pointer.as_mut() }.ok_or_else(|| Error::NullPointer.into())
}

/// Writes a value through a C pointer, whose memory may be uninitialised. Returns an error if the
/// pointer is null.
///
/// # Safety
/// A pointer that is not null points to writable memory for one value.
pub(crate) unsafe fn write<T>(pointer: *mut T, value: T) -> Result<(), ErrorDetail> {
    if pointer.is_null() {
        return Err(Error::NullPointer.into());
    }
    // SAFETY: the caller vouches for all but null.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Borrows bytes of the C caller. The pointer may be null only if the length is 0.
///
/// # Safety
/// A pointer that is not null points to `length` bytes that do not change during the borrow.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, length: usize) -> Result<&'a [u8], ErrorDetail> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::NullPointer.into()),
        (_, length) if isize::try_from(length).is_err() => Err(Error::OutOfRange.into()),
        // SAFETY: the caller vouches for the bytes; the length is one that a slice may have.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, length) }),
    }
}

/// Borrows bytes of the C caller mutably. The pointer may be null only if the length is 0.
///
/// # Safety
/// A pointer that is not null points to `length` bytes that no other code uses during the borrow.
pub(crate) unsafe fn bytes_mut<'a>(pointer: *mut u8, length: usize) -> Result<&'a mut [u8], ErrorDetail> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Error::NullPointer.into()),
        (_, length) if isize::try_from(length).is_err() => Err(Error::OutOfRange.into()),
        // SAFETY: the caller vouches for the bytes; the length is one that a slice may have.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(pointer, length) }),
    }
}

/// Borrows a UTF-8 text of the C caller. Returns an error if the pointer is null or the text
/// invalid.
///
/// # Safety
/// A pointer that is not null points to a text with a zero byte at its end.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, ErrorDetail> {
    if pointer.is_null() {
        return Err(Error::NullPointer.into());
    }
    // SAFETY: the caller vouches for the zero byte.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| ErrorDetail::about(Error::BadText, error))
}

/// Borrows a UTF-8 text of the C caller; `None` if the pointer is null.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn text_or_none<'a>(pointer: *const c_char) -> Result<Option<&'a str>, ErrorDetail> {
    // SAFETY: the caller vouches for the same.
    if pointer.is_null() { Ok(None) } else { unsafe { text(pointer) }.map(Some) }
}

/// Truncates a text to at most this number of bytes, at a character boundary.
pub(crate) fn fitting(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Writes a text and a zero byte into a buffer of the C caller. Truncates the text if the buffer is
/// too short.
pub(crate) fn write_text(text: &str, buffer: &mut [u8]) -> Result<(), ErrorDetail> {
    let Some(most) = buffer.len().checked_sub(1) else {
        return Err(Error::OutOfRange.into());
    };
    let text = fitting(text, most).as_bytes();
    buffer[..text.len()].copy_from_slice(text);
    buffer[text.len()] = 0;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_texts_as_much_is_written_as_there_is_room_for() {
        let put = |text, size: usize| {
            let mut bytes = vec![9; size];
            write_text(text, &mut bytes).map(|()| bytes).ok()
        };
        assert_eq!(put("bob", 5).as_deref(), Some(&b"bob\0\x09"[..]));
        assert_eq!(put("bob", 3).as_deref(), Some(&b"bo\0"[..]));
        assert_eq!(put("\u{e9}\u{e9}", 4).as_deref(), Some(&[0xC3, 0xA9, 0, 9][..]), "no character is cut");
        assert_eq!(put("bob", 1).as_deref(), Some(&b"\0"[..]));
        assert_eq!(put("bob", 0), None);
    }

    #[test]
    fn lengths_that_no_memory_has_are_errors() {
        let byte = 7_u8;
        // SAFETY: too long a length is refused before the pointer is followed.
        let refused = unsafe { bytes(&raw const byte, usize::MAX) };
        assert_eq!(refused.map_err(|problem| problem.error), Err(Error::OutOfRange));
        // SAFETY: null is refused, or not followed.
        let nulls = unsafe { [bytes(std::ptr::null(), 0).is_ok(), bytes(std::ptr::null(), 1).is_err()] };
        assert_eq!(nulls, [true, true]);
    }
}
