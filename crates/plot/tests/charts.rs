//! Tests of all kinds of charts: well-formed, legible and reproducible.

mod xml;

use byway_plot::{Axis, Chart, Curve, Direction, Kind, Mark, Size};
use xml::Element;

const KINDS: [Kind; 4] = [Kind::Lines, Kind::Steps, Kind::Points, Kind::Bars];

const SIZES: [Size; 4] = [Size::FILE, Size::HALF, Size::WHOLE, Size { width: 0.0, height: f64::NAN }];

fn chart<'a>(kind: Kind, curves: Vec<Curve<'a>>, labels: &'a [String]) -> Chart<'a> {
    Chart {
        title: "Losses <repaired> & others",
        description: "What is \"seen\".",
        x: Axis::linear("time, s"),
        y: Axis::linear("share of losses").as_share(),
        kind,
        curves,
        labels,
        marks: vec![],
    }
}

fn curve<'a>(name: &'a str, points: &'a [[f64; 2]]) -> Curve<'a> {
    Curve { name, points, is_reference: false }
}

/// Returns all texts of a drawing that are not slanted: left end, right end and baseline, by a
/// narrow estimate of their width.
fn boxes(svg: &str) -> Vec<(String, f64, f64, f64)> {
    let texts = xml::elements(svg).into_iter().filter(|element| element.name == "text");
    let level = texts.filter(|element| element.attribute("transform").is_none());
    level
        .map(|element| {
            let text = unescaped(&element.text);
            let size = match element.attribute("class") {
                Some("heading") => 17.0,
                Some("value") => 11.0,
                Some("name") => 13.0,
                _ => 12.0,
            };
            let letters = u32::try_from(text.chars().count()).expect("a short text");
            let width = 0.5 * size * f64::from(letters);
            let [x, y] = ["x", "y"].map(|name| element.number(name));
            let left = match element.attribute("text-anchor") {
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                _ => x,
            };
            (text, left, left + width, y)
        })
        .collect()
}

fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (name, character)| text.replace(name, character))
}

#[track_caller]
fn assert_legible(svg: &str) {
    let root = xml::elements(svg).into_iter().find(|element| element.name == "svg").expect("a root");
    let view: Vec<f64> =
        root.attribute("viewBox").expect("a view").split(' ').filter_map(|part| part.parse().ok()).collect();
    let boxes = boxes(svg);
    for (index, (text, left, right, y)) in boxes.iter().enumerate() {
        assert!(
            *left >= 0.0 && *right <= view[2] && *y >= 8.0 && *y <= view[3],
            "{text} is cut: {left} to {right}, {y}"
        );
        for (other, other_left, other_right, other_y) in &boxes[..index] {
            let avoids_network = right <= other_left || other_right <= left || (y - other_y).abs() >= 10.0;
            assert!(avoids_network, "{text} and {other} overlap");
        }
    }
}

fn labels(count: u32, words: &str) -> Vec<String> {
    (0..count).map(|group| format!("{words} {group}")).collect()
}

#[test]
fn charts_of_all_kinds_are_well_formed_and_legible() {
    let points: Vec<[f64; 2]> = (0..12).map(|x| [f64::from(x), f64::from(x % 5) / 4.0]).collect();
    let names = [
        "coding",
        "a curve whose name is much too long to stand at its end or in one line of a legend with others",
        "c",
    ];
    let marks = |at: f64, direction| Mark { name: "one round trip", at, direction };
    for kind in KINDS {
        for (label_count, words) in
            [(0, ""), (3, "group"), (12, "a group of bars"), (80, "Incomprehensibly long")]
        {
            let labels = labels(label_count, words);
            for size in SIZES {
                let mut chart = chart(kind, names.map(|name| curve(name, &points)).to_vec(), &labels);
                chart.marks = vec![
                    marks(5.0, Direction::Vertical),
                    marks(5.2, Direction::Vertical),
                    marks(0.4, Direction::Horizontal),
                    marks(f64::NAN, Direction::Horizontal),
                ];
                for svg in [chart.standalone(size), chart.inline(size)] {
                    xml::assert_well_formed(&svg);
                    assert_legible(&svg);
                }
                assert_eq!(chart.standalone(size), chart.standalone(size));
            }
        }
    }
}

#[test]
fn a_chart_names_itself_and_escapes_all_text() {
    let labels = ["<&>".to_owned()];
    for kind in KINDS {
        let svg = chart(kind, vec![curve("a < b", &[[0.0, 0.5]])], &labels).standalone(Size::FILE);
        xml::assert_well_formed(&svg);
        let elements = xml::elements(&svg);
        let text = |name: &str| {
            elements.iter().find(|element| element.name == name).map(|element| element.text.as_str())
        };
        assert_eq!(text("title"), Some("Losses &lt;repaired&gt; &amp; others"));
        assert!(
            text("desc").is_some_and(|text| text.contains("&quot;seen&quot;") && text.contains("a &lt; b"))
        );
        assert!(svg.contains(r#"role="img""#) && svg.contains("<style>"));
    }
}

#[test]
fn what_is_inline_needs_and_brings_nothing() {
    let svg = chart(Kind::Lines, vec![curve("a", &[[0.0, 0.0], [1.0, 1.0]])], &[]).inline(Size::HALF);
    for outside in ["http", "<style", "url(", " id=", "<script"] {
        assert!(!svg.contains(outside), "{outside}");
    }
}

#[test]
fn nothing_to_draw_is_said() {
    let bad = [[f64::NAN, 1.0], [1.0, f64::INFINITY], [f64::NEG_INFINITY, f64::NAN]];
    for kind in KINDS {
        for curves in [vec![], vec![curve("empty", &[])], vec![curve("bad", &bad)]] {
            let svg = chart(kind, curves, &[]).standalone(Size::HALF);
            xml::assert_well_formed(&svg);
            assert!(svg.contains("Nothing to show"), "{svg}");
        }
    }
}

#[test]
fn numbers_of_any_size_can_be_drawn() {
    let sets: [&[[f64; 2]]; 7] = [
        &[[0.0, 0.0]],
        &[[f64::MAX, f64::MIN], [1e300, -1e300], [-1e300, 1e300]],
        &[[5e-324, 5e-324], [1e-310, 0.0]],
        &[[1.0, 1.0], [1.0 + f64::EPSILON, 1.0 - f64::EPSILON]],
        &[[-5.0, -5.0], [-5.0, -5.0]],
        &[[1e15, 7.0], [1e15 + 1.0, 7.0]],
        &[[2.0, 1.0], [f64::NAN, 0.0], [1.0, 3.0]],
    ];
    let axes = [Axis::linear("a"), Axis::log("b"), Axis::log("c").as_share()];
    for kind in KINDS {
        for points in sets {
            for (x, y) in axes.into_iter().flat_map(|x| axes.map(|y| (x, y))) {
                let svg = Chart { x, y, ..chart(kind, vec![curve("a", points)], &[]) }.standalone(Size::HALF);
                xml::assert_well_formed(&svg);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{kind:?} {points:?}: {svg}");
            }
        }
    }
}

#[test]
fn many_points_are_few_bytes_and_keep_their_extremes() {
    let mut points: Vec<[f64; 2]> = (0..300_000_u32)
        .map(|x| [f64::from(x), 0.4 + f64::from(x.wrapping_mul(2_654_435_761) >> 20) / 40_960.0])
        .collect();
    points[123_456][1] = 1.0;
    points[200_000][1] = 0.0;
    for kind in [Kind::Lines, Kind::Steps, Kind::Points] {
        let svg = chart(kind, vec![curve("noise", &points)], &[]).inline(Size::FILE);
        let bytes_max = if kind == Kind::Points { 2_000_000 } else { 60_000 };
        assert!(svg.len() < bytes_max, "{kind:?}: {} bytes", svg.len());
        if kind != Kind::Points {
            let path =
                xml::elements(&svg).into_iter().find(|element| element.attribute("class") == Some("line s0"));
            let path = path.expect("a curve").attribute("d").expect("its path").to_owned();
            let frame: Vec<f64> = axis_ends(&svg);
            for end in frame {
                let end = format!("{end:.1}");
                let is_there = path.split(['M', 'L', 'V', 'H', ',']).any(|number| number == end);
                assert!(is_there, "{kind:?} does not reach {end}");
            }
        }
    }
}

/// Returns the positions of 0 and 1 on the vertical axis.
fn axis_ends(svg: &str) -> Vec<f64> {
    let lines = xml::elements(svg).into_iter().filter(|element| element.attribute("class") == Some("grid"));
    let level = lines.filter(|element| element.attribute("y1") == element.attribute("y2"));
    let mut levels: Vec<f64> = level.map(|element: Element| element.number("y1")).collect();
    levels.sort_by(f64::total_cmp);
    [levels.first(), levels.last()].into_iter().flatten().copied().collect()
}

#[test]
fn curves_are_named_at_their_ends_only_where_these_are_apart() {
    let (low, high) = ([[0.0, 0.1], [1.0, 0.2]], [[0.0, 0.1], [1.0, 0.9]]);
    let name_at = |curves| {
        let svg = chart(Kind::Lines, curves, &[]).inline(Size::FILE);
        let names =
            xml::elements(&svg).into_iter().filter(|element| element.attribute("class") == Some("name"));
        names.map(|element| element.number("x")).fold(f64::INFINITY, f64::min)
    };
    assert!(name_at(vec![curve("low", &low), curve("high", &high)]) > 600.0);
    assert!(name_at(vec![curve("low", &low), curve("same", &low), curve("again", &low)]) < 100.0);
}

#[test]
fn references_are_dashed_and_every_curve_has_its_own_look() {
    let points = [[0.0, 0.1], [1.0, 0.2]];
    let mut curves = vec![curve("a", &points), curve("b", &points), curve("c", &points)];
    curves[1].is_reference = true;
    let svg = chart(Kind::Lines, curves, &[]).inline(Size::FILE);
    for class in ["line s0", "line s1", "reference d0"] {
        assert!(svg.contains(&format!("<path class=\"{class}\"")), "{class}");
    }
}

#[test]
fn bars_carry_their_values() {
    let labels = ["one".to_owned(), "two".to_owned()];
    let bars = [[0.0, 0.25], [1.0, 0.987]];
    let svg = chart(Kind::Bars, vec![curve("coding", &bars)], &labels).inline(Size::FILE);
    assert!(
        svg.contains("<title>two: coding 98.7\u{202f}%</title>") && svg.contains(">25\u{202f}%</text>"),
        "{svg}"
    );
}
