//! What crosses the boundary, in and out: strings, options, outputs and views.
//!
//! Every function here is unsafe for one reason: it believes what the contract says of a pointer. Everything
//! that can be checked is.

use std::ffi::{OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pisession::{Address, Error, ErrorKind, Json, Order, Result, SessionMetadata};

/// The length that stands for "up to the NUL".
pub(crate) const NUL_TERMINATED: usize = usize::MAX;

/// A type all of whose bytes may be zero, without meaning anything but "none".
///
/// # Safety
/// The type is plain data: integers, doubles, and pointers that may be NULL.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: a pointer may be NULL.
unsafe impl<T> Plain for *mut T {}
// SAFETY: a pointer may be NULL.
unsafe impl<T> Plain for *const T {}
// SAFETY: an integer may be 0.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for usize {}

fn zero<T: Plain>() -> T {
    // SAFETY: `Plain` says that zero bytes are a value.
    unsafe { std::mem::zeroed() }
}

pub(crate) fn is_null(what: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{what} is NULL"))
}

/// The bytes of an argument; none for NULL.
///
/// # Safety
/// `data` is NULL, or readable for `len` bytes or up to its NUL (rule 5).
unsafe fn bytes<'a>(data: *const c_char, len: usize, what: &str) -> Result<Option<&'a [u8]>> {
    if data.is_null() {
        return match len {
            0 | NUL_TERMINATED => Ok(None),
            _ => Err(is_null(what).with_hint("its length is not 0")),
        };
    }
    if len == NUL_TERMINATED {
        // SAFETY: not NULL and NUL-terminated, by its length.
        return Ok(Some(unsafe { std::ffi::CStr::from_ptr(data) }.to_bytes()));
    }
    if isize::try_from(len).is_err() {
        return Err(Error::new(ErrorKind::InvalidArgument, format!("{what} has an impossible length"))
            .with_hint("give the number of bytes, or PI_NUL for text that ends with a NUL"));
    }
    // SAFETY: not NULL, readable for `len` bytes, and `len` is within what a slice may have.
    Ok(Some(unsafe { std::slice::from_raw_parts(data.cast(), len) }))
}

/// A text that may be absent.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn optional_text<'a>(
    data: *const c_char,
    len: usize,
    what: &str,
) -> Result<Option<&'a str>> {
    // SAFETY: as asked for.
    let Some(bytes) = (unsafe { bytes(data, len, what) })? else { return Ok(None) };
    std::str::from_utf8(bytes).map(Some).map_err(|error| {
        Error::new(ErrorKind::InvalidArgument, format!("{what} is not UTF-8"))
            .with_offset(error.valid_up_to() as u64)
    })
}

/// A text.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn text<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a str> {
    // SAFETY: as asked for.
    unsafe { optional_text(data, len, what) }?.ok_or_else(|| is_null(what))
}

/// Bytes that need not be text. NULL is none of them.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn blob<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a [u8]> {
    // SAFETY: as asked for.
    Ok(unsafe { bytes(data, len, what) }?.unwrap_or_default())
}

/// A path, as the bytes of its name.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn path<'a>(data: *const c_char, len: usize, what: &str) -> Result<&'a Path> {
    // SAFETY: as asked for.
    let bytes = unsafe { bytes(data, len, what) }?.ok_or_else(|| is_null(what))?;
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(Error::new(ErrorKind::InvalidArgument, format!("{what} is empty or holds a NUL")));
    }
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// The elements of an array; NULL is empty if `count` says so.
///
/// # Safety
/// `elements` is NULL or readable for `count` elements until the call returns.
pub(crate) unsafe fn array<'a, T: Plain>(elements: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if elements.is_null() {
        return Err(is_null(what).with_hint("its count is not 0"));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|size| isize::try_from(size).is_err()) {
        return Err(Error::new(ErrorKind::InvalidArgument, format!("{what} has an impossible count")));
    }
    // SAFETY: not NULL, readable for `count` elements, and no larger than a slice may be.
    Ok(unsafe { std::slice::from_raw_parts(elements, count) })
}

/// A JSON text that may be absent.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn optional_json(data: *const c_char, len: usize, what: &str) -> Result<Option<Json>> {
    // SAFETY: as asked for.
    unsafe { bytes(data, len, what) }?.map(Json::from_bytes).transpose()
}

/// A JSON text.
///
/// # Safety
/// As [`bytes`].
pub(crate) unsafe fn json(data: *const c_char, len: usize, what: &str) -> Result<Json> {
    // SAFETY: as asked for.
    unsafe { optional_json(data, len, what) }?.ok_or_else(|| is_null(what))
}

/// A session of a repository: its id, and the file that is meant where there are several (NULL for any).
///
/// # Safety
/// As [`bytes`], for both.
pub(crate) unsafe fn stored(
    id: *const c_char,
    id_len: usize,
    path: *const c_char,
    path_len: usize,
) -> Result<SessionMetadata> {
    // SAFETY: as asked for.
    let (id, path) = unsafe {
        let id = text(id, id_len, "id")?.to_owned();
        (id, if path.is_null() { None } else { Some(self::path(path, path_len, "path")?.to_owned()) })
    };
    Ok(SessionMetadata {
        id,
        created_at: 0,
        storage_version: 1,
        cwd: None,
        parent_session_id: None,
        legacy_parent_session_path: None,
        path,
    })
}

/// Namespace and key.
///
/// # Safety
/// As [`bytes`], for both.
pub(crate) unsafe fn address(
    namespace: *const c_char,
    namespace_len: usize,
    key: *const c_char,
    key_len: usize,
) -> Result<Address> {
    // SAFETY: as asked for.
    unsafe { Address::new(text(namespace, namespace_len, "namespace")?, text(key, key_len, "key")?) }
}

/// Several texts; `lens` NULL says that all end with a NUL.
///
/// # Safety
/// `texts` is readable for `count` pointers, each as in [`bytes`]; `lens` is NULL or readable for `count`.
pub(crate) unsafe fn texts<'a>(
    texts: *const *const c_char,
    lens: *const usize,
    count: usize,
    what: &str,
) -> Result<Vec<&'a str>> {
    // SAFETY: as asked for.
    let (texts, lens) = unsafe {
        let texts = array(texts, count, what)?;
        (texts, if lens.is_null() { None } else { Some(array(lens, count, what)?) })
    };
    let len = |index: usize| lens.map_or(NUL_TERMINATED, |lens| lens[index]);
    // SAFETY: as asked for.
    texts.iter().enumerate().map(|(index, one)| unsafe { text(*one, len(index), what) }).collect()
}

/// Options or a query: what the caller's version of the struct has, the rest zero. NULL is all zero.
///
/// # Safety
/// `options` is NULL, or starts with its size and is readable for so many bytes (rule 7).
pub(crate) unsafe fn options<T: Plain>(options: *const T) -> Result<T> {
    let mut read = zero::<T>();
    if options.is_null() {
        return Ok(read);
    }
    // SAFETY: every such struct starts with its size.
    let size = unsafe { options.cast::<usize>().read() };
    // Every field is as large as a size: what is no whole number of them was never initialised.
    if size < size_of::<usize>() || size % size_of::<usize>() != 0 || isize::try_from(size).is_err() {
        return Err(Error::new(ErrorKind::InvalidArgument, "the options have no valid struct_size")
            .with_hint("call their _init function first"));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: both are as long as `known`, and the copy is this function's own.
    unsafe { std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut read).cast(), known) };
    // SAFETY: readable up to `size`.
    let newer = unsafe { std::slice::from_raw_parts(options.cast::<u8>().add(known), size - known) };
    if newer.iter().any(|byte| *byte != 0) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the options ask for something this version of the library does not know",
        )
        .with_hint("the program was compiled with a newer pisession.h; install that library"));
    }
    Ok(read)
}

/// Fills an options struct of `size` bytes with its size and zeros, and the lengths of its texts, which stand at
/// the offsets `lens`, with [`NUL_TERMINATED`]: a text that is set without its length is one that ends with a NUL.
///
/// # Safety
/// `options` is NULL or writable for `size` bytes; `lens` are offsets of `usize` fields of `T`.
pub(crate) unsafe fn init_options<T: Plain>(options: *mut T, size: usize, lens: &[usize]) {
    if options.is_null() || size < size_of::<usize>() {
        return;
    }
    // SAFETY: writable for `size` bytes, which hold at least the size itself.
    unsafe {
        options.cast::<u8>().write_bytes(0, size);
        options.cast::<usize>().write(size);
    }
    for len in lens.iter().filter(|len| **len + size_of::<usize>() <= size) {
        // SAFETY: a field of the caller's version of the struct, by the filter.
        unsafe { options.byte_add(*len).cast::<usize>().write(NUL_TERMINATED) };
    }
}

/// A number that may be absent.
///
/// # Safety
/// `number` is NULL or readable.
pub(crate) unsafe fn optional_number<T: Copy>(number: *const T) -> Option<T> {
    // SAFETY: as asked for.
    (!number.is_null()).then(|| unsafe { number.read() })
}

/// Both orders a query may ask for: 0 is its default.
pub(crate) fn order(order: i64, default: Order) -> Result<Order> {
    match order {
        0 => Ok(default),
        crate::entries::PI_ASCENDING => Ok(Order::Ascending),
        crate::entries::PI_DESCENDING => Ok(Order::Descending),
        _ => Err(Error::new(ErrorKind::InvalidArgument, format!("{order} is no order"))
            .with_hint("use PI_ASCENDING or PI_DESCENDING, or 0 for the default")),
    }
}

/// An output: cleared at once, set at the end of a call that succeeds.
pub(crate) struct Out<T>(*mut T);

impl<T: Plain> Out<T> {
    /// # Safety
    /// `output` is NULL or writable until the call returns (rule 2).
    pub(crate) unsafe fn cleared(output: *mut T) -> Self {
        if !output.is_null() {
            // SAFETY: not NULL, so writable.
            unsafe { output.write(zero()) };
        }
        Self(output)
    }

    /// Refuses NULL.
    pub(crate) fn required(self, what: &str) -> Result<Self> {
        if self.0.is_null() { Err(is_null(what)) } else { Ok(self) }
    }

    /// Sets it, if the caller wants it.
    pub(crate) fn set(self, value: impl FnOnce() -> T) {
        if !self.0.is_null() {
            // SAFETY: not NULL, so writable.
            unsafe { self.0.write(value()) };
        }
    }
}

/// A struct of views to be filled, as long as the caller's version of it.
pub(crate) struct View<T> {
    view: *mut T,
    size: usize,
}

impl<T: Plain> View<T> {
    /// # Safety
    /// `view` is NULL or writable for `size` bytes until the call returns.
    pub(crate) unsafe fn cleared(view: *mut T, size: usize) -> Self {
        if !view.is_null() {
            // SAFETY: not NULL, so writable.
            unsafe { view.cast::<u8>().write_bytes(0, size) };
        }
        Self { view, size }
    }

    /// Refuses NULL.
    pub(crate) fn required(self, what: &str) -> Result<Self> {
        if self.view.is_null() { Err(is_null(what)) } else { Ok(self) }
    }

    /// Fills what the caller's version has of it.
    pub(crate) fn set(self, value: &T) {
        if !self.view.is_null() {
            let known = self.size.min(size_of::<T>());
            // SAFETY: both are as long as `known`.
            unsafe {
                std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast(), self.view.cast::<u8>(), known)
            };
        }
    }
}

/// Runs the host's `drop(user_data)` once, whatever happens.
pub(crate) struct UserData {
    pub(crate) data: *mut c_void,
    pub(crate) drop: Option<unsafe extern "C" fn(user_data: *mut c_void)>,
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the host gave both for this (rule 10), and this is the only call.
            unsafe { drop(self.data) };
        }
    }
}
