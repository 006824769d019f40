//! The reference implementation and this library on the same files: what the one wrote the other opens, has
//! the same of it, and goes on writing. See "Beside the reference implementation" in the book.

// Helpers outside of test functions fail by panicking, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod beside;
mod commits;
mod containers;
mod crashes;
mod exports;
mod forks;
mod legacy;
mod names;
mod peer;
mod place;
mod writing;
