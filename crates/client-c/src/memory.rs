//! The only place that follows C's pointers.

use std::ffi::{CStr, c_char};

use crate::error::{Error, Problem};

/// What a pointer points at, to be read.
///
/// # Safety
/// A pointer that is not null points at a value that nobody changes meanwhile.
pub(crate) unsafe fn read<'a, T>(pointer: *const T) -> Result<&'a T, Problem> {
    // SAFETY: the caller vouches for all but null.
    unsafe { pointer.as_ref() }.ok_or_else(|| Error::NullPointer.into())
}

/// What a pointer points at, to be changed.
///
/// # Safety
/// A pointer that is not null points at a value that nobody else uses meanwhile.
pub(crate) unsafe fn change<'a, T>(pointer: *mut T) -> Result<&'a mut T, Problem> {
    // SAFETY: the caller vouches for all but null.
    unsafe { pointer.as_mut() }.ok_or_else(|| Error::NullPointer.into())
}

/// Writes a value to where a pointer points, whatever is there.
///
/// # Safety
/// A pointer that is not null points at room for one.
pub(crate) unsafe fn write<T>(pointer: *mut T, value: T) -> Result<(), Problem> {
    if pointer.is_null() {
        return Err(Error::NullPointer.into());
    }
    // SAFETY: the caller vouches for all but null.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Bytes to be read. Of length 0, they may be null.
///
/// # Safety
/// A pointer that is not null points at as many bytes, which nobody changes meanwhile.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, length: usize) -> Result<&'a [u8], Problem> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::NullPointer.into()),
        (_, length) if isize::try_from(length).is_err() => Err(Error::OutOfRange.into()),
        // SAFETY: the caller vouches for the bytes; the length is one that a slice may have.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, length) }),
    }
}

/// Bytes to be changed.
///
/// # Safety
/// A pointer that is not null points at as many bytes, which nobody else uses meanwhile.
pub(crate) unsafe fn bytes_mut<'a>(pointer: *mut u8, length: usize) -> Result<&'a mut [u8], Problem> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Error::NullPointer.into()),
        (_, length) if isize::try_from(length).is_err() => Err(Error::OutOfRange.into()),
        // SAFETY: the caller vouches for the bytes; the length is one that a slice may have.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(pointer, length) }),
    }
}

/// A text.
///
/// # Safety
/// A pointer that is not null points at bytes of which one is zero.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Problem> {
    if pointer.is_null() {
        return Err(Error::NullPointer.into());
    }
    // SAFETY: the caller vouches for the zero byte.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| Problem::about(Error::BadText, error))
}

/// A text that may be null.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn text_or_none<'a>(pointer: *const c_char) -> Result<Option<&'a str>, Problem> {
    // SAFETY: the caller vouches for the same.
    if pointer.is_null() { Ok(None) } else { unsafe { text(pointer) }.map(Some) }
}

/// As much of a text as fits into so many bytes.
pub(crate) fn fitting(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Writes as much of a text as there is room for, and a zero byte.
pub(crate) fn put_text(text: &str, room: &mut [u8]) -> Result<(), Problem> {
    let Some(most) = room.len().checked_sub(1) else {
        return Err(Error::OutOfRange.into());
    };
    let text = fitting(text, most).as_bytes();
    room[..text.len()].copy_from_slice(text);
    room[text.len()] = 0;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_texts_as_much_is_written_as_there_is_room_for() {
        let put = |text, room: usize| {
            let mut bytes = vec![9; room];
            put_text(text, &mut bytes).map(|()| bytes).ok()
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
