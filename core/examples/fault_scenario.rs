//! Does to sessions what it is told, step by step, and says what came of each step: `tests/faults` drives it,
//! with a library between it and the system that fails calls, records them or kills it.
//!
//! ```text
//! fault_scenario power|process    reads steps from standard input, answers each with one line
//!
//! at URI           works on that repository from now on
//! create ID        makes a session and has it open
//! open ID          opens a session for writing
//! commit BYTES     one commit, of about so many bytes; every second one is a single write
//! compact, close, delete ID, import FILE ID
//! old FILE ID      puts a session file of version 1 to 3 among the files of JSON lines, under that id
//! upgrade ID       opens it for writing, which rewrites it
//! fork ID NEW      makes a session of all of another
//! export           writes the open session as a file of version 3, beside the repository
//! state            what the open session holds, as memory has it
//! states           the sessions that are there, and what each holds
//! survive ID       opens what a crash or a failure left, goes on with it, and says what it held
//! faults TEXT      steers the library in between: makes the folder `@TEXT`
//! ```
//!
//! An answer is `ok`, perhaps with a text, or `error KIND PATH MESSAGE`. What a session holds is said as
//! `COMMITS:HASH`, the hash being that of its dump. Ids and clock are such that equal commits give equal dumps.

use std::error::Error as StdError;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use pisession::{
    Address, CheckDepth, CheckOptions, Clock, Context, CreateOptions, Durability, Error, FindingKind,
    ForkOptions, ForkScope, ImportOptions, Json, LegacyPolicy, ListOptions, Mutator, NewEntry, NewUsage,
    OpenOptions, Repository, RepositoryOptions, Result, Session, SessionReader, Usage, Value, ValueList,
    Write, import_file, open_file, open_repository,
};

#[derive(Debug)]
struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> i64 {
        1_750_000_000_000
    }
}

/// What the steps work on.
struct Scenario {
    options: RepositoryOptions,
    repository: Repository,
    /// Where it is.
    place: PathBuf,
    session: Option<Session>,
    ctx: Context,
}

fn main() -> Result<(), Box<dyn StdError>> {
    let durability = match std::env::args().nth(1).as_deref() {
        Some("power") => Durability::Power,
        Some("process") => Durability::Process,
        _ => return Err("usage: fault_scenario power|process".into()),
    };
    let options =
        RepositoryOptions { durability, clock: Arc::new(StandingClock), ..RepositoryOptions::default() };
    let repository = open_repository("memory:", options.clone())?;
    let mut scenario =
        Scenario { options, repository, place: PathBuf::new(), session: None, ctx: Context::background() };
    let mut out = io::stdout();
    for step in io::stdin().lock().lines() {
        let step = step?;
        match scenario.step(&step) {
            Ok(text) => writeln!(out, "ok {text}")?,
            Err(error) => {
                let path = error.path().map_or_else(|| "-".to_owned(), |path| path.display().to_string());
                writeln!(out, "error {} {path} {error}", error.kind().name())?;
            }
        }
        out.flush()?;
    }
    Ok(())
}

impl Scenario {
    fn step(&mut self, step: &str) -> Result<String> {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let ctx = self.ctx.clone();
        match verb {
            "at" => {
                self.session = None;
                self.repository = open_repository(rest, self.options.clone())?;
                self.place = PathBuf::from(rest.split_once(':').map_or(rest, |(_, path)| path));
            }
            "create" => {
                self.session = None;
                let options = CreateOptions {
                    id: Some(rest.to_owned()),
                    cwd: Some("/work".to_owned()),
                    ..CreateOptions::default()
                };
                self.session = Some(self.repository.create(&options, &ctx)?);
            }
            "open" => {
                self.session = None;
                self.session = Some(self.repository.open(rest, &ctx)?);
            }
            "commit" => commit(self.open()?, rest.parse().unwrap_or(0), &ctx)?,
            "compact" => {
                self.open()?.compact(&ctx)?;
            }
            "close" => {
                if let Some(session) = self.session.take() {
                    session.close(&ctx)?;
                }
            }
            "delete" => self.repository.delete(rest, &ctx)?,
            "import" => {
                let (file, id) = rest.rsplit_once(' ').unwrap_or((rest, ""));
                let options = ImportOptions { id: Some(id.to_owned()), ..ImportOptions::default() };
                import_file(file, &self.repository, &options, &ctx)?;
            }
            "old" => self.put_old(rest)?,
            "upgrade" => {
                self.session = None;
                self.session = Some(self.upgraded(rest)?);
            }
            "fork" => {
                let (source, id) = rest.split_once(' ').unwrap_or((rest, ""));
                let options =
                    ForkOptions { scope: ForkScope::Tree, id: Some(id.to_owned()), ..ForkOptions::default() };
                self.session = None;
                self.session =
                    Some(self.repository.fork((&self.repository, source), &options, &ctx)?.session);
            }
            "export" => {
                self.open()?.export_to(self.exported(), &Default::default(), &ctx)?;
            }
            "state" => return self.state(self.open()?),
            "states" => return self.states(),
            "survive" => return self.survive(rest),
            "faults" => {
                let folder = PathBuf::from(std::env::var_os("FAULTS_FOLDER").unwrap_or_default());
                std::fs::create_dir(folder.join(format!("@{rest}")))
                    .map_err(|error| Error::io("cannot steer the faults", error))?;
            }
            _ => return Err(wrong(format!("'{step}' is no step"))),
        }
        Ok(String::new())
    }

    fn open(&self) -> Result<&Session> {
        self.session.as_ref().ok_or_else(|| wrong("no session is open"))
    }

    /// What the session holds, and what of it was exported.
    fn state(&self, session: &Session) -> Result<String> {
        let mut dump = Vec::new();
        session.dump(&mut dump, &self.ctx)?;
        let mut state = format!("{}:{:016x}", commits(session, &self.ctx)?, hash_of(&dump));
        let exported = self.exported();
        if exported.exists() {
            let options = OpenOptions { strict: true, ..OpenOptions::default() };
            open_file(&exported, &options, &self.ctx)?;
            let bytes = std::fs::read(&exported).map_err(|error| Error::io("cannot read", error))?;
            state.push_str(&format!(":{:016x}", hash_of(&bytes)));
        }
        Ok(state)
    }

    fn exported(&self) -> PathBuf {
        self.place.with_file_name("exported.jsonl")
    }

    fn put_old(&self, rest: &str) -> Result<()> {
        let (file, id) = rest.rsplit_once(' ').unwrap_or((rest, ""));
        let io = |error| Error::io("cannot put an old file there", error);
        let text = std::fs::read_to_string(file).map_err(io)?;
        let own = open_file(file, &OpenOptions::default(), &self.ctx)?.id().to_owned();
        let folder = self.place.join("--work--");
        std::fs::create_dir_all(&folder).map_err(io)?;
        std::fs::write(folder.join(format!("{id}.jsonl")), text.replacen(&own, id, 1)).map_err(io)
    }

    fn upgraded(&self, id: &str) -> Result<Session> {
        let options = OpenOptions { legacy: LegacyPolicy::Upgrade, ..OpenOptions::default() };
        self.repository.open_with(id, &options, &self.ctx)
    }

    /// `ID=STATE` of each session, `!KIND` where it cannot be read.
    fn states(&self) -> Result<String> {
        let mut states = Vec::new();
        for listed in self.repository.list(&ListOptions { details: true }, &self.ctx)? {
            states.push(match (listed.metadata, listed.problem) {
                (Some(metadata), None) => {
                    let session = self.repository.open_read_only(&metadata, &self.ctx)?;
                    format!("{}={}", metadata.id, self.state(&session)?)
                }
                (_, Some(problem)) => format!("!{problem:?}"),
                (None, None) => "!nothing".to_owned(),
            });
        }
        states.sort();
        Ok(states.join(" "))
    }

    /// What the session `id` held: read, opened for writing, checked and gone on with, it must hold the same.
    fn survive(&mut self, id: &str) -> Result<String> {
        let ctx = &self.ctx;
        self.session = None;
        let listed = self.states()?;
        if listed.contains('!') {
            return Err(wrong(format!("the listing names a problem: {listed}")));
        }
        if !listed.split(' ').any(|state| state.starts_with(&format!("{id}="))) {
            return Ok("absent".to_owned());
        }
        let reader = self.repository.open_read_only(id, ctx)?;
        let left = self.state(&reader)?;
        let session = if reader.legacy().is_some() {
            self.upgraded(id)?
        } else {
            let session = self.repository.open(id, ctx)?;
            same("opened for writing", &left, &self.state(&session)?)?;
            session
        };
        drop(reader);
        let full = CheckOptions { depth: CheckDepth::Full, ..Default::default() };
        let findings = session.check_with(&full, &mut |_| (), ctx)?;
        if let Some(finding) = findings.iter().find(|finding| finding.kind != FindingKind::TornTail) {
            return Err(wrong(format!("{}: {}", finding.kind.name(), finding.message)));
        }
        commit(&session, 100, ctx)?;
        let written = self.state(&session)?;
        session.close(ctx)?;
        let reader = self.repository.open_read_only(id, ctx)?;
        same("gone on with", &written, &self.state(&reader)?)?;
        Ok(left)
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(pisession::ErrorKind::InvalidArgument, what)
}

fn same(how: &str, before: &str, after: &str) -> Result<()> {
    if before == after { Ok(()) } else { Err(wrong(format!("{how} it holds {after}, not {before}"))) }
}

fn commits(reader: &impl SessionReader, ctx: &Context) -> Result<u64> {
    Ok(Value::<u64>::new("fault", "commits")?.get(reader, ctx)?.unwrap_or(0))
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The next commit. It leaves something dead behind, so that there is something to compact.
fn commit(session: &Session, bytes: usize, ctx: &Context) -> Result<()> {
    session.mutate(
        |mutator: &Mutator, ctx| {
            let number = commits(mutator, ctx)? + 1;
            let counted = Value::<u64>::new("fault", "commits")?.set(&number)?;
            let mut writes = vec![counted];
            if number.is_multiple_of(2) {
                let filler = Json::string(&format!("{number}").repeat(bytes));
                let draft = Address::new("fault", "draft")?;
                let id = |number: u64| format!("entry-{number}");
                let parent = number.checked_sub(2).filter(|parent| *parent > 0).map(id);
                writes.push(Write::Entry(NewEntry::custom(
                    id(number),
                    parent.as_deref(),
                    "fault",
                    Some(&filler),
                )));
                let tip = Value::<Option<String>>::new("pi.branch.tip", "main")?;
                writes.push(tip.set(&Some(id(number)))?);
                writes.push(Write::SetValue(draft, filler));
                writes.push(ValueList::<u64>::new("fault", "list")?.append(&number)?);
                let usage = Usage { input: 1.0, total_tokens: 1.0, ..Usage::default() };
                writes.push(Write::Usage(NewUsage::new(format!("usage-{number}"), &usage, None)));
            }
            mutator.commit(&writes, ctx).map(drop)
        },
        ctx,
    )
}
