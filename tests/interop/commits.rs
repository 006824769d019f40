//! Commits as both programs take them.

use pisession::{Address, CommitResult, Error, Json, NewEntry, NewUsage, Session, Write};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::place::ctx;

/// The commits of `commits.txt`: every kind of write.
pub(crate) fn all() -> Vec<&'static str> {
    include_str!("commits.txt").split('\n').filter(|line| line.starts_with('[')).collect()
}

/// Makes a commit from the text that the reference takes.
pub(crate) fn commit(session: &Session, writes: &str) -> Result<CommitResult, Error> {
    let writes: Vec<TheirWrite<'_>> =
        serde_json::from_str(writes).unwrap_or_else(|error| panic!("{error}: {writes}"));
    let writes = writes.iter().map(TheirWrite::ours).collect::<Result<Vec<Write>, Error>>()?;
    session.mutate(|mutator, ctx| mutator.commit(&writes, ctx), &ctx())
}

#[derive(Deserialize)]
struct TheirWrite<'a> {
    kind: &'a str,
    op: Option<&'a str>,
    namespace: Option<String>,
    key: Option<String>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    entry: Option<&'a RawValue>,
    #[serde(borrow)]
    row: Option<&'a RawValue>,
}

impl TheirWrite<'_> {
    fn ours(&self) -> Result<Write, Error> {
        // A member that is `null` reads as none.
        let value = || Json::parse(self.value.map_or("null", RawValue::get));
        let address = || Address::new(self.namespace.clone().unwrap(), self.key.clone().unwrap());
        Ok(match (self.kind, self.op) {
            ("entry", None) => Write::Entry(NewEntry::from_json(self.entry.unwrap().get())?),
            ("usage", None) => Write::Usage(NewUsage::from_json(self.row.unwrap().get())?),
            ("value", Some("set")) => Write::SetValue(address()?, value()?),
            ("value", Some("delete")) => Write::DeleteValue(address()?),
            ("list", Some("append")) => Write::AppendList(address()?, value()?),
            ("list", Some("delete")) => Write::DeleteList(address()?),
            other => panic!("unknown write {other:?}"),
        })
    }
}
