//! A sign of life during long work: on stderr, and only if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Counts on the last line of the terminal, and is gone when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    what: &'static str,
}

impl Progress {
    /// Progress that counts `what` (entries, lines, …). It appears when the work takes a moment.
    pub(crate) fn new(what: &'static str) -> Self {
        // indicatif draws nothing where stderr is no terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Self { bar, what }
    }

    /// So many are done.
    pub(crate) fn at(&self, count: u64) {
        self.show(|| super::text::thousands(count as f64));
    }

    /// So much of all of it is done.
    pub(crate) fn part(&self, done: u64, all: u64) {
        self.show(|| format!("{} %", done.saturating_mul(100) / all.max(1)));
    }

    /// So many of all are done.
    pub(crate) fn of(&self, done: u64, all: u64) {
        let number = |count| super::text::thousands(count as f64);
        self.show(|| format!("{} of {}", number(done), number(all)));
    }

    /// Does what writes to the terminal.
    pub(crate) fn around<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Still at work.
    pub(crate) fn tick(&self) {
        if !self.bar.is_hidden() {
            self.bar.tick();
        }
    }

    fn show(&self, count: impl FnOnce() -> String) {
        if !self.bar.is_hidden() && self.bar.elapsed() > Duration::from_millis(300) {
            self.bar.set_message(format!("{} {}", count(), self.what));
            self.bar.tick();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
