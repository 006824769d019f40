//! Owned texts.
//!
//! A pi_buf is a text that a function hands out: an id, a value, a name.

use std::ffi::c_char;

use crate::guard::guard_value;
use crate::handle;

/// A text with a NUL past its end, as every text that goes out has.
#[derive(Debug, Clone)]
pub(crate) struct Text(Box<[u8]>);

impl Text {
    pub(crate) fn new(text: impl AsRef<[u8]>) -> Self {
        let text = text.as_ref();
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text);
        bytes.push(0);
        Self(bytes.into_boxed_slice())
    }

    pub(crate) fn data(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// Pointer and length of a text that may be absent.
    pub(crate) fn view(text: Option<&Text>) -> (*const c_char, usize) {
        text.map_or((std::ptr::null(), 0), |text| (text.data(), text.len()))
    }
}

/// A text the caller owns. UTF-8; a NUL that is not counted follows it. To be freed with pi_buf_free.
pub struct pi_buf(Text);

impl pi_buf {
    /// A buffer in the hands of the host.
    pub(crate) fn give(text: impl AsRef<[u8]>) -> *mut pi_buf {
        handle::give(pi_buf(Text::new(text)))
    }
}

/// The bytes of the buffer. Borrowed: valid until the buffer is freed. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_buf_data(buf: *const pi_buf) -> *const c_char {
    // SAFETY: NULL or a buffer that was not freed (rule 3).
    guard_value(|| unsafe { buf.as_ref() }.map_or(std::ptr::null(), |buf| buf.0.data()))
}

/// The number of bytes, without the NUL. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_buf_len(buf: *const pi_buf) -> usize {
    // SAFETY: NULL or a buffer that was not freed (rule 3).
    guard_value(|| unsafe { buf.as_ref() }.map_or(0, |buf| buf.0.len()))
}

/// Frees the buffer. Nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pi_buf_free(buf: *mut pi_buf) {
    // SAFETY: NULL or a buffer that was not freed (rule 3).
    guard_value(|| drop(unsafe { handle::take_back(buf) }));
}
