//! Names in a folder: made to last.

use std::fs::File;
use std::path::Path;

use crate::error::{Error, Result};

/// Makes new and changed names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| Error::io("cannot sync the folder", error).with_path(folder))
}

/// Makes the name of a file durable.
pub(crate) fn sync_name(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    sync_folder(folder.unwrap_or(Path::new(".")))
}
