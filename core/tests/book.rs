//! The book's table of errors says what the library does.

use pisession::ErrorKind;

#[test]
fn the_table_of_errors_has_every_kind_as_it_is() {
    let page = include_str!("../../docs/errors.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    let described: Vec<(&str, &str, &str)> = rows.iter().map(|row| (row[1], row[2], row[5])).collect();
    let numbers: Vec<String> = ErrorKind::ALL.iter().map(|kind| kind.number().to_string()).collect();
    let actual: Vec<(&str, &str, &str)> = ErrorKind::ALL
        .iter()
        .zip(&numbers)
        .map(|(kind, number)| (number.as_str(), kind.name(), if kind.is_retryable() { "yes" } else { "no" }))
        .collect();
    assert_eq!(described, actual);
    for row in rows {
        assert_eq!(row[3], format!("{}Error", row[2]));
    }
}
