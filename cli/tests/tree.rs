//! How a tree is drawn: long runs on one level, divergences indented, lines that fit.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod support;

use unicode_width::UnicodeWidthStr as _;

use support::{Place, command, pisession, run, user};

#[test]
fn a_chain_of_100_000_entries_is_as_many_lines_on_one_level() {
    let place = Place::new();
    let out = pisession(&["tree", &place.chain(100_000)]).fine();
    assert_eq!(out.lines().count(), 100_000);
    assert!(out.lines().enumerate().all(|(number, line)| line.starts_with(&format!("{number:08x} user"))));
    assert!(out.lines().next_back().unwrap().contains("[main] message 99999"));
}

#[test]
fn branches_that_were_left_stand_indented_before_the_one_that_goes_on() {
    let place = Place::new();
    let (session, name) = place.session("s");
    place.insert(
        &session,
        &[
            ("a", None, "A"),
            ("b", Some("a"), "B"),
            ("c", Some("b"), "C"),
            ("d", Some("a"), "D"),
            ("e", None, "E"),
        ],
    );
    session.create_branch("side", Some("c"), &place.ctx).unwrap();
    session.create_branch("other", Some("d"), &place.ctx).unwrap();
    session.set_label("b", Some("here"), &place.ctx).unwrap();
    let out = pisession(&["tree", &name]).fine();
    let lines: Vec<String> =
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, ["a user A", "├─d user [other] D", "b user #here B", "c user [side] C", "e user E"]);
}

#[test]
fn a_line_fits_whatever_the_text() {
    let place = Place::new();
    let (session, name) = place.session("s");
    let texts = [
        "x".repeat(5_000_000),
        "wide 漢字 ".repeat(100_000),
        "\n\t lines \r\n".repeat(100_000),
        format!("a{}", "\u{301}".repeat(100_000)),
    ];
    for text in &texts {
        place.append(&session, &[&user(text)]);
    }
    for columns in [40_usize, 80, 200] {
        let out = run(command(&["tree", &name]).env("COLUMNS", columns.to_string())).fine();
        assert_eq!(out.lines().count(), texts.len());
        for line in out.lines() {
            assert!(line.width() <= columns && line.len() < 1000, "{columns}: {line}");
        }
    }
}

#[test]
fn ids_are_cut_to_an_end_that_tells_them_apart_and_show_takes_it() {
    let place = Place::new();
    let (session, name) = place.session("s");
    place.append(&session, &vec![user("x").as_str(); 50]);
    let out = pisession(&["tree", &name]).fine();
    let mut ends: Vec<&str> = out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert!(ends.iter().all(|end| end.len() < 24), "{ends:?}");
    assert_eq!(pisession(&["show", &name, ends[7]]).code, 0);
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), 50);
}

#[test]
fn an_empty_session_is_an_empty_tree() {
    let place = Place::new();
    let (_session, name) = place.session("s");
    assert_eq!(pisession(&["tree", &name]).fine(), "");
    assert_eq!(pisession(&["tree", &name, "--json"]).json()["entries"], serde_json::json!([]));
}
