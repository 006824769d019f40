//! The canonical text of a session: everything it holds as one JSON object, one line for each item, so that
//! two sessions can be compared with ordinary tools.
//!
//! It is written page by page: memory follows neither the number of items nor the length of a list.

use std::io::Write as Out;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::model::address::{self as addresses, reserved};
use crate::model::json::quote;
use crate::model::value::Address;
use crate::session::reader::SessionReader;
use crate::session::{EntryQuery, Session};
use crate::storage::query::{LIST_LIMIT, ListRead, Order, UsageScan};

/// How many addresses or rows are read at once.
const PAGE: usize = 256;

impl Session {
    /// Writes the canonical JSON of the session to `out`: `metadata` (without the path), `name`, `branches`
    /// (name to tip), `entries` by `seq`, `values` and `lists` by namespace and key (UTF-8 byte order), `usage`
    /// by `seq`, `stats`, `nextSeq`. Payloads are given as stored. One line for each item.
    ///
    /// Two sessions that hold the same give the same bytes, whatever keeps them. It is read in pages, each
    /// seeing the newest commit: to dump a session that others write to, begin a mutation around it.
    ///
    /// ```
    /// use pisession::{Context, open_repository};
    ///
    /// let ctx = Context::background();
    /// let session = open_repository("memory:", Default::default())?.create(&Default::default(), &ctx)?;
    /// session.create_branch("main", None, &ctx)?;
    /// let mut text = Vec::new();
    /// session.dump(&mut text, &ctx)?;
    /// assert!(String::from_utf8_lossy(&text).contains("\"branches\":{\n\"main\":null\n},"));
    /// # Ok::<(), pisession::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) or [`Full`](crate::ErrorKind::Full) if `out` fails; see [`SessionReader`].
    pub fn dump(&self, out: &mut dyn Out, ctx: &Context) -> Result<()> {
        let mut dump = Dump { session: self, out, ctx };
        dump.metadata()?;
        dump.branches()?;
        dump.entries()?;
        dump.values()?;
        dump.lists()?;
        dump.usage()?;
        let (stats, next_seq) = (self.stats(ctx)?, self.next_seq(ctx)?);
        dump.text(&format!("\"stats\":{},\n\"nextSeq\":{next_seq}\n}}\n", stats.to_json()))?;
        dump.out.flush().map_err(failed)
    }
}

struct Dump<'a> {
    session: &'a Session,
    out: &'a mut dyn Out,
    ctx: &'a Context,
}

impl Dump<'_> {
    fn metadata(&mut self) -> Result<()> {
        let metadata = self.session.metadata();
        let mut text = format!(
            "{{\n\"metadata\":{{\"id\":{},\"createdAt\":{},\"storageVersion\":{}",
            quote(&metadata.id),
            metadata.created_at,
            metadata.storage_version
        );
        for (field, value) in [
            ("cwd", &metadata.cwd),
            ("parentSessionId", &metadata.parent_session_id),
            ("legacyParentSessionPath", &metadata.legacy_parent_session_path),
        ] {
            if let Some(value) = value {
                text.push_str(&format!(",\"{field}\":{}", quote(value)));
            }
        }
        // The stored text and not the name it spells: a name may hold what no string here can.
        let name = self.session.get_value(addresses::session_name().address(), self.ctx)?;
        let name = name.as_ref().map_or("null", |stored| stored.value.as_str());
        text.push_str(&format!("}},\n\"name\":{name},\n"));
        self.text(&text)
    }

    fn branches(&mut self) -> Result<()> {
        self.text("\"branches\":{")?;
        let mut items = Items::default();
        let mut after = addresses::branch_tip_inventory_prefix();
        loop {
            let page = self.session.value_addresses(Some(&after), PAGE, self.ctx)?;
            let tips = page.iter().take_while(|address| address.namespace() == reserved::BRANCH_TIP);
            let mut last = None;
            for address in tips {
                if let Some(tip) = self.session.get_value(address, self.ctx)? {
                    self.item(&mut items, &format!("{}:{}", quote(address.key()), tip.value))?;
                }
                last = Some(address);
            }
            match last {
                Some(last) => after = last.clone(),
                None => return self.end(&items, "},\n"),
            }
        }
    }

    fn entries(&mut self) -> Result<()> {
        self.text("\"entries\":[")?;
        let mut items = Items::default();
        let all = EntryQuery { order: Order::Ascending, ..EntryQuery::default() };
        for entry in self.session.entries(&all, self.ctx) {
            self.item(&mut items, entry?.to_json().as_str())?;
        }
        self.end(&items, "],\n")
    }

    fn values(&mut self) -> Result<()> {
        self.text("\"values\":[")?;
        let mut items = Items::default();
        let mut after = None;
        loop {
            let page = self.session.value_addresses(after.as_ref(), PAGE, self.ctx)?;
            for address in &page {
                let Some(stored) = self.session.get_value(address, self.ctx)? else { continue };
                let place = place(address);
                self.item(
                    &mut items,
                    &format!("{{{place},\"seq\":{},\"value\":{}}}", stored.seq, stored.value),
                )?;
            }
            match page.into_iter().last() {
                Some(last) => after = Some(last),
                None => return self.end(&items, "],\n"),
            }
        }
    }

    fn lists(&mut self) -> Result<()> {
        self.text("\"lists\":[")?;
        let mut items = Items::default();
        let mut after = None;
        loop {
            let page = self.session.list_addresses(after.as_ref(), PAGE, self.ctx)?;
            for address in &page {
                self.item(&mut items, &format!("{{{},\"elements\":[", place(address)))?;
                self.elements(address)?;
            }
            match page.into_iter().last() {
                Some(last) => after = Some(last),
                None => return self.end(&items, "],\n"),
            }
        }
    }

    fn elements(&mut self, address: &Address) -> Result<()> {
        let mut items = Items::default();
        let mut read = ListRead { limit: LIST_LIMIT, ..ListRead::default() };
        loop {
            let page = self.session.read_list(address, &read, self.ctx)?;
            for element in &page {
                self.item(&mut items, &format!("{{\"seq\":{},\"value\":{}}}", element.seq, element.value))?;
            }
            match page.last() {
                Some(last) => read.cursor = Some(last.seq),
                None => return self.end(&items, "]}"),
            }
        }
    }

    fn usage(&mut self) -> Result<()> {
        self.text("\"usage\":[")?;
        let mut items = Items::default();
        let mut scan = UsageScan { limit: Some(PAGE as u64), ..UsageScan::default() };
        loop {
            let page = self.session.scan_usage(&scan, self.ctx)?;
            for row in &page {
                self.item(&mut items, row.to_json().as_str())?;
            }
            match page.last() {
                Some(last) => scan.from_seq = Some(last.seq + 1),
                None => return self.end(&items, "],\n"),
            }
        }
    }

    fn item(&mut self, items: &mut Items, text: &str) -> Result<()> {
        self.text(if items.any { ",\n" } else { "\n" })?;
        items.any = true;
        self.text(text)
    }

    fn end(&mut self, items: &Items, text: &str) -> Result<()> {
        if items.any {
            self.text("\n")?;
        }
        self.text(text)
    }

    fn text(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).map_err(failed)
    }
}

/// Whether a collection has had an item: the next one needs a comma.
#[derive(Debug, Default)]
struct Items {
    any: bool,
}

fn place(address: &Address) -> String {
    format!("\"namespace\":{},\"key\":{}", quote(address.namespace()), quote(address.key()))
}

fn failed(error: std::io::Error) -> Error {
    Error::io("cannot write the dump", error)
}
