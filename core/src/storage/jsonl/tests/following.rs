//! Readers beside a writer, and beside programs that put other files in the place of a session's.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::storage::copy::{Plan, Record};

fn reader(path: &Path) -> JsonlStorage {
    JsonlStorage::open(path, options(OpenMode::ReadOnly)).unwrap()
}

fn writer(path: &Path) -> JsonlStorage {
    JsonlStorage::open(path, options(OpenMode::ReadWrite)).unwrap()
}

fn number(storage: &JsonlStorage) -> Result<Option<u64>> {
    let stored = storage.get_value(&Address::new("app", "n").unwrap(), &Context::background())?;
    Ok(stored.map(|stored| stored.value.as_str().parse().unwrap()))
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// The file of a session with that id and one entry, which is to take the place of another file.
fn other_file(folder: &Path, id: &str, entry: &str) -> PathBuf {
    let apart = tempfile::tempdir_in(folder).unwrap();
    let text = fs::read_to_string(session(apart.path())).unwrap();
    let other = folder.join("other");
    fs::write(&other, text.replace("\"id\":\"s\"", &format!("\"id\":\"{id}\""))).unwrap();
    let message = Json::parse(format!("{{\"role\":\"user\",\"of\":\"{entry}\"}}")).unwrap();
    let writes = [Write::Entry(NewEntry::message(entry, None, &message)), set("n", "5")];
    writer(&other).commit(&writes, &Context::background()).unwrap();
    other
}

#[test]
fn threads_of_one_reader_follow_a_writer_without_an_error_and_never_see_the_past_again() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let (writer, reader) = (writer(&path), reader(&path));
    let written = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                loop {
                    let at_least = written.load(Ordering::SeqCst);
                    let seen = number(&reader).unwrap().unwrap_or_default();
                    assert!(seen >= at_least, "{seen} is older than {at_least}");
                    if at_least == 3_000 {
                        break;
                    }
                }
            });
        }
        for number in 1..=3_000 {
            writer.commit(&[set("n", &number.to_string())], &Context::background()).unwrap();
            written.store(number, Ordering::SeqCst);
            if number % 1_000 == 0 {
                writer.compact(&Context::background()).unwrap();
            }
        }
    });
}

#[test]
fn a_reader_that_saw_a_torn_tail_sees_what_is_written_in_its_place_however_long_that_is() {
    let ctx = Context::background();
    let line =
        "{\"kind\":\"value\",\"op\":\"set\",\"seq\":2,\"namespace\":\"app\",\"key\":\"n\",\"value\":2}\n";
    let torn = line.replace("}\n", "");
    for length in [1, line.len() - 1, line.len(), line.len() + 1, 10 * line.len()] {
        let tail: String = torn.chars().chain(std::iter::repeat(' ')).take(length).collect();
        let temporary = tempfile::tempdir().unwrap();
        let path = session(temporary.path());
        writer(&path).commit(&[set("n", "1")], &ctx).unwrap();
        append(&path, tail.as_bytes());
        let reader = reader(&path);
        assert_eq!(number(&reader).unwrap(), Some(1));
        let writer = writer(&path);
        for number_set in 2..20 {
            writer.commit(&[set("n", &number_set.to_string())], &ctx).unwrap();
            assert_eq!(number(&reader).unwrap(), Some(number_set), "a tail of {length} bytes");
        }
        assert!(fs::read_to_string(&path).unwrap().contains(line));
    }
}

#[test]
fn a_reader_goes_on_only_with_a_later_state_of_its_session() {
    let ctx = Context::background();
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let reader = reader(&path);
    let older = fs::read(&path).unwrap();
    // One without entries may become any.
    fs::rename(other_file(temporary.path(), "s", "e"), &path).unwrap();
    assert_eq!(number(&reader).unwrap(), Some(5));
    assert_eq!(reader.get_entries(&["e"], &ctx).unwrap().len(), 1);
    let replaced_by = |other: PathBuf| {
        fs::rename(other, &path).unwrap();
        for _ in 0..2 {
            assert_eq!(number(&reader).unwrap_err().kind(), ErrorKind::FileChanged);
        }
    };
    replaced_by(other_file(temporary.path(), "another", "e"));
    replaced_by(other_file(temporary.path(), "s", "f"));
    let backup = temporary.path().join("backup");
    fs::write(&backup, older).unwrap();
    replaced_by(backup);
    assert_eq!(reader.metadata().id, "s");
    fs::rename(other_file(temporary.path(), "s", "e"), &path).unwrap();
    assert_eq!(number(&reader).unwrap(), Some(5));
}

/// Takes a copy; what its source meets once the copy was begun is told by `meanwhile`.
struct Copied<F> {
    meanwhile: F,
    records: Vec<Record>,
}

impl<F: FnMut()> Sink for Copied<F> {
    fn start(&mut self, _next_seq: u64, _ctx: &Context) -> Result<()> {
        (self.meanwhile)();
        Ok(())
    }

    fn put(&mut self, record: Record, _ctx: &Context) -> Result<()> {
        self.records.push(record);
        Ok(())
    }
}

#[test]
fn a_copy_is_of_one_file_whatever_takes_its_place_meanwhile() {
    let ctx = Context::background();
    for is_compaction in [false, true] {
        let temporary = tempfile::tempdir().unwrap();
        let path = session(temporary.path());
        fs::rename(other_file(temporary.path(), "s", "first"), &path).unwrap();
        let reader = reader(&path);
        let meanwhile = || {
            if is_compaction {
                writer(&path).compact(&ctx).unwrap();
            } else {
                fs::rename(other_file(temporary.path(), "s", "second"), &path).unwrap();
            }
            let seen = number(&reader).map_err(|error| error.kind());
            assert_eq!(seen, if is_compaction { Ok(Some(5)) } else { Err(ErrorKind::FileChanged) });
        };
        let mut into = Copied { meanwhile, records: Vec::new() };
        let copied = reader.copy(&mut |view| Plan::whole(view), &mut into, &ctx);
        copied.unwrap();
        let Write::Entry(entry) = &into.records[0].write else { panic!("{:?}", into.records) };
        assert_eq!((entry.id.as_str(), entry.payload.as_str().contains("first")), ("first", true));
        assert_eq!(into.records.len(), 2);
    }
}

#[test]
fn a_file_is_read_as_far_as_it_was_when_it_was_looked_at() {
    // Of a file that grows faster than it is read a reader would see no end.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let header =
        "{\"v\":4,\"kind\":\"header\",\"id\":\"s\",\"storageVersion\":1,\"createdAt\":1,\"cwd\":\"/\"}\n";
    let line = |seq: u64| {
        format!(
            "{{\"kind\":\"value\",\"op\":\"set\",\"seq\":{seq},\"namespace\":\"a\",\"key\":\"\",\"value\":1}}\n"
        )
    };
    let whole = format!("{header}{}{}{}", line(1), line(2), line(3));
    fs::write(&path, &whole).unwrap();
    let file = File::open(&path).unwrap();
    for size in header.len()..=whole.len() {
        let mut state = State::read(&file, size as u64, &mut Damaged::Refuse).unwrap();
        let seen = whole[header.len()..size].matches("}\n").count() as u64;
        // A line that is whole but for its end counts.
        let seen = seen + u64::from(whole[..size].ends_with('}'));
        assert_eq!(state.next_seq, 1 + seen, "{size}");
        state.read_more(&file, whole.len() as u64).unwrap();
        assert_eq!((state.next_seq, state.end), (4, whole.len() as u64), "{size}");
    }
}
