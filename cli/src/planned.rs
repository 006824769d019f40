use pisession::*;
use std::path::Path;
#[derive(Default)]
pub(crate) struct OpenFileOptions;
pub(crate) fn open_file(_path: &Path, _options: &OpenFileOptions, _ctx: &Context) -> Result<Session> {
    Err(Error::new(ErrorKind::NotASession, "not there yet"))
}
pub(crate) struct Warning {
    pub(crate) kind: Kind,
    pub(crate) line: u64,
    pub(crate) offset: u64,
}
impl std::fmt::Display for Warning {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
#[derive(Clone, Copy)]
pub(crate) struct Kind;
impl Kind {
    pub(crate) fn name(self) -> &'static str {
        "x"
    }
}
pub(crate) trait L {
    fn version(&self) -> u32;
    fn warnings(&self) -> &[Warning];
    fn new_id(&self, _old: &str) -> Option<&str>;
}
impl L for Legacy {
    fn version(&self) -> u32 {
        3
    }
    fn warnings(&self) -> &[Warning] {
        &[]
    }
    fn new_id(&self, _old: &str) -> Option<&str> {
        None
    }
}
#[derive(Default)]
pub(crate) struct ImportOptions {
    pub(crate) strict: bool,
    pub(crate) salvage: bool,
    pub(crate) id: Option<String>,
    pub(crate) progress: (),
}
pub(crate) struct Import {
    pub(crate) session: Session,
    pub(crate) added: bool,
    pub(crate) warnings: Vec<Warning>,
}
pub(crate) fn import_file(
    _path: &Path,
    _r: &Repository,
    _options: &ImportOptions,
    _ctx: &Context,
) -> Result<Import> {
    Err(Error::new(ErrorKind::NotASession, "not there yet"))
}
