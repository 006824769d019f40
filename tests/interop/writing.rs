//! Every kind of write, by either program, read by the other.

use pisession::{Address, ErrorKind, Json, NewEntry, NewUsage, SessionReader as _, Write};
use serde_json::{Value, json};

use crate::commits::{self, commit};
use crate::peer::peer;
use crate::place::{CWD, EPOCH, Place, ctx};

#[test]
fn the_same_commits_give_the_same_files() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let (ours, theirs) = (Place::new(), Place::new());
    let session = ours.create("same");
    peer.does("create", theirs.on("same", json!({"cwd": CWD, "now": EPOCH})));
    for (number, writes) in commits::all().into_iter().enumerate() {
        let now = EPOCH + 1000 * number as i64;
        ours.tell(now);
        let our_result = commit(&session, writes).unwrap_or_else(|error| panic!("{error:?}: {writes}"));
        let their_result = peer.does("commit", theirs.on("same", json!({"writes": writes, "now": now})));
        let stats: Value = our_result.stats.to_json().read().unwrap();
        let our_result = json!({
            "firstSeq": our_result.first_seq,
            "seqs": our_result.seqs,
            "timestamp": our_result.timestamp,
            "stats": stats,
        });
        assert_eq!(our_result, their_result, "{writes}");
    }
    session.close(&ctx()).unwrap();
    peer.does("close", theirs.on("same", json!({})));
    assert_same_files(&ours, &theirs, "same");
    ours.agree(peer, "same");
    theirs.agree(peer, "same");
}

#[test]
fn the_same_calls_give_the_same_files() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let (ours, theirs) = (Place::with_counting_ids(), Place::new());
    let text = |text: &str| Json::parse(text).unwrap();
    let session = ours.create("calls");
    let main = session.create_branch("main", None, &ctx()).unwrap();
    let first = main.append_message(&text(r#"{"role":"user","content":"hi"}"#), &ctx()).unwrap();
    main.append_custom_entry("note", Some(&text(r#"{"a":[1]}"#)), &ctx()).unwrap();
    main.append_custom_entry("bare", None, &ctx()).unwrap();
    let aside = session.create_branch("a side", Some(&first), &ctx()).unwrap();
    aside.append_message(&text(r#"{"role":"user","content":"other"}"#), &ctx()).unwrap();
    session.set_name(Some("a name"), &ctx()).unwrap();
    session.set_label(&first, Some("a label"), &ctx()).unwrap();
    session.set_label(&first, None, &ctx()).unwrap();
    session.set_name(None, &ctx()).unwrap();
    session.close(&ctx()).unwrap();

    for (op, more) in [
        ("create", json!({"cwd": CWD, "now": EPOCH, "ids": 1})),
        ("createBranch", json!({"name": "main"})),
        ("appendMessage", json!({"name": "main", "message": r#"{"role":"user","content":"hi"}"#})),
        ("appendCustom", json!({"name": "main", "customType": "note", "data": r#"{"a":[1]}"#})),
        ("appendCustom", json!({"name": "main", "customType": "bare"})),
        ("createBranch", json!({"name": "a side", "at": first})),
        ("appendMessage", json!({"name": "a side", "message": r#"{"role":"user","content":"other"}"#})),
        ("setName", json!({"text": "a name"})),
        ("setLabel", json!({"entry": first, "text": "a label"})),
        ("setLabel", json!({"entry": first})),
        ("setName", json!({})),
        ("close", json!({})),
    ] {
        peer.does(op, theirs.on("calls", more));
    }
    assert_same_files(&ours, &theirs, "calls");
    ours.agree(peer, "calls");
}

/// Every commit after a fresh open, by the one and the other in turn: each kind of write is read by the one
/// that did not make it, which goes on from there.
#[test]
fn the_two_take_turns_in_one_file() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let mut files = Vec::new();
    for we_begin in [true, false] {
        let place = Place::new();
        if we_begin {
            place.create("turns").close(&ctx()).unwrap();
        } else {
            peer.does("create", place.on("turns", json!({"cwd": CWD, "now": EPOCH})));
            peer.does("close", place.on("turns", json!({})));
        }
        for (number, writes) in commits::all().into_iter().enumerate() {
            let now = EPOCH + 1000 * number as i64;
            if (number % 2 == 0) == we_begin {
                place.tell(now);
                let session = place.open("turns");
                commit(&session, writes).unwrap_or_else(|error| panic!("{error:?}: {writes}"));
                session.close(&ctx()).unwrap();
            } else {
                peer.does("open", place.on("turns", json!({})));
                peer.does("commit", place.on("turns", json!({"writes": writes, "now": now})));
                peer.does("close", place.on("turns", json!({})));
            }
            place.agree(peer, "turns");
        }
        files.push(std::fs::read_to_string(place.file("turns")).unwrap());
    }
    assert_eq!(files[0], files[1]);
}

/// What only we write, since JavaScript re-encodes what it is given: it reads the same to both.
#[test]
fn payloads_in_other_spellings_read_the_same() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    let session = place.create("spellings");
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for (number, text) in [
        "9007199254740993",
        "-0",
        "1e400",
        "1E+2",
        "0.10",
        "123456789012345678901234567890",
        " { \"a\" : [ 1 , 2 ] } ",
        "{\n  \"a\": 1,\r\n  \"b\": \"\\n\"\n}",
        r#"{"a":1,"a":2,"\u0061":3}"#,
        r#"{"__proto__":{"a":1},"constructor":null,"toString":0}"#,
        r#""\u00e9\/\ud83d\ude00\ud800\u0000""#,
        r#"{"\ud800":1,"\udfff":2}"#,
        r#"{"10":1,"9":2,"b":3,"a":4}"#,
        &deep(512),
        &format!("\"{}\"", "é\u{2028}".repeat(500_000)),
    ]
    .into_iter()
    .enumerate()
    {
        let address = Address::new("odd", number.to_string()).unwrap();
        let value = Json::parse(text).unwrap();
        session.set_value(&address, &value, &ctx()).unwrap();
        session.append_list(&address, &value, &ctx()).unwrap();
        let entry = NewEntry::custom(format!("e-{number}"), None, "odd", Some(&value));
        session.mutate(|mutator, ctx| mutator.commit(&[Write::Entry(entry)], ctx), &ctx()).unwrap();
        place.agree(peer, "spellings");
    }
    session.close(&ctx()).unwrap();
    // Nothing of it was touched by the reference's writing.
    peer.does("open", place.on("spellings", json!({})));
    peer.does("setName", place.on("spellings", json!({"text": "theirs"})));
    peer.does("close", place.on("spellings", json!({})));
    place.agree(peer, "spellings");
    let session = place.open("spellings");
    let stored = session.get_value(&Address::new("odd", "0").unwrap(), &ctx()).unwrap().unwrap();
    assert_eq!(stored.value.as_str(), "9007199254740993");
}

/// Entries and usage rows as other programs may spell them: we refuse them, or both read them the same.
#[test]
fn odd_entries_and_rows_are_refused_or_read_the_same() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    let session = place.create("odd");
    let entries = [
        r#"{"\u0069d":"o-1","parentId":null,"type":"custom","customType":"x"}"#,
        r#"{"id":"first","id":"o-2","parentId":null,"type":"custom","customType":"x"}"#,
        r#"{"id":"o-3","parentId":"o-1","parentId":null,"type":"custom","customType":"x"}"#,
        r#"{"id":"o-4","parentId":null,"type":"custom","customType":"x","data":1,"data":2}"#,
        r#"{"id":"o-5","parentId":null,"type":"custom","customType":"y","customType":"x"}"#,
        r#"{"id":"o-6","parentId":null,"type":"message","type":"custom","customType":"x"}"#,
        r#"{"id":"o-7","parentId":null,"type":"custom","customType":"x","extra":{"a":1},"__proto__":{"b":2}}"#,
        r#"{"id":"o-8","parentId":null,"type":"custom","customType":"x","kind":"usage"}"#,
        r#"{"id":"o-9","parentId":null,"type":"custom","customType":"x","seq":7}"#,
        r#"{"id":"o-10","parentId":null,"type":"custom","customType":"x","timestamp":7}"#,
        r#"{"id":"o-11","parentId":null,"type":"custom","customType":"x","\u0073eq":7}"#,
        r#"{"id":"o-12","type":"custom","customType":"x"}"#,
        r#"{"id":"o-13","parentId":null,"type":"custom"}"#,
        r#"{"id":"o-14","parentId":null,"type":"message","customType":"x","message":{"role":"user","content":""}}"#,
        r#"{"id":"o-15","parentId":null,"type":"message","message":{"role":"user","content":""},"terminate":false}"#,
        r#"{"id":"o-16","parentId":null,"type":"message","message":{"role":"user","content":""},"terminate":null}"#,
        r#"{ "id" : "o-17" , "parentId" : null , "type" : "custom" , "customType" : "x" , "data" : [ 1 ] }"#,
        "{\n\"id\":\"o-18\",\n\"parentId\":null,\n\"type\":\"custom\",\n\"customType\":\"x\"}",
        r#"{"1":2,"id":"o-19","parentId":null,"type":"custom","customType":"x"}"#,
        r#"{"id":"o-20","parentId":"o-20","type":"custom","customType":"x"}"#,
        r#"{"id":"","parentId":null,"type":"custom","customType":"x"}"#,
        r#"{"id":"__proto__","parentId":null,"type":"custom","customType":"x"}"#,
    ];
    let usage = r#"{"input":1,"output":1,"cacheRead":1,"cacheWrite":1,"totalTokens":4,"cost":{"input":1,"output":1,"cacheRead":1,"cacheWrite":1,"total":4}}"#;
    let rows = [
        format!(r#"{{"usage":{usage},"id":"r-1"}}"#),
        format!(r#"{{"id":"r-2","usage":{usage},"extra":[],"kind":"entry"}}"#),
        format!(r#"{{"id":"r-3","usage":{usage},"seq":3}}"#),
        format!(
            r#"{{"id":"r-4","usage":{},"adjustment":false}}"#,
            usage.replace("\"input\":1", "\"input\":1.5")
        ),
        format!(r#"{{"id":"r-5","usage":{}}}"#, usage.replace("\"totalTokens\":4,", "")),
        format!(r#"{{"id":"r-6","usage":{}}}"#, usage.replace("\"output\":1,", "\"output\":-1,")),
        format!(
            r#"{{"id":"r-7","usage":{}}}"#,
            usage.replace("{\"input\":1", "{\"reasoning\":null,\"input\":1")
        ),
        format!(
            r#"{{"id":"r-8","usage":{}}}"#,
            usage.replace("{\"input\":1", "{\"cacheWrite1h\":2,\"input\":1e3")
        ),
        format!(r#"{{"id":"r-9","usage":{}}}"#, usage.replace("{\"input\":1", "{\"input\":9007199254740993")),
        format!(r#"{{"id":"r-10","usage":{}}}"#, usage.replace("{\"input\":1", "{\"input\":\"1\"")),
        r#"{"id":"r-11","usage":{"input":1}}"#.to_owned(),
        r#"{"id":"r-12"}"#.to_owned(),
        format!(r#"{{"id":"r-13","usage":{usage},"usage":{}}}"#, usage.replace("\"input\":1", "\"input\":2")),
        format!(r#"{{"id":"r-14","usage":{usage},"details":{{"n":1e400}},"entryId":null}}"#),
        format!(r#"{{"id":"o-1","usage":{usage}}}"#),
    ];
    let entries = entries.iter().map(|text| (*text, NewEntry::from_json(text).map(Write::Entry)));
    let rows = rows.iter().map(|text| (text.as_str(), NewUsage::from_json(text).map(Write::Usage)));
    let mut taken = 0;
    for (text, write) in entries.chain(rows) {
        let committed = write
            .and_then(|write| session.mutate(|mutator, ctx| mutator.commit(&[write], ctx), &ctx()).map(drop));
        match committed {
            Ok(()) => {
                println!("taken: {text}");
                taken += 1;
            }
            Err(error) => println!("refused as {:?}: {text}", error.kind()),
        }
        let agreed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| place.agree(peer, "odd")));
        assert!(agreed.is_ok(), "after {text}");
    }
    assert!(taken > 10, "{taken}");
}

/// Commits drawn at random, among them such as both must refuse: a parent that is not there, an id that is
/// taken. Both take the same ones, and the files are the same.
#[test]
fn drawn_commits_are_taken_and_refused_alike() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let (ours, theirs) = (Place::new(), Place::new());
    let session = ours.create("drawn");
    peer.does("create", theirs.on("drawn", json!({"cwd": CWD, "now": EPOCH})));
    let mut drawn = Drawn(20);
    let (mut taken, mut refused) = (0, 0);
    for number in 0..400 {
        let writes = drawn.commit();
        let now = EPOCH + number;
        ours.tell(now);
        let our_seqs = commit(&session, &writes).map(|result| json!(result.seqs));
        let their_seqs = peer
            .ask("commit", theirs.on("drawn", json!({"writes": writes, "now": now})))
            .map(|result| result["seqs"].clone());
        match (our_seqs, their_seqs) {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(ours, theirs, "{writes}");
                taken += 1;
            }
            (Err(error), Err(message)) => {
                let expected = match error.kind() {
                    ErrorKind::DuplicateId => "Duplicate",
                    ErrorKind::MissingParent => "Missing parent",
                    _ => panic!("{error:?}: {writes}"),
                };
                assert!(message.starts_with(expected), "{error:?}, {message}: {writes}");
                refused += 1;
            }
            (ours, theirs) => panic!("ours {ours:?}, the reference's {theirs:?}: {writes}"),
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
    session.close(&ctx()).unwrap();
    peer.does("close", theirs.on("drawn", json!({})));
    assert_same_files(&ours, &theirs, "drawn");
    ours.agree(peer, "drawn");
}

/// A sequence of numbers that is the same at every run.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Up to four writes over few ids and addresses, so that they meet.
    fn commit(&mut self) -> String {
        let writes: Vec<String> = (0..self.below(5)).map(|_| self.write()).collect();
        format!("[{}]", writes.join(","))
    }

    fn write(&mut self) -> String {
        let (id, key, number) = (self.below(300), self.below(6), self.below(1000));
        let address = format!(r#""namespace":"app","key":"{key}""#);
        match self.below(8) {
            0..=2 => {
                let parent = match self.below(300) {
                    root if root < 120 => "null".to_owned(),
                    parent => format!(r#""id-{parent}""#),
                };
                format!(
                    r#"{{"kind":"entry","entry":{{"id":"id-{id}","parentId":{parent},"type":"message","message":{{"role":"user","content":"{number}"}}}}}}"#
                )
            }
            3 => format!(
                r#"{{"kind":"usage","row":{{"id":"id-{id}","usage":{{"input":{number},"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":1,"cost":{{"input":{number}.5,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}}}}}}"#
            ),
            4 => format!(r#"{{"kind":"value","op":"set",{address},"value":{number}}}"#),
            5 => format!(r#"{{"kind":"value","op":"delete",{address}}}"#),
            6 => format!(r#"{{"kind":"list","op":"append",{address},"value":[{number}]}}"#),
            _ => format!(r#"{{"kind":"list","op":"delete",{address}}}"#),
        }
    }
}

/// The members that say where an entry stands come first with us; the payload's stand as given.
#[test]
fn named_difference_of_the_order_of_an_entrys_members() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let (ours, theirs) = (Place::new(), Place::new());
    let entry = r#""type":"message","message":{"role":"user"},"terminate":true,"parentId":null,"id":"e""#;
    let writes = format!(r#"[{{"kind":"entry","entry":{{{entry}}}}}]"#);
    let session = ours.create("order");
    commit(&session, &writes).unwrap();
    session.close(&ctx()).unwrap();
    peer.does("create", theirs.on("order", json!({"cwd": CWD, "now": EPOCH})));
    peer.does("commit", theirs.on("order", json!({"writes": writes})));
    peer.does("close", theirs.on("order", json!({})));
    let line = |place: &Place| {
        std::fs::read_to_string(place.file("order")).unwrap().lines().nth(1).unwrap().to_owned()
    };
    let end = format!(r#","seq":1,"timestamp":{EPOCH}}}"#);
    assert_eq!(line(&theirs), format!(r#"{{"kind":"entry",{entry}{end}"#));
    let entry = r#""id":"e","parentId":null,"type":"message","message":{"role":"user"},"terminate":true"#;
    assert_eq!(line(&ours), format!(r#"{{"kind":"entry",{entry}{end}"#));
    ours.agree(peer, "order");
    theirs.agree(peer, "order");
}

#[test]
fn a_file_that_we_compacted_is_gone_on_with() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    let session = place.create("compact");
    for writes in commits::all() {
        commit(&session, writes).unwrap();
    }
    let last = Address::new("app", "last").unwrap();
    for number in 0..100 {
        session.set_value(&last, &Json::of(&number).unwrap(), &ctx()).unwrap();
    }
    // The highest seq is that of a value which is gone: the header alone says which is next.
    session.delete_value(&last, &ctx()).unwrap();
    let next = session.next_seq(&ctx()).unwrap();
    let compaction = session.compact(&ctx()).unwrap();
    assert!(compaction.after < compaction.before, "{compaction:?}");
    place.agree(peer, "compact");
    session.close(&ctx()).unwrap();

    peer.does("open", place.on("compact", json!({})));
    let writes = r#"[{"kind":"value","op":"set","namespace":"app","key":"theirs","value":1}]"#;
    let result = peer.does("commit", place.on("compact", json!({"writes": writes, "now": EPOCH})));
    assert_eq!(result["firstSeq"], next);
    peer.does("close", place.on("compact", json!({})));
    place.agree(peer, "compact");

    let session = place.open("compact");
    session.compact(&ctx()).unwrap();
    commit(&session, r#"[{"kind":"list","op":"append","namespace":"app","key":"ours","value":1}]"#).unwrap();
    session.close(&ctx()).unwrap();
    place.agree(peer, "compact");
}

fn assert_same_files(ours: &Place, theirs: &Place, id: &str) {
    let (our_file, their_file) = (ours.file(id), theirs.file(id));
    assert_eq!(our_file.strip_prefix(ours.root()), their_file.strip_prefix(theirs.root()));
    let read = |path| std::fs::read_to_string(path).unwrap();
    for (line, (ours, theirs)) in read(&our_file).split('\n').zip(read(&their_file).split('\n')).enumerate() {
        assert_eq!(ours, theirs, "line {}", line + 1);
    }
    assert_eq!(std::fs::read(our_file).unwrap(), std::fs::read(their_file).unwrap());
}
