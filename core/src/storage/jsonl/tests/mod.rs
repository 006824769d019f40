//! The backend by itself: files that another implementation wrote, damaged ones among them, what is in memory and
//! in the file after each step, and readers beside writers.

mod following;

use std::path::PathBuf;

use super::*;
use crate::model::entry::NewEntry;
use crate::model::id::SystemClock;
use crate::model::json::MAX_PAYLOAD;

fn shared(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PISESSION_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let path = root.join(folder);
    if !path.exists() {
        eprintln!("\nSKIPPED: {} is not there; set PISESSION_SHARED\n", path.display());
        return None;
    }
    Some(path)
}

fn options(mode: OpenMode) -> JsonlOptions {
    JsonlOptions {
        mode,
        durability: Durability::Process,
        clock: Arc::new(SystemClock),
        max_payload: MAX_PAYLOAD,
        salvage: false,
        compact_on_close: true,
    }
}

/// Files of which the reference says otherwise than we do, or whose error kind is not `Corrupt`.
fn expected(number: &str) -> Option<ErrorKind> {
    match number {
        "46" | "47" | "48" | "a5" => Some(ErrorKind::NotASession),
        "a0" | "a1" => Some(ErrorKind::UnsupportedVersion),
        "50" | "51" | "52" | "53" | "54" | "57" | "58" | "60" | "61" | "62" | "64" | "65" | "66" | "70"
        | "71" | "72" | "73" | "80" | "81" | "82" | "83" | "84" | "85" | "86" | "87" | "88" | "89" | "90"
        | "95" | "96" | "97" | "98" | "a2" | "a3" | "a4" | "a8" => Some(ErrorKind::Corrupt),
        // A key that holds a lone surrogate.
        "14" => Some(ErrorKind::Corrupt),
        _ => None,
    }
}

#[test]
fn every_golden_file_opens_or_is_refused_as_judged_and_keeps_its_bytes() {
    let Some(folder) = shared("golden/v4") else { return };
    let mut seen = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".jsonl") || name.ends_with(".after-open.jsonl") {
            continue;
        }
        let before = fs::read(&path).unwrap();
        let opened = JsonlStorage::open(&path, options(OpenMode::ReadOnly));
        let kind = opened.as_ref().err().map(Error::kind);
        assert_eq!(kind, expected(&name[..2]), "{name}: {opened:?}");
        assert_eq!(fs::read(&path).unwrap(), before, "{name}");
        seen += 1;
    }
    assert!(seen > 70);
}

#[test]
fn torn_tails_are_dropped_or_kept_as_judged() {
    let Some(folder) = shared("golden/v4") else { return };
    let ctx = Context::background();
    let temporary = tempfile::tempdir().unwrap();
    for name in [
        "40-torn-mid-json",
        "41-torn-mid-utf8",
        "42-torn-no-newline",
        "43-torn-array-open",
        "44-torn-first-record",
        "45-torn-header",
        "49-torn-nul-bytes",
    ] {
        let before = fs::read(folder.join(format!("{name}.jsonl"))).unwrap();
        let path = temporary.path().join(name);
        fs::write(&path, &before).unwrap();
        let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before, "{name}: opening changes nothing");
        let next = storage.next_seq(&ctx).unwrap();
        storage.commit(&[Write::SetValue(Address::new("a", "b").unwrap(), Json::null())], &ctx).unwrap();
        let after = fs::read(&path).unwrap();
        // Everything but the torn tail is there, and what counted is complete.
        let whole = match name {
            "42-torn-no-newline" | "45-torn-header" => before.len(),
            _ => before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1),
        };
        assert_eq!(after[..whole], before[..whole], "{name}");
        let line = format!(
            "{{\"kind\":\"value\",\"op\":\"set\",\"seq\":{next},\"namespace\":\"a\",\"key\":\"b\",\"value\":null}}\n"
        );
        let glue = if whole == before.len() && before.last() != Some(&b'\n') { "\n" } else { "" };
        assert_eq!(String::from_utf8_lossy(&after[whole..]), format!("{glue}{line}"), "{name}");
        drop(storage);
        JsonlStorage::open(&path, options(OpenMode::ReadOnly)).unwrap();
    }
}

fn session(folder: &Path) -> PathBuf {
    let path = folder.join("s.jsonl");
    fs::write(&path, "{\"v\":4,\"kind\":\"header\",\"id\":\"s\",\"storageVersion\":1,\"createdAt\":1,\"cwd\":\"/\",\"future\":[1]}\n").unwrap();
    path
}

fn set(key: &str, value: &str) -> Write {
    Write::SetValue(Address::new("app", key).unwrap(), Json::parse(value).unwrap())
}

#[test]
fn a_reader_follows_the_writer_over_appends_and_compaction() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let writer = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    let reader = JsonlStorage::open(&path, options(OpenMode::ReadOnly)).unwrap();
    let address = Address::new("app", "n").unwrap();
    for number in 0..20 {
        writer.commit(&[set("n", &number.to_string()), set("other", "\"x\"")], &ctx).unwrap();
        let seen = reader.get_value(&address, &ctx).unwrap().unwrap();
        assert_eq!((seen.value.as_str(), seen.seq), (number.to_string().as_str(), number * 2 + 1));
        if number == 10 {
            let compaction = writer.compact(&ctx).unwrap();
            assert!(compaction.after < compaction.before, "{compaction:?}");
            assert_eq!(reader.next_seq(&ctx).unwrap(), writer.next_seq(&ctx).unwrap());
        }
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"nextSeq\":23,\"future\":[1]}\n"), "{text}");
}

#[test]
fn a_foreign_append_is_noticed_and_nothing_is_written() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    storage.commit(&[set("a", "1")], &ctx).unwrap();
    OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(
            b"{\"kind\":\"value\",\"op\":\"set\",\"seq\":7,\"namespace\":\"x\",\"key\":\"\",\"value\":1}\n",
        )
        .unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(storage.commit(&[set("a", "2")], &ctx).unwrap_err().kind(), ErrorKind::FileChanged);
    assert_eq!(fs::read(&path).unwrap(), before);
    fs::remove_file(&path).unwrap();
    assert_eq!(storage.commit(&[set("a", "2")], &ctx).unwrap_err().kind(), ErrorKind::UnknownSession);
    assert!(!path.exists());
}

#[test]
fn a_damaged_line_is_passed_over_by_salvage_and_named() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    for number in 0..3 {
        storage.commit(&[set(&format!("k{number}"), "1")], &ctx).unwrap();
    }
    drop(storage);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let damaged = format!("{}\n{}\n{}\n{}\n", lines[0], lines[1], "\0".repeat(300), lines[3]);
    fs::write(&path, &damaged).unwrap();
    let error = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap_err();
    let offset = (lines[0].len() + lines[1].len() + 2) as u64;
    assert_eq!((error.kind(), error.line(), error.offset()), (ErrorKind::Corrupt, Some(3), Some(offset)));
    let salvaged =
        JsonlStorage::open(&path, JsonlOptions { salvage: true, ..options(OpenMode::ReadOnly) }).unwrap();
    assert_eq!(salvaged.gaps().len(), 1);
    assert_eq!(
        (salvaged.gaps()[0].line, salvaged.gaps()[0].offset, salvaged.gaps()[0].length),
        (3, offset, 300)
    );
    assert_eq!(salvaged.scan_values("app", "", &ctx).unwrap().len(), 2);
    assert_eq!(salvaged.commit(&[set("a", "1")], &ctx).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
}

#[test]
fn nothing_is_taken_of_a_line_whose_last_record_is_wrong() {
    let entry = |id: &str, parent: &str, seq: u64| {
        format!(
            r#"{{"kind":"entry","id":"{id}","parentId":{parent},"type":"message","message":{{}},"seq":{seq},"timestamp":1}}"#
        )
    };
    let (first, second, third) = (
        "01a23299-cc3e-7d42-b855-3780e64a35f2",
        "01a23299-cc3e-7d42-b855-3780e64a35f3",
        "01a23299-cc3e-7d42-b855-3780e64a35f4",
    );
    let good = [entry(first, "null", 1), entry(second, &format!("\"{first}\""), 2)];
    let usage = |id: &str, seq: u64| {
        format!(
            r#"{{"kind":"usage","id":"{id}","usage":{{"input":1,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":1,"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}},"seq":{seq}}}"#
        )
    };
    let ctx = Context::background();
    for (wrong, reason) in [
        (entry(first, "null", 3), "was used before"),
        (entry(third, "\"none\"", 3), "does not exist"),
        (entry(third, &format!("\"{third}\""), 3), "does not exist"),
        (entry("", "null", 3), "must not be empty"),
        (entry(third, "null", 2), "does not come after 2"),
        (usage(first, 3), "was used before"),
        (format!("{},{}", usage("u", 3), entry("u", "null", 4)), "was used before"),
        (format!("{},{}", usage(third, 3), usage(third, 4)), "was used before"),
        (format!("{},{}", usage(third, 3), entry("e", &format!("\"{third}\""), 4)), "does not exist"),
    ] {
        let temporary = tempfile::tempdir().unwrap();
        let path = session(temporary.path());
        let header = fs::read_to_string(&path).unwrap();
        let damaged = format!("[{},{wrong}]", good.join(","));
        // The line behind it uses the ids and numbers again.
        fs::write(&path, format!("{header}{damaged}\n[{}]\n", good.join(","))).unwrap();
        let salvaged =
            JsonlStorage::open(&path, JsonlOptions { salvage: true, ..options(OpenMode::ReadOnly) }).unwrap();
        assert_eq!(salvaged.gaps().len(), 1, "{:?}", salvaged.gaps());
        assert!(salvaged.gaps()[0].reason.contains(reason), "{}: {reason}", salvaged.gaps()[0].reason);
        let found = salvaged.scan_entries(&EntryScan::default(), &ctx).unwrap();
        let ids: Vec<&str> = found.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids, [first, second], "{wrong}");
        assert_eq!(salvaged.stats(&ctx).unwrap(), Stats { message_count: 2, ..Stats::default() });
    }
}

#[test]
fn closing_waits_for_a_read_as_long_as_it_may_and_can_be_done_again() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let metadata = SessionMetadata {
        id: "s".to_owned(),
        created_at: 0,
        storage_version: 1,
        cwd: Some("/".to_owned()),
        parent_session_id: None,
        legacy_parent_session_path: None,
        path: None,
    };
    fs::write(&path, header::Header::new(metadata).to_line()).unwrap();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    let reading = storage.read(&ctx).unwrap();
    let late = ctx.clone().with_timeout(std::time::Duration::from_millis(1));
    assert_eq!(storage.close(&late).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(storage.stats(&ctx).unwrap_err().kind(), ErrorKind::Closed);
    drop(reading);
    storage.close(&late).unwrap();
}

#[test]
fn compaction_leaves_one_line_for_each_thing_that_is_alive_and_nothing_else() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    let list = Address::new("app", "list").unwrap();
    let filler = format!("\"{}\"", "x".repeat(1_000));
    for round in 0..50 {
        let element = Json::parse(&filler).unwrap();
        storage.commit(&[set("kept", &filler), set(&format!("gone{round}"), &filler)], &ctx).unwrap();
        storage.commit(&[Write::AppendList(list.clone(), element.clone())], &ctx).unwrap();
        let gone = Address::new("app", format!("gone{round}")).unwrap();
        storage.commit(&[Write::DeleteValue(gone), Write::DeleteList(list.clone())], &ctx).unwrap();
    }
    let entries: Vec<Write> = (0..3)
        .map(|number| {
            let parent = (number > 0).then(|| format!("e{}", number - 1));
            let message = Json::parse("{\"role\":\"user\"}").unwrap();
            Write::Entry(NewEntry::message(format!("e{number}"), parent.as_deref(), &message))
        })
        .collect();
    storage.commit(&entries, &ctx).unwrap();
    let before = storage.next_seq(&ctx).unwrap();
    let compaction = storage.compact(&ctx).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!((compaction.after, text.lines().count()), (text.len() as u64, 1 + 1 + 3), "{text}");
    assert!(text.len() < 2_000 && compaction.before > 150_000, "{compaction:?}");
    // What is alive is as it was, there is nothing left to take away, and the numbers go on.
    let kept = Address::new("app", "kept").unwrap();
    assert_eq!(storage.get_value(&kept, &ctx).unwrap().unwrap().value.as_str(), filler);
    assert_eq!(storage.compact(&ctx).unwrap().after, compaction.after);
    drop(storage);
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    assert_eq!(storage.next_seq(&ctx).unwrap(), before);
    assert_eq!(storage.get_entries(&["e2", "e0"], &ctx).unwrap().len(), 2);
}

#[test]
fn entries_come_right_in_any_order_near_and_far_apart() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    // Short ones side by side, some longer than what is read in one step, and much between some.
    let lengths = [1, 10, 40_000, 1, 1, 100_000, 5, 2_000, 2_000, 33_000, 0, 7];
    let text = |number: usize| format!("{{\"n\":{number},\"text\":\"{}\"}}", "é".repeat(lengths[number]));
    for number in 0..lengths.len() {
        let entry = NewEntry::message(format!("e{number}"), None, &Json::parse(text(number)).unwrap());
        let between = set("between", &format!("\"{}\"", "x".repeat(number % 3 * 5_000)));
        storage.commit(&[Write::Entry(entry), between], &ctx).unwrap();
    }
    let ascending: Vec<usize> = (0..lengths.len()).collect();
    let descending = ascending.iter().rev().copied().collect();
    let mixed = vec![3, 3, 11, 0, 5, 4, 6, 1, 10, 2];
    for order in [ascending, descending, mixed] {
        let ids: Vec<String> = order.iter().map(|number| format!("e{number}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let found = storage.get_entries(&ids, &ctx).unwrap();
        for (number, entry) in order.iter().zip(&found) {
            assert_eq!(entry.message(), Some(text(*number).as_str()));
        }
        assert_eq!(found.len(), order.len());
    }
}

#[test]
fn a_short_value_is_the_newest_one_through_sets_deletes_and_failed_commits() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    let address = Address::new("app", "n").unwrap();
    let value = || storage.get_value(&address, &ctx).unwrap().map(|stored| stored.value.as_str().to_owned());
    let long = format!("\"{}\"", "x".repeat(500));
    storage.commit(&[set("n", "1"), set("n", "2")], &ctx).unwrap();
    assert_eq!(value().as_deref(), Some("2"));
    storage.commit(&[set("n", &long)], &ctx).unwrap();
    assert_eq!(value().as_deref(), Some(long.as_str()));
    storage.commit(&[set("n", "3")], &ctx).unwrap();
    storage.commit(&[set("n", "4"), Write::DeleteValue(address.clone())], &ctx).unwrap();
    assert_eq!(value(), None);
    storage.commit(&[set("n", "5")], &ctx).unwrap();
    storage.compact(&ctx).unwrap();
    assert_eq!(value().as_deref(), Some("5"));
    let refused = Write::SetValue(Address::new("pi.nobody", "").unwrap(), Json::null());
    storage.commit(&[set("n", "6"), refused], &ctx).unwrap_err();
    assert_eq!(value().as_deref(), Some("5"));
}

#[test]
fn no_short_value_is_kept_that_is_not_there() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    let long = format!("\"{}\"", "x".repeat(500));
    for number in 0..100 {
        let key = format!("operation{number}");
        storage.commit(&[set(&key, "1"), set("long", "1")], &ctx).unwrap();
        let gone = Write::DeleteValue(Address::new("app", &key).unwrap());
        storage.commit(&[gone, set("long", &long), set("kept", "1")], &ctx).unwrap();
    }
    assert_eq!(storage.lock().short_values.len(), 1);
}

#[test]
fn the_buffer_of_a_long_line_is_not_kept() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    let kept = || storage.committing.lock().unwrap().capacity();
    storage.commit(&[set("a", "1")], &ctx).unwrap();
    let short = kept();
    assert!((1..=KEPT_LINE).contains(&short));
    storage.commit(&[set("a", &format!("\"{}\"", "x".repeat(2 * KEPT_LINE)))], &ctx).unwrap();
    assert!(kept() <= KEPT_LINE);
    storage.commit(&[set("a", "2")], &ctx).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
}

#[test]
fn a_session_that_used_up_its_numbers_is_compacted_and_opens_again() {
    let ctx = Context::background();
    for is_last_alive in [true, false] {
        let temporary = tempfile::tempdir().unwrap();
        let path = session(temporary.path());
        let header = fs::read_to_string(&path).unwrap();
        fs::write(
            &path,
            header.replace(",\"future\"", &format!(",\"nextSeq\":{},\"future\"", commit::MAX_SEQ - 1)),
        )
        .unwrap();
        let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
        let last =
            if is_last_alive { set("b", "2") } else { Write::DeleteValue(Address::new("x", "").unwrap()) };
        storage.commit(&[set("a", "1"), last], &ctx).unwrap();
        storage.compact(&ctx).unwrap();
        assert_eq!(storage.commit(&[set("c", "1")], &ctx).unwrap_err().kind(), ErrorKind::TooLarge);
        drop(storage);
        let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
        assert_eq!(storage.scan_values("app", "", &ctx).unwrap().len(), 1 + usize::from(is_last_alive));
        let next = storage.next_seq(&ctx).unwrap();
        assert_eq!(next, commit::MAX_SEQ + u64::from(is_last_alive));
        let result = storage.commit(&[set("c", "1"), set("d", "1")], &ctx);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TooLarge);
    }
}

#[test]
fn lines_are_counted_as_the_file_has_them_after_a_compaction() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let ctx = Context::background();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    for number in 0..10 {
        storage.commit(&[set("n", &number.to_string()), set("m", "1")], &ctx).unwrap();
    }
    storage.compact(&ctx).unwrap();
    storage.commit(&[set("n", "1")], &ctx).unwrap();
    assert_eq!(storage.lock().state.lines, fs::read_to_string(&path).unwrap().lines().count() as u64);
}

#[test]
fn a_compacted_file_keeps_owner_and_permissions_and_is_never_open_to_more_people() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let other = temporary.path().join("other");
    // Only root may give a file away; anyone else keeps it.
    let is_given_away = chown(&path, Some(12_345), Some(12_346)).is_ok();
    for mode in [0o600, 0o640, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let before = fs::metadata(&path).unwrap();
        let begun = lines::Lines::create_in_place_of(&File::open(&path).unwrap(), &other).unwrap();
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, mode);
        drop(begun);
        let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
        storage.commit(&[set("a", "1")], &Context::background()).unwrap();
        storage.compact(&Context::background()).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
        assert!(!is_given_away || after.uid() == 12_345);
    }
}

#[test]
fn a_header_whose_id_is_none_is_corrupt() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let text = fs::read_to_string(&path).unwrap();
    for id in ["\"\"", "\"a\\u0000b\"", "\"\\ud800\"", "1"] {
        fs::write(&path, text.replace("\"s\"", id)).unwrap();
        let error = JsonlStorage::open(&path, options(OpenMode::ReadOnly)).unwrap_err();
        assert_eq!((error.kind(), error.line()), (ErrorKind::Corrupt, Some(1)), "{id}");
    }
}

#[test]
fn what_another_program_appends_during_a_compaction_is_not_lost() {
    let temporary = tempfile::tempdir().unwrap();
    let path = session(temporary.path());
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    storage.commit(&[set("a", "1")], &Context::background()).unwrap();
    let line = "{\"kind\":\"value\",\"op\":\"set\",\"seq\":7,\"namespace\":\"x\",\"key\":\"\",\"value\":1}\n";
    let appended_to = path.clone();
    // Asked while the new file is being written.
    let ctx = Context::background().with_interrupt(move || {
        OpenOptions::new().append(true).open(&appended_to).unwrap().write_all(line.as_bytes()).unwrap();
        false
    });
    let error = loop {
        if let Err(error) = storage.compact(&ctx) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::FileChanged);
    assert!(fs::read_to_string(&path).unwrap().ends_with(line));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "the new file is gone");
}

#[test]
fn fields_that_are_not_known_here_stay_through_compactions() {
    let ctx = Context::background();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    let lines = [
        r#"{"v":4,"kind":"header","id":"s","storageVersion":1,"createdAt":1,"cwd":"/","future":0}"#,
        r#"{"kind":"value","op":"set","seq":1,"namespace":"a","key":"dead","value":1,"future":1}"#,
        r#"{"kind":"value","op":"set","seq":2,"namespace":"a","key":"k","value":[ 1 ],"future":{"a":[2]}}"#,
        r#"{"seq":3,"value":{"x":"y"},"future":3,"kind":"list","op":"append","namespace":"a","key":"l"}"#,
        r#"{"kind":"entry","id":"e","parentId":null,"type":"custom","customType":"t","future":4,"seq":4,"timestamp":5}"#,
        r#"{"kind":"value","op":"set","seq":5,"namespace":"a","key":"plain","value":2}"#,
        r#"{"kind":"value","op":"delete","seq":6,"namespace":"a","key":"dead"}"#,
    ];
    fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).unwrap();
    let storage = JsonlStorage::open(&path, options(OpenMode::ReadWrite)).unwrap();
    for _ in 0..2 {
        storage.compact(&ctx).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let mut written = text.lines();
        assert!(written.next().unwrap().starts_with(r#"{"v":4,"kind":"header""#));
        assert_eq!(written.collect::<Vec<_>>(), [lines[2], lines[3], lines[4], lines[5]]);
        let read = |key: &str| storage.get_value(&Address::new("a", key).unwrap(), &ctx).unwrap().unwrap();
        assert_eq!(read("k").value.as_str(), "[ 1 ]");
        assert_eq!(read("plain").value.as_str(), "2");
        let elements =
            storage.read_list(&Address::new("a", "l").unwrap(), &ListRead::default(), &ctx).unwrap();
        assert_eq!(elements[0].value.as_str(), r#"{"x":"y"}"#);
    }
}
