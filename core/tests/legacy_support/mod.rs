//! What the tests of old session files share.
#![allow(dead_code)] // each test takes what it needs

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

/// The folder of shared material; none where it is absent, which is said.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PISESSION_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let folder = root.join(name);
    // By its one name: what is read there is named so.
    let found = std::fs::canonicalize(&folder).ok().filter(|folder| folder.is_dir());
    if found.is_none() {
        let said = format!("\nSKIPPED: {} is not there; set PISESSION_SHARED\n", folder.display());
        // Past the capture of the test harness: `tests/run` shows and counts it.
        std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).unwrap();
    }
    found
}

/// SHA-256 in hex.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
