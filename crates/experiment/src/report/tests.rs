use std::collections::BTreeMap;

use super::{markdown, page, svg, terminal};
use crate::{Bound, Curve, Kind, Plot, Results, Row, Scale, StoppedRun, Table, World};

fn plot(kind: Kind, curves: Vec<Curve>) -> Plot {
    Plot {
        title: "Repair <times>".into(),
        caption: "Fig. 5 has the same form.".into(),
        x: "time, ms".into(),
        y: "share of repairs".into(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        kind,
        curves,
        labels: vec![],
    }
}

fn curve(points: Vec<[f64; 2]>) -> Curve {
    Curve { name: "coding".into(), points, is_reference: false }
}

fn row(metric: &str, measured: f64, is_met: bool) -> Row {
    Row {
        metric: metric.into(),
        unit: "share".into(),
        measured: Some(measured),
        worst: Some(0.5),
        published: Some("78 %".into()),
        target: Some(Bound::AtLeast(0.97)),
        met: Some(is_met),
    }
}

#[test]
fn runs_that_were_stopped_are_named() {
    let run = |is_repeatable| StoppedRun {
        arm: "on".into(),
        seed: 2,
        seconds: 1.5,
        why: "it took 60 s of real time".into(),
        is_repeatable,
    };
    let stopped = Results { stopped: vec![run(false), run(true)], ..results() };
    let message = "on, seed 2: stopped after 1.5 s of virtual time, because it took 60 s of real time";
    let text = terminal(&stopped);
    assert!(text.contains(&format!("STOPPED: {message}; not repeatable\n")), "{text}");
    assert!(text.contains(&format!("STOPPED: {message}\n")), "{text}");
    assert!(markdown(std::slice::from_ref(&stopped)).contains(&format!("{message}; not repeatable.")));
    assert!(page(&[stopped]).contains(message));
    assert!(!terminal(&results()).contains("STOPPED") && !page(&[results()]).contains("Stopped runs"));
}

#[test]
fn the_table_of_all_targets_has_a_line_for_each_and_their_number() {
    let barred = Row { metric: "a | b".into(), ..row("", 0.9, false) };
    let without = Row { target: None, met: None, ..row("only told", 0.9, true) };
    let one = Results {
        id: "rec-one".into(),
        seeds: vec![1, 2],
        rows: vec![row("repaired", 0.98, true), barred, without],
        ..results()
    };
    let table = markdown(&[one]);
    let lines: Vec<&str> = table.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "| `rec-one` | repaired | 98.0 % | 50.0 % | at least 97 % | 78 % | met |",
            "| `rec-one` | a \\| b | 90.0 % | 50.0 % | at least 97 % | 78 % | **missed** |",
            "",
            "1 of 2 targets are met.",
        ]
    );
}

fn results() -> Results {
    let series = [
        ("cdf", plot(Kind::Steps, vec![curve(vec![[10.0, 0.0], [20.0, 1.0]])])),
        ("empty", plot(Kind::Lines, vec![curve(vec![[f64::NAN, 1.0]])])),
        ("many", plot(Kind::Bars, vec![curve((0..30).map(|x| [f64::from(x), 0.5]).collect())])),
    ];
    Results {
        id: "rec-paths".into(),
        title: "Losses & repairs".into(),
        description: "First\nparagraph.\n\nSecond <paragraph>.".into(),
        source: "paper 001, 5.2".into(),
        world: World::Sim,
        is_full: true,
        seeds: vec![1, 2, 3],
        stopped: vec![],
        rows: vec![row("repaired", 0.981, true), row("paths", 0.969_7, false)],
        tables: vec![Table {
            title: "Episodes".into(),
            columns: vec!["path".into(), "lost".into()],
            rows: vec![vec!["Ohio".into(), "12".into()], vec!["Oregon".into(), "–".into()]],
        }],
        series: series.into_iter().map(|(name, plot)| (name.into(), plot)).collect(),
        notes: vec!["A <note>.".into()],
    }
}

fn bare() -> Results {
    Results {
        id: "nc-control".into(),
        source: String::new(),
        seeds: vec![],
        rows: vec![],
        tables: vec![],
        series: BTreeMap::new(),
        notes: vec![],
        ..results()
    }
}

#[test]
fn the_page_needs_nothing_else() {
    let page = page(&[results(), bare()]);
    for outside in ["http:", "https:", "<script", "<link", "url(", "@import", "<img"] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
    assert_eq!(page.matches("<style>").count(), 1);
}

#[test]
fn the_page_tells_all_and_escapes_it() {
    let page = page(&[results(), bare()]);
    let expected = [
        "<a href=\"#rec-paths\">",
        "<section id=\"rec-paths\">",
        "1 of 2",
        "Losses &amp; repairs",
        "<p>First paragraph.</p><p>Second &lt;paragraph&gt;.</p>",
        "Published in paper 001, 5.2",
        "98.1\u{a0}%",
        "96.97\u{a0}%",
        "50.0\u{a0}%",
        "at least 97\u{a0}%",
        "✓&nbsp;met",
        "✗&nbsp;missed",
        "Repair &lt;times&gt;",
        "Nothing to show",
        "<th class=\"words\">path</th><th>lost</th>",
        "<td>–</td>",
        "<li>A &lt;note&gt;.</li>",
        "byway experiment run nc-control",
        "3 seeds: 1–3",
        "no targets",
    ];
    for words in expected {
        assert!(page.contains(words), "{words} is missing");
    }
}

#[test]
fn all_that_begins_on_the_page_ends() {
    let page = page(&[results(), bare()]);
    for tag in [
        "section", "div", "figure", "table", "tr", "td", "th", "svg", "p", "ul", "li", "main", "h2", "h3",
        "span",
    ] {
        let starts = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(starts, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn the_same_results_give_the_same_page_and_none_give_one_that_says_so() {
    assert_eq!(page(&[results()]), page(&[results()]));
    assert!(page(&[]).contains("No results yet"));
}

#[test]
fn shares_are_percent_in_plots() {
    let file = svg(&plot(Kind::Steps, vec![curve(vec![[10.0, 0.0], [20.0, 1.0]])]));
    assert!(file.starts_with("<svg xmlns=") && file.contains("100\u{202f}%"), "{file}");
}

#[test]
fn the_terminal_has_a_line_for_each_row() {
    let expected = "Losses & repairs\n\
                    rec-paths:  98.1 % / 78 % / at least 97 %  repaired (worst seed 50.0 %)  met\n\
                    rec-paths: 96.97 % / 78 % / at least 97 %  paths (worst seed 50.0 %)     missed\n\
                    rec-paths: 1 of 2 targets met\n";
    assert_eq!(terminal(&results()), expected);
    assert_eq!(terminal(&bare()), "Losses & repairs\nnc-control: no targets\n");
}
