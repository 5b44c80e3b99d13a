//! Text: escaped, measured and broken into lines.

use alloc::string::String;
use alloc::vec::Vec;

/// A text in HTML and XML. What XML has no way to write becomes a replacement character.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(letter),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if letter.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// How wide a text is at most, in pixels, at a font size of `size`, in the widest of the fonts that systems come with
/// (`DejaVu` Sans).
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(letter_width).sum::<f64>() * size
}

/// In font sizes.
fn letter_width(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'I' | '\'' | '|' | '.' | ',' | ':' | ';' | ' ' => 0.34,
        '\u{202f}' | '\u{2009}' => 0.22,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '!' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' | '…' => 1.0,
        'A'..='Z' | '+' | '=' | '<' | '>' | '×' | '≤' | '≥' | '−' | '~' | '&' | '#' => 0.80,
        _ if letter < '\u{1100}' => 0.64,
        '⁰'..='ⁿ' => 0.46,
        '\u{2000}'..='\u{2bff}' => 0.84,
        _ => 1.05,
    }
}

/// The text, or as much of its beginning as has room within `room` pixels, with an ellipsis.
pub(crate) fn shortened(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.into();
    }
    let room = room / size - letter_width('…');
    let mut used = 0.0;
    let fits = |letter: &char| {
        used += letter_width(*letter);
        used <= room
    };
    let kept: String = text.chars().take_while(fits).collect();
    let mut kept = String::from(kept.trim_end());
    kept.push('…');
    kept
}

/// The text in lines of at most `room` pixels, broken between words; a longer word is shortened.
pub(crate) fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let space = letter_width(' ') * size;
        match lines.last_mut() {
            Some(line) if width(line, size) + space + width(word, size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shortened(word, size, room)),
        }
    }
    lines
}

/// The text in as few lines as have room, none of which is much longer than the others.
pub(crate) fn balanced(text: &str, size: f64, room: f64) -> Vec<String> {
    let lines = wrapped(text, size, room);
    let longest = text.split_whitespace().map(|word| width(word, size)).fold(0.0, f64::max);
    // Nothing is shortened that has room in the widest lines.
    let rooms = (1..10_u32).map(|tenth| room * f64::from(tenth) / 10.0).filter(|&room| room >= longest);
    let narrower = rooms.map(|room| wrapped(text, size, room)).find(|narrower| narrower.len() == lines.len());
    narrower.unwrap_or(lines)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn nothing_breaks_out_of_text() {
        assert_eq!(escaped("</text>&\"'"), "&lt;/text&gt;&amp;&quot;&#39;");
        assert_eq!(escaped("a\u{0}b\u{1b}c\u{ffff}\n"), "a\u{fffd}b\u{fffd}c\u{fffd}\n");
    }

    #[test]
    fn lines_keep_within_their_room() {
        let lines = wrapped("a share of all packets", 10.0, 60.0);
        assert_eq!(lines, vec!["a share of", "all packets"]);
        assert!(lines.iter().all(|line| width(line, 10.0) <= 60.0));
        assert_eq!(wrapped("  ", 10.0, 60.0), Vec::<String>::new());
    }

    #[test]
    fn balanced_lines_leave_no_word_alone() {
        assert_eq!(balanced("outages of 1 to 3 s", 10.0, 95.0), vec!["outages of", "1 to 3 s"]);
        assert_eq!(balanced("single", 10.0, 105.0), vec!["single"]);
    }

    #[test]
    fn what_is_too_long_is_shortened() {
        let short = shortened("incomprehensibilities", 10.0, 60.0);
        assert!(short.ends_with('…') && width(&short, 10.0) <= 60.0, "{short}");
        assert_eq!(shortened("short", 10.0, 60.0), "short");
        assert_eq!(shortened("long", 10.0, 1.0), "…");
    }
}
