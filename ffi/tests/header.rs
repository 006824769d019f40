//! `include/pisession.h` is what the pinned cbindgen makes of the sources, section by section.
//!
//! With `PISESSION_WRITE_HEADER=1` the header, and the list of its functions in `symbols.txt`, are written in
//! place of being compared.

#![allow(clippy::unwrap_used, clippy::panic)] // the helpers are tests too

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cbindgen::{Builder, Config, DocumentationLength, DocumentationStyle, ItemType, Language, Style};
use pisession::ErrorKind;

use common::{header_functions, manifest};

/// The sections of the header, in the order that each can use what stands before it.
const SECTIONS: [&str; 23] = [
    "version",
    "error",
    "buf",
    "context",
    "repository",
    "session",
    "legacy",
    "file",
    "forks",
    "value",
    "address",
    "entries",
    "nodes",
    "branch",
    "usage",
    "writes",
    "mutation",
    "query",
    "export",
    "check",
    "care",
    "log",
    "debug",
];

#[test]
fn the_committed_header_is_what_the_sources_say() {
    compare(&manifest().join("../include/pisession.h"), &header());
}

#[test]
fn the_committed_list_of_symbols_is_that_of_the_header() {
    let mut functions = header_functions(&header());
    functions.sort();
    compare(&manifest().join("symbols.txt"), &format!("{}\n", functions.join("\n")));
}

fn compare(path: &Path, fresh: &str) {
    if std::env::var_os("PISESSION_WRITE_HEADER").is_some() {
        fs::write(path, fresh).unwrap();
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    let line = committed.lines().zip(fresh.lines()).take_while(|(old, new)| old == new).count() + 1;
    assert!(
        committed == fresh,
        "{} differs from the sources at line {line}; run this test with PISESSION_WRITE_HEADER=1",
        path.display()
    );
}

#[test]
fn every_source_file_with_exports_is_a_section() {
    let files: BTreeSet<String> = fs::read_dir(manifest().join("src"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|file| fs::read_to_string(file).unwrap().contains("#[unsafe(no_mangle)]"))
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(files, SECTIONS.iter().map(|section| (*section).to_owned()).collect());
}

#[test]
fn every_error_kind_of_the_core_has_its_constant() {
    let header = fs::read_to_string(manifest().join("../include/pisession.h")).unwrap();
    for kind in ErrorKind::ALL {
        let line = format!("#define {} {}", constant(kind.name()), -kind.number());
        assert!(header.lines().any(|stands| stands == line), "the header lacks '{line}'");
    }
}

#[test]
fn every_function_is_documented() {
    let header = header();
    for function in header_functions(&header) {
        let at = header.rfind(&format!("{function}(")).unwrap();
        let before = header[..at].trim_end_matches(|c| c != '\n').trim_end();
        assert!(before.ends_with("*/"), "{function} has no comment");
    }
}

/// The functions that are about the library as a whole.
const WITHOUT_NOUN: [&str; 6] = [
    "pi_abi_version",
    "pi_debug_live_handles",
    "pi_set_log",
    "pi_sqlite_version",
    "pi_version",
    "pi_version_number",
];

#[test]
fn the_noun_leads_its_name() {
    let header = header();
    let mut without = BTreeSet::new();
    for function in header_functions(&header) {
        let at = header.rfind(&format!("{function}(")).unwrap() + function.len() + 1;
        let parameters: Vec<&str> =
            header[at..].split_once(");").unwrap().0.split(',').map(str::trim).collect();
        // What it is called with, or what it makes, is what it is about.
        let made = parameters.iter().filter(|parameter| parameter.contains("**")).map(|made| type_name(made));
        let nouns: Vec<&str> = std::iter::once(type_name(parameters[0]))
            .chain(made.filter(|name| *name != "pi_error"))
            .filter(|name| name.starts_with("pi_"))
            .collect();
        if nouns.is_empty() {
            without.insert(function);
        } else if function != "pi_debug_panic" {
            let leads = |noun: &&str| function.strip_prefix(*noun).is_some_and(|verb| verb.starts_with('_'));
            assert!(nouns.iter().any(leads), "{function} is about none of {nouns:?}");
        }
    }
    assert_eq!(without, WITHOUT_NOUN.map(str::to_owned).into());
}

/// `pi_branch` for `const struct pi_branch *branch`.
fn type_name(parameter: &str) -> &str {
    let words = parameter.split([' ', '*']).filter(|word| !word.is_empty());
    words.into_iter().find(|word| !["const", "struct"].contains(word)).unwrap_or_default()
}

/// `SessionBusy` as `PI_SESSION_BUSY`.
fn constant(name: &str) -> String {
    let mut out = String::from("PI");
    for letter in name.chars() {
        if letter.is_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_uppercase());
    }
    out
}

fn header() -> String {
    let part = |name| env_part(name);
    let mut out = include_str!("../header/top.h").to_owned();
    let _ = write!(
        out,
        "\n#ifndef PISESSION_H\n#define PISESSION_H\n\n\
         /* Made from the Rust sources by cbindgen; not to be edited. */\n\n\
         #include <stddef.h>\n#include <stdint.h>\n\n\
         #define PI_VERSION_MAJOR {}\n#define PI_VERSION_MINOR {}\n#define PI_VERSION_PATCH {}\n\
         #define PI_VERSION_NUMBER (PI_VERSION_MAJOR * 1000000 + PI_VERSION_MINOR * 1000 + PI_VERSION_PATCH)\n\n\
         /* The length of a text that ends with a NUL. */\n#define PI_NUL SIZE_MAX\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n",
        part("VERSION_MAJOR"),
        part("VERSION_MINOR"),
        part("VERSION_PATCH"),
    );
    out.push_str(&banner("Handles and objects.", &["All of them are opaque."]));
    for section in SECTIONS {
        out.push_str(&generate(section, &[ItemType::OpaqueItems]));
    }
    for section in SECTIONS {
        let source = fs::read_to_string(manifest().join("src").join(format!("{section}.rs"))).unwrap();
        let mut head = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
        let title = head.next().unwrap_or_default().to_owned();
        let text: Vec<&str> = head.skip_while(|line| line.is_empty()).collect();
        out.push_str(&banner(&title, &text));
        out.push_str(&generate(
            section,
            &[ItemType::Constants, ItemType::Structs, ItemType::Typedefs, ItemType::Functions],
        ));
    }
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* PISESSION_H */\n");
    out
}

fn env_part(name: &str) -> &'static str {
    match name {
        "VERSION_MAJOR" => env!("CARGO_PKG_VERSION_MAJOR"),
        "VERSION_MINOR" => env!("CARGO_PKG_VERSION_MINOR"),
        _ => env!("CARGO_PKG_VERSION_PATCH"),
    }
}

fn banner(title: &str, text: &[&str]) -> String {
    let rule = "-".repeat(100);
    let mut out = format!("\n/* {rule}\n * {}\n", title.trim_end_matches('.'));
    for line in text {
        out.push_str(&format!(" * {line}").trim_end().replace("  ", " "));
        out.push('\n');
    }
    let _ = writeln!(out, " * {rule} */");
    out
}

/// What cbindgen makes of one source file.
fn generate(section: &str, items: &[ItemType]) -> String {
    let mut config = Config {
        language: Language::C,
        style: Style::Both,
        no_includes: true,
        documentation_style: DocumentationStyle::C,
        documentation_length: DocumentationLength::Full,
        line_length: 110,
        tab_width: 4,
        usize_is_size_t: true,
        ..Config::default()
    };
    config.export.item_types = items.to_vec();
    // Used in other sections than its own.
    config.export.include = vec!["pi_progress_function".to_owned()];
    config.function.sort_by = None;
    let mut out = Vec::new();
    Builder::new()
        .with_config(config)
        .with_src(manifest().join("src").join(format!("{section}.rs")))
        .generate()
        .unwrap()
        .write(&mut out);
    let text = String::from_utf8(out).unwrap();
    if text.trim().is_empty() { String::new() } else { format!("\n{}\n", close_comments(text.trim())) }
}

/// Comments without the lines that hold nothing but their marks.
fn close_comments(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        if line.trim() == "/*" {
            let comment: Vec<&str> = lines.by_ref().map(str::trim).take_while(|line| *line != "*/").collect();
            let _ = writeln!(out, "{indent}/* {} */", comment.join(&format!("\n{indent} * ")));
        } else {
            let _ = writeln!(out, "{line}");
        }
    }
    out.trim_end().to_owned()
}
