//! What a crash of either program leaves, opened by the other.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pisession::SessionReader as _;
use serde_json::json;

use crate::commits::commit;
use crate::peer::{Peer, peer};
use crate::place::{EPOCH, Place, ctx, dump};

const BRANCH: &str = r#"[{"kind":"value","op":"set","namespace":"pi.branch.tip","key":"main","value":null}]"#;
const NEXT: &str = r#"[{"kind":"value","op":"set","namespace":"app","key":"after","value":1}]"#;

/// Which writes a file of these tests begins with.
fn first_commits() -> [&'static str; 2] {
    [
        BRANCH,
        concat!(
            r#"[{"kind":"entry","entry":{"id":"é","parentId":null,"type":"message","message":"#,
            r#"{"role":"user","content":"𝄞"}}},"#,
            r#"{"kind":"value","op":"set","namespace":"pi.branch.tip","key":"main","value":"é"}]"#,
        ),
    ]
}

/// Wherever the last line breaks off both have what was before it, and write the same bytes next.
#[test]
fn a_last_line_cut_at_every_byte_reads_the_same() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    let session = place.create("torn");
    for writes in first_commits() {
        commit(&session, writes).unwrap();
    }
    session.close(&ctx()).unwrap();
    let path = place.file("torn");
    let whole = std::fs::read(&path).unwrap();
    let name = path.strip_prefix(place.root()).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    // The whole line without its line end is the named difference below.
    for cut in (last..whole.len() - 1).chain([whole.len()]) {
        let (ours, theirs) = (torn_copy(name, &whole[..cut]), torn_copy(name, &whole[..cut]));
        let ours_reads = dump(&ours.repository.open_read_only("torn", &ctx()).unwrap());
        peer.does("open", theirs.on("torn", json!({})));
        peer.does("compare", theirs.on("torn", json!({"text": ours_reads})));
        peer.does("commit", theirs.on("torn", json!({"writes": NEXT, "now": EPOCH})));
        peer.does("close", theirs.on("torn", json!({})));
        let session = ours.open("torn");
        commit(&session, NEXT).unwrap();
        session.close(&ctx()).unwrap();
        let read = |place: &Place| std::fs::read_to_string(place.root().join(name)).unwrap();
        assert_eq!(read(&ours), read(&theirs), "cut at {cut}");
    }
}

/// A last line that is whole but for its line end counts with us: the commit was made. The reference drops
/// it, and takes it out of the file.
#[test]
fn named_difference_of_a_last_line_without_its_line_end() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    let session = place.create("torn");
    for writes in first_commits() {
        commit(&session, writes).unwrap();
    }
    session.close(&ctx()).unwrap();
    let path = place.file("torn");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();

    let session = place.open("torn");
    commit(&session, NEXT).unwrap();
    session.close(&ctx()).unwrap();
    assert!(std::fs::read(&path).unwrap().starts_with(&whole), "the commit is kept, its line end written");
    place.agree(peer, "torn");

    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    peer.does("open", place.on("torn", json!({})));
    peer.does("close", place.on("torn", json!({})));
    assert!(std::fs::read(&path).unwrap().len() < whole.len() - 1);
    place.agree(peer, "torn");
}

#[test]
fn what_a_killed_reference_left_is_gone_on_with() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    place.create("killed").close(&ctx()).unwrap();
    kill_until_torn(&place, || {
        let mut killed = Peer::start().unwrap();
        killed.does("open", place.on("killed", json!({})));
        killed.does("commit", place.on("killed", json!({"writes": NEXT, "now": EPOCH})));
        let before = size(&place.file("killed"));
        killed.send("commit", place.on("killed", json!({"writes": large(8 << 20), "now": EPOCH})));
        wait_until_larger(&place.file("killed"), before);
        killed.kill();
        before
    });
    place.agree(peer, "killed");
    let session = place.open("killed");
    commit(&session, NEXT).unwrap();
    session.close(&ctx()).unwrap();
    place.agree(peer, "killed");
}

#[test]
fn what_our_killed_process_left_is_gone_on_with() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    place.create("killed").close(&ctx()).unwrap();
    kill_until_torn(&place, || {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["crashes::the_killed_writer", "--exact", "--nocapture"])
            .env(WRITER, place.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = Vec::new();
        let mut out = writer.stdout.take().unwrap();
        while !said.ends_with(b"@committed") {
            let mut byte = [0];
            assert_eq!(out.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
            said.push(byte[0]);
        }
        let before = size(&place.file("killed"));
        writer.stdin.take().unwrap().write_all(b"go").unwrap();
        wait_until_larger(&place.file("killed"), before);
        writer.kill().unwrap();
        writer.wait().unwrap();
        before
    });
    place.agree(peer, "killed");
    peer.does("open", place.on("killed", json!({})));
    peer.does("commit", place.on("killed", json!({"writes": NEXT, "now": EPOCH})));
    peer.does("close", place.on("killed", json!({})));
    place.agree(peer, "killed");
}

/// An operation that died with its process stays to be gone on with while we work on the session.
#[test]
fn an_operation_of_a_killed_harness_outlives_our_writes() {
    let Some(mut peer) = peer() else { return };
    let peer = peer.as_mut().unwrap();
    let place = Place::new();
    place.create("tool").close(&ctx()).unwrap();
    let mut killed = Peer::start().unwrap();
    killed.does("hang", place.on("tool", json!({"prompt": "use the tool", "now": EPOCH})));
    killed.kill();
    place.agree(peer, "tool");
    let open = peer.does("unfinished", place.on("tool", json!({})));
    assert_eq!(open[0]["lane"], "main", "{open}");

    let session = place.open("tool");
    let main = session.branch("main", &ctx()).unwrap().unwrap();
    assert_eq!(main.find_entries(&Default::default(), &ctx()).unwrap().len(), 2);
    session.set_name(Some("a name"), &ctx()).unwrap();
    let aside = session.create_branch("aside", main.tip_id(&ctx()).unwrap().as_deref(), &ctx()).unwrap();
    aside.append_custom_entry("note", None, &ctx()).unwrap();
    session.compact(&ctx()).unwrap();
    session.close(&ctx()).unwrap();
    place.agree(peer, "tool");
    assert_eq!(peer.does("unfinished", place.on("tool", json!({}))), open);
}

const WRITER: &str = "PISESSION_TEST_WRITER";

/// The process that is killed; nothing in the test run itself.
#[test]
fn the_killed_writer() {
    let Some(root) = std::env::var_os(WRITER) else { return };
    let root = Path::new(&root).display();
    let repository = pisession::open_repository(&format!("jsonl:{root}"), Default::default()).unwrap();
    let session = repository.open("killed", &ctx()).unwrap();
    commit(&session, NEXT).unwrap();
    let large = large(64 << 20);
    print!("@committed");
    std::io::stdout().flush().unwrap();
    // Not killed before it was told to go on: the file's size is looked at meanwhile.
    std::io::stdin().read_exact(&mut [0; 2]).unwrap();
    loop {
        commit(&session, &large).unwrap();
    }
}

/// Kills writers until one leaves half a line. `kill` gives the size of the file up to which it is
/// acknowledged.
fn kill_until_torn(place: &Place, mut kill: impl FnMut() -> u64) {
    for _ in 0..50 {
        let acknowledged = kill();
        let file = std::fs::read(place.file("killed")).unwrap();
        let session = place.repository.open_read_only("killed", &ctx()).unwrap();
        let after = pisession::Address::new("app", "after").unwrap();
        assert!(session.get_value(&after, &ctx()).unwrap().is_some());
        assert!(file.len() as u64 > acknowledged);
        if !file.ends_with(b"\n") {
            return;
        }
        session.close(&ctx()).unwrap();
        // Small again.
        let session = place.open("killed");
        session.compact(&ctx()).unwrap();
        session.close(&ctx()).unwrap();
    }
    panic!("no kill left half a line");
}

fn wait_until_larger(path: &Path, size_before: u64) {
    let end = Instant::now() + Duration::from_secs(30);
    while size(path) <= size_before {
        assert!(Instant::now() < end, "nothing was written");
        std::thread::yield_now();
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

fn large(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!(r#"[{{"kind":"value","op":"set","namespace":"app","key":"large","value":"{text}"}}]"#)
}

/// A folder with this file in it alone.
fn torn_copy(name: &Path, bytes: &[u8]) -> Place {
    let place = Place::new();
    let path = place.root().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    place
}
