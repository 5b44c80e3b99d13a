//! Charts of the HTML page.

use byway_plot::{AxisScale, Drawing};

use super::data::{BIN_SECONDS, LossBin, ReportData, RunReport};
use super::format::{count, megabytes, title};
use crate::demo::media::FRAMES_PER_SECOND;
use crate::demo::plan::DEADLINE_MS;
use crate::demo::results::{RunKind, RunResult};

const WIDTH: f64 = 1_000.0;

/// Space to the left of the plots, for names and values.
const MARGIN: f64 = 46.0;

/// Range of the PSNR axis. A video at the lower end looks bad to every viewer, and a still picture
/// has even less.
const PSNR_DB: (f64, f64) = (10.0, 45.0);

/// Draws the PSNR of each frame, a panel for each run; freezes and the outage are shaded.
pub(super) fn psnr(report: &ReportData) -> String {
    const PANEL: f64 = 104.0;
    const PLOT: f64 = 74.0;
    let panels = report.runs.len();
    let mut drawing = Drawing::new(WIDTH, panels as f64 * PANEL + 26.0);
    let time = time_scale(report);
    for ((result, run), panel) in report.runs().zip(0_u32..) {
        let top = f64::from(panel) * PANEL + 22.0;
        let level = AxisScale::linear(PSNR_DB, (top + PLOT, top));
        frame_panel(&mut drawing, report, result.service, time, &Panel { top, height: PLOT, words_at: 0.9 });
        for freeze in &run.score.freezes {
            let (from, until) = (time.at(freeze.from), time.at(freeze.from + freeze.seconds));
            drawing.rectangle("freeze", from, top, until - from, PLOT);
        }
        for db in [20.0, 30.0, 40.0] {
            drawing.segment("grid", (MARGIN, level.at(db)), (WIDTH, level.at(db)));
            let unit = if db < 40.0 { "" } else { " dB" };
            drawing.text("tick", "end", (MARGIN - 6.0, level.at(db) + 4.0), &format!("{db:.0}{unit}"));
        }
        let points = run
            .score
            .psnr_db
            .iter()
            .zip(0_u32..)
            .map(|(&db, frame)| (time.at(f64::from(frame) / f64::from(FRAMES_PER_SECOND)), level.at(db)));
        drawing.polyline("curve", points);
        drawing.text("note", "end", (WIDTH, top - 6.0), &psnr_note(result, run));
    }
    time_ticks(&mut drawing, time, panels as f64 * PANEL + 18.0);
    drawing.finish("PSNR of each frame in each run")
}

fn psnr_note(result: &RunResult, run: &RunReport) -> String {
    let frozen = run.score.frozen_seconds();
    let mean = result.psnr_db.mean.unwrap_or_default();
    let still = match run.score.freezes.len() {
        0 => "no freeze".into(),
        1 => format!("1 freeze of {frozen:.1} s"),
        many => format!("{many} freezes, {frozen:.1} s in all"),
    };
    format!("mean {mean:.1} dB, {still}")
}

/// Draws, for each run, the packets lost on direct paths in each half second by their outcome.
pub(super) fn losses(report: &ReportData) -> String {
    const PANEL: f64 = 88.0;
    const PLOT: f64 = 58.0;
    let runs: Vec<_> = report.runs().filter(|(result, _)| result.service != RunKind::Lossless).collect();
    let mut drawing = Drawing::new(WIDTH, runs.len() as f64 * PANEL + 26.0);
    let time = time_scale(report);
    let packets = |bin: &LossBin| bin.repaired + bin.late + bin.missing;
    let most = runs.iter().flat_map(|(_, run)| &run.bins).map(packets).max().unwrap_or(0).max(10);
    let level = AxisScale::linear((0.0, f64::from(most)), (0.0, PLOT));
    for (&(result, run), panel) in runs.iter().zip(0_u32..) {
        let top = f64::from(panel) * PANEL + 22.0;
        frame_panel(&mut drawing, report, result.service, time, &Panel { top, height: PLOT, words_at: 0.2 });
        drawing.text("tick", "end", (MARGIN - 6.0, top + 8.0), &most.to_string());
        for (bin, index) in run.bins.iter().zip(0_u32..) {
            let from = time.at(f64::from(index) * BIN_SECONDS);
            let width = time.at(f64::from(index + 1) * BIN_SECONDS) - from - 1.5;
            let mut bottom = top + PLOT;
            for (class, packets) in [("repaired", bin.repaired), ("late", bin.late), ("missing", bin.missing)]
            {
                let height = level.at(f64::from(packets));
                bottom -= height;
                if packets > 0 {
                    drawing.rectangle(class, from, bottom, width, height);
                }
            }
        }
        drawing.segment("axis", (MARGIN, top + PLOT), (WIDTH, top + PLOT));
        let note = format!(
            "{} lost, {} repaired in time, {} late, {} never",
            count(result.lost_direct),
            count(result.repaired_in_time),
            count(result.late),
            count(result.unrepaired)
        );
        drawing.text("note", "end", (WIDTH, top - 6.0), &note);
    }
    time_ticks(&mut drawing, time, runs.len() as f64 * PANEL + 18.0);
    drawing.finish("Packets lost on direct paths per half second, and their repair")
}

/// Draws the cumulative distribution of repair times.
pub(super) fn repair_times(report: &ReportData) -> String {
    const HEIGHT: f64 = 300.0;
    const BOTTOM: f64 = HEIGHT - 44.0;
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    let time = AxisScale::linear((0.0, DEADLINE_MS as f64), (MARGIN, WIDTH - 10.0));
    let level = AxisScale::linear((0.0, 1.0), (BOTTOM, 24.0));
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        drawing.segment("grid", (MARGIN, level.at(share)), (WIDTH - 10.0, level.at(share)));
        drawing.text(
            "tick",
            "end",
            (MARGIN - 6.0, level.at(share) + 4.0),
            &format!("{:.0} %", share * 100.0),
        );
    }
    for tick in (0..=DEADLINE_MS).step_by(25) {
        let anchor = if tick < DEADLINE_MS { "middle" } else { "end" };
        drawing.text("tick", anchor, (time.at(tick as f64), BOTTOM + 18.0), &format!("{tick}"));
    }
    drawing.text("note", "middle", (time.at(100.0), HEIGHT - 6.0), "milliseconds after the packet was due");
    for (at, name) in [(report.result.floor_ms, "floor"), (report.result.rtt_ms, "one round trip")] {
        drawing.segment("mark", (time.at(at), BOTTOM), (time.at(at), 20.0));
        drawing.text("note", "middle", (time.at(at), 14.0), &format!("{name}: {at:.0} ms"));
    }
    let kinds = [(RunKind::Coding, "curve-a"), (RunKind::Caching, "curve-b"), (RunKind::Lone, "curve-c")];
    let mut row = 0_u32;
    for (kind, class) in kinds {
        let Some((result, run)) = report.run(kind) else { continue };
        if run.repairs_ms.is_empty() || result.lost_direct == 0 {
            continue;
        }
        drawing.polyline(class, steps(&run.repairs_ms, result.lost_direct as f64, time, level));
        let y = level.at(0.62) + f64::from(row) * 20.0;
        drawing.segment(class, (time.at(143.0), y - 4.0), (time.at(149.0), y - 4.0));
        drawing.text("note", "start", (time.at(151.0), y), title(kind));
        row += 1;
    }
    drawing.finish("Share of lost packets repaired within a time")
}

/// Returns the points of the step curve of a cumulative distribution. The distribution has `of`
/// values, and those not in `values` never occur.
fn steps(values: &[f64], of: f64, x: AxisScale, y: AxisScale) -> Vec<(f64, f64)> {
    let mut sorted: Vec<_> = values.iter().copied().filter(|&value| value <= x.values.1).collect();
    sorted.sort_by(f64::total_cmp);
    let mut points = vec![(x.at(x.values.0), y.at(0.0))];
    for (value, rank) in sorted.into_iter().zip(1_u32..) {
        points.push((x.at(value), y.at(f64::from(rank - 1) / of)));
        points.push((x.at(value), y.at(f64::from(rank) / of)));
    }
    let last = points.last().map_or(y.at(0.0), |&(_, last)| last);
    points.push((x.pixels.1, last));
    points
}

/// Draws the bytes by segment, a bar for each run.
pub(super) fn bytes(report: &ReportData) -> String {
    const ROW: f64 = 34.0;
    const NAMES: f64 = 190.0;
    const VALUES: f64 = 84.0;
    // A lone pair sends an eighth of the others' bytes, so its bar would not compare.
    let runs: Vec<_> = report.runs().filter(|(result, _)| result.service != RunKind::Lone).collect();
    let mut drawing = Drawing::new(WIDTH, runs.len() as f64 * ROW + 4.0);
    let total = |run: &RunReport| run.traffic.uplink() + run.traffic.relay_egress();
    let most = runs.iter().map(|(_, run)| total(run)).max().unwrap_or(0).max(1);
    let scale = AxisScale::linear((0.0, most as f64), (0.0, WIDTH - NAMES - VALUES));
    for (&(result, run), row) in runs.iter().zip(0_u32..) {
        let y = f64::from(row) * ROW + 4.0;
        drawing.text("label", "end", (NAMES - 10.0, y + 17.0), title(result.service));
        let traffic = &run.traffic;
        let mut x = NAMES;
        for (class, bytes) in [
            ("segment-direct", traffic.direct),
            ("segment-uplink", traffic.senders_to_relays + traffic.receivers_to_relays),
            ("segment-between", traffic.between_relays),
            ("segment-down", traffic.relays_to_agents),
        ] {
            let width = scale.at(bytes as f64);
            drawing.rectangle(class, x, y, width, ROW - 10.0);
            x += width;
        }
        drawing.text("note", "start", (x + 8.0, y + 17.0), &megabytes(total(run)));
    }
    drawing.finish("Bytes on each segment in each run")
}

fn time_scale(report: &ReportData) -> AxisScale {
    AxisScale::linear((0.0, report.seconds), (MARGIN, WIDTH))
}

/// Vertical position of a run's panel in a chart.
struct Panel {
    top: f64,
    height: f64,
    /// Height at which text disturbs the curve least, as a share of the panel's height.
    words_at: f64,
}

/// Draws the background of a panel: name, outage, and the kill of the relays.
fn frame_panel(drawing: &mut Drawing, report: &ReportData, kind: RunKind, time: AxisScale, panel: &Panel) {
    let &Panel { top, height, words_at } = panel;
    drawing.rectangle("panel", MARGIN, top, WIDTH - MARGIN, height);
    if kind != RunKind::Lossless {
        let (from, until) = (time.at(report.outage.0), time.at(report.outage.1));
        drawing.rectangle("outage", from, top, until - from, height);
    }
    if kind == RunKind::RelaysKilled {
        let half = time.at(report.seconds / 2.0);
        drawing.segment("mark", (half, top), (half, top + height));
        drawing.text("note", "start", (half + 5.0, top + height * words_at), "SIGKILL to both relays");
    }
    drawing.text("label", "start", (MARGIN, top - 6.0), title(kind));
}

fn time_ticks(drawing: &mut Drawing, time: AxisScale, y: f64) {
    let mut second = 0.0;
    while second <= time.values.1 + 0.1 {
        let anchor = if second + 1.0 > time.values.1 { "end" } else { "middle" };
        drawing.text("tick", anchor, (time.at(second), y), &format!("{second:.0} s"));
        second += 2.0;
    }
}
