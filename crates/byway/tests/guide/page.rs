//! A page of the documentation as a script: its fenced blocks, with the machines in their info
//! strings.

/// Fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// The heading above it.
    pub heading: String,
    /// Number of the line with its fence, from 1.
    pub line: usize,
    /// The first word of its info string.
    pub language: String,
    /// Other words of its info string: machines of a `console` or `sh` block, `machine:/path` of a
    /// file. A final `+` means that the block is appended to the file.
    pub targets: Vec<String>,
    /// Text between its fences.
    pub text: String,
}

/// Command of a `console` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleCommand {
    /// Machine in its prompt.
    pub host: Option<String>,
    /// Text of the command.
    pub line: String,
    /// Output below it on the page.
    pub shown: Vec<String>,
}

/// Returns the fenced blocks of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut heading) = (Vec::new(), String::new());
    let mut open: Option<Block> = None;
    for (line, text) in (1..).zip(page.lines()) {
        match (&mut open, text.strip_prefix("```")) {
            (None, Some(info)) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                let language = words.next().unwrap_or_default();
                let heading = heading.clone();
                open = Some(Block { heading, line, language, targets: words.collect(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.extend([text, "\n"]),
            (None, None) if text.starts_with('#') => {
                text.trim_start_matches('#').trim().clone_into(&mut heading);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block of the page has no end");
    blocks
}

/// Returns the commands of a `console` block.
pub fn commands(block: &Block) -> Vec<ConsoleCommand> {
    let mut commands: Vec<ConsoleCommand> = Vec::new();
    for line in block.text.lines() {
        if let Some((host, command)) = prompt(line) {
            commands.push(ConsoleCommand { host, line: command.to_owned(), shown: Vec::new() });
        } else {
            let last = commands.last_mut().unwrap_or_else(|| panic!("line {}: no prompt", block.line));
            last.shown.push(line.to_owned());
        }
    }
    for typed in &mut commands {
        let length = typed.shown.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        typed.shown.truncate(length);
    }
    commands
}

/// Splits a prompt into its machine and the command after it.
fn prompt(line: &str) -> Option<(Option<String>, &str)> {
    let (host, command) = line.split_once('$')?;
    let is_name = host.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let command = command.strip_prefix(' ')?;
    is_name.then(|| ((!host.is_empty()).then(|| host.to_owned()), command.trim_start()))
}

/// Returns the cells of the rows of the table below a heading, without its head.
pub fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let below = page.split(&format!("\n## {heading}\n")).nth(1).expect("the page has this heading");
    let rows = below.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// Returns the texts between backticks.
pub fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_heading_and_places_and_commands_their_machine_and_output() {
        let page =
            "# A\n```console east west\n$ one\nshown\nbob$ two\n```\n## B\n```toml bob:/etc/x+\na = 1\n```\n";
        let blocks = blocks(page);
        let [first, second] = &blocks[..] else { panic!("{blocks:?}") };
        assert_eq!((first.heading.as_str(), first.line, first.targets.len()), ("A", 2, 2));
        assert_eq!((second.heading.as_str(), second.text.as_str()), ("B", "a = 1\n"));
        let typed = |host: Option<&str>, line: &str, shown: &[&str]| ConsoleCommand {
            host: host.map(str::to_owned),
            line: line.to_owned(),
            shown: shown.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(commands(first), [typed(None, "one", &["shown"]), typed(Some("bob"), "two", &[])]);
    }

    #[test]
    fn tables_and_quotes_are_read() {
        let page = "\n## A\n\ntext\n\n| x | y |\n|---|---|\n| one | `a = 1` and `b` |\n\n| other |\n";
        let rows = table(page, "A");
        assert_eq!(rows, [["one", "`a = 1` and `b`"]]);
        assert_eq!(quoted(&rows[0][1]), ["a = 1", "b"]);
    }
}
