//! Text of sessions made fit for a terminal: no control characters, no more than fits, numbers and times.

use time::OffsetDateTime;
use time::macros::format_description;
use unicode_width::UnicodeWidthChar as _;

/// `text` on one line of at most `width` columns: white space is one blank, control characters become
/// visible, and what is cut off leaves `…`. Reads no more of the text than it shows.
pub(crate) fn clean_line(text: &str, width: usize) -> String {
    one_line(text, width, Blanks::Joined)
}

/// The same for a line whose blanks mean something, such as a line of a program; a tab is four blanks.
pub(crate) fn clean_row(line: &str, width: usize) -> String {
    one_line(line.trim_end(), width, Blanks::Kept)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Blanks {
    Joined,
    Kept,
}

fn one_line(text: &str, width: usize, blanks: Blanks) -> String {
    let mut out = String::new();
    let mut columns = 0;
    // Where to cut if one more character does not fit.
    let mut cut = 0;
    // Characters without a width must not make a line endless.
    let mut characters = width.saturating_mul(4);
    let mut blank = false;
    for character in text.chars() {
        if blanks == Blanks::Joined && character.is_whitespace() && character != '\u{85}' {
            blank = !out.is_empty();
            continue;
        }
        let mut shown = match character {
            '\t' => Shown { text: "    ".to_owned(), width: 4 },
            _ => Shown::of(character),
        };
        if std::mem::take(&mut blank) {
            shown = shown.after_blank();
        }
        if columns + shown.width > width || characters == 0 {
            out.truncate(cut);
            out.push('…');
            return out;
        }
        out.push_str(&shown.text);
        columns += shown.width;
        characters -= 1;
        if columns < width {
            cut = out.len();
        }
    }
    out
}

/// `text` with its lines kept: line ends of any kind are `\n`, tabs stay, other control characters become
/// visible.
pub(crate) fn clean_block(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => out.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            _ => out.push_str(&Shown::of(character).text),
        }
    }
    out
}

/// A character as it is shown.
struct Shown {
    text: String,
    width: usize,
}

impl Shown {
    fn of(character: char) -> Self {
        let text = match character {
            // The pictures of the control characters.
            '\0'..='\u{1f}' => {
                char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}').to_string()
            }
            '\u{7f}' => '\u{2421}'.to_string(),
            _ if misleads(character) => format!("<U+{:04X}>", u32::from(character)),
            _ => return Self { text: character.to_string(), width: character.width().unwrap_or(0) },
        };
        let width = text.chars().count();
        Self { text, width }
    }

    fn after_blank(self) -> Self {
        Self { text: format!(" {}", self.text), width: self.width + 1 }
    }
}

/// Characters that terminals obey or that let text look like another one: C1 controls, directions, tags.
fn misleads(character: char) -> bool {
    matches!(
        character,
        '\u{80}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// How many columns `text` fills.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

/// `text` filled up with blanks to `width` columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// A count with commas between thousands.
pub(crate) fn thousands(count: f64) -> String {
    let digits = format!("{count:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("{sign}{digits}");
    }
    let mut out = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size in bytes, KiB or MiB.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// A time in Unix ms, as UTC to the second; the number itself if it is beyond the calendar.
pub(crate) fn time(ms: i64) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]Z");
    OffsetDateTime::from_unix_timestamp(ms.div_euclid(1000))
        .ok()
        .and_then(|time| time.format(format).ok())
        .unwrap_or_else(|| format!("{ms} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_its_width_and_shows_control_characters() {
        for (text, width, line) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("  a \n\t b  ", 9, "a b"),
            ("\u{1b}[31mred", 9, "␛[31mred"),
            ("\u{9b}1m", 20, "<U+009B>1m"),
            ("a\u{202e}b", 20, "a<U+202E>b"),
            ("\u{85}\u{7f}\0", 20, "<U+0085>␡␀"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("a bcd", 3, "a…"),
            ("", 3, ""),
        ] {
            assert_eq!(clean_line(text, width), line, "{text:?}");
            assert!(columns(&clean_line(text, width)) <= width, "{text:?}");
        }
        let zalgo = format!("a{}", "\u{301}".repeat(1_000_000));
        assert!(clean_line(&zalgo, 10).chars().count() < 50);
    }

    #[test]
    fn a_row_keeps_its_blanks() {
        assert_eq!(clean_row("  a  b\tc \r", 80), "  a  b    c");
        assert_eq!(clean_row("    a", 3), "  …");
    }

    #[test]
    fn a_block_keeps_its_lines() {
        assert_eq!(clean_block("a\r\nb\rc\td\u{1b}\u{9b}"), "a\nb␍c\td␛<U+009B>");
    }

    #[test]
    fn numbers_and_times_are_for_people() {
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(thousands(-1234.0), "-1,234");
        assert_eq!(time(1_750_000_004_000), "2025-06-15 15:06:44Z");
        assert_eq!(time(-1), "1969-12-31 23:59:59Z");
        assert_eq!(time(i64::MAX), format!("{} ms", i64::MAX));
        assert_eq!(size(100), "100 bytes");
        assert_eq!(size(2048), "2.0 KiB");
    }
}
