//! Session files of versions 1, 2 and 3: read as sessions, imported, never written in place.

/// What reading an old file found.
#[derive(Debug, Clone, Default)]
pub struct Legacy {}
