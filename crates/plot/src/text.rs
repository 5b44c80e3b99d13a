//! Escaping, measuring and wrapping of text.

use alloc::string::String;
use alloc::vec::Vec;

/// Escapes text for HTML and XML. Characters that XML does not allow become replacement characters.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if character.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Returns the greatest width of a text in pixels at a font size of `size`: with the widest of the
/// usual system fonts (`DejaVu` Sans).
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(letter_width).sum::<f64>() * size
}

/// Returns the width of a character, relative to the font size.
fn letter_width(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 'I' | '\'' | '|' | '.' | ',' | ':' | ';' | ' ' => 0.34,
        '\u{202f}' | '\u{2009}' => 0.22,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '!' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' | '…' => 1.0,
        'A'..='Z' | '+' | '=' | '<' | '>' | '×' | '≤' | '≥' | '−' | '~' | '&' | '#' => 0.80,
        _ if character < '\u{1100}' => 0.64,
        '⁰'..='ⁿ' => 0.46,
        '\u{2000}'..='\u{2bff}' => 0.84,
        _ => 1.05,
    }
}

/// Returns the text if it fits into `width_max` pixels, otherwise the beginning that fits, with an
/// ellipsis.
pub(crate) fn shortened(text: &str, size: f64, width_max: f64) -> String {
    if width(text, size) <= width_max {
        return text.into();
    }
    let width_max = width_max / size - letter_width('…');
    let mut used = 0.0;
    let fits = |character: &char| {
        used += letter_width(*character);
        used <= width_max
    };
    let start: String = text.chars().take_while(fits).collect();
    let mut start = String::from(start.trim_end());
    start.push('…');
    start
}

/// Breaks text between words into lines of at most `width_max` pixels; shortens a longer word.
pub(crate) fn wrapped(text: &str, size: f64, width_max: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let space = letter_width(' ') * size;
        match lines.last_mut() {
            Some(line) if width(line, size) + space + width(word, size) <= width_max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shortened(word, size, width_max)),
        }
    }
    lines
}

/// Breaks text into as few lines as possible of at most `width_max` pixels, and of similar length.
pub(crate) fn balanced(text: &str, size: f64, width_max: f64) -> Vec<String> {
    let lines = wrapped(text, size, width_max);
    let longest = text.split_whitespace().map(|word| width(word, size)).fold(0.0, f64::max);
    // No word that fits into the widest lines is shortened.
    let widths = (1..10_u32)
        .map(|tenth| width_max * f64::from(tenth) / 10.0)
        .filter(|&width_max| width_max >= longest);
    let narrower =
        widths.map(|width_max| wrapped(text, size, width_max)).find(|narrower| narrower.len() == lines.len());
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
