//! HTML page of the report: a single file without external resources.

use std::fmt::Write as _;

use byway_plot::{PAGE_STYLE, escaped};
use data_encoding::BASE64;

use super::charts;
use super::data::{ReportData, RunReport};
use super::format::{count, explanation, megabytes, number, percent, share, title};
use super::spoiled::{is_spoiled, spoiled};
use crate::demo::media::{FRAMES_PER_SECOND, Freeze};
use crate::demo::plan::DEADLINE_MS;
use crate::demo::prices::PRICE_LISTS;
use crate::demo::results::{FailedRun, RunKind, RunResult};

/// Renders the whole report as HTML.
pub(crate) fn page(report: &ReportData) -> String {
    let sections = [
        head(report),
        pictures(report),
        section(
            "Picture quality by frame",
            &format!(
                "<p>Similarity of each of the {FRAMES_PER_SECOND} frames a second to the original \
                 (PSNR in dB; above 35 is good, below 25 bad). The grey band is the outage of the \
                 measured path; red marks frozen pictures.</p>"
            ),
            &charts::psnr(report),
        ),
        numbers(report),
        section(
            "Lost packets and their repair",
            &format!(
                "<p>Packets lost on the direct paths of all pairs, per half second: {}, {}, {}. With \
                 forwarding, no packet uses a direct path: the numbers are those that it would have \
                 lost.</p>",
                key("repaired", "repaired before the deadline"),
                key("late", "repaired too late"),
                key("missing", "never delivered"),
            ),
            &charts::losses(report),
        ),
        section(
            "Repair times",
            "<p>Share of all lost packets that are repaired within a time after they were due. The \
             floor is the minimum of any cooperative repair: the receiver detects the gap and sends a \
             NACK, and the relay requests packets from the other receivers.</p>",
            &charts::repair_times(report),
        ),
        costs(report),
        relays_killed(report),
        lone(report),
        method(report),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>Byway: a video call survives an outage</title><style>{PAGE_STYLE}{STYLE}</style></head><body><main>{}</main></body></html>\n",
        sections.concat()
    )
}

/// Renders one entry of a drawing's legend: the colour of a CSS class and its meaning.
fn key(class: &str, words: &str) -> String {
    format!("<span class=\"keyed\"><i class=\"key {class}\"></i> {words}</span>")
}

fn section(title: &str, introduction: &str, body: &str) -> String {
    format!("<section><h2>{title}</h2>{introduction}<figure>{body}</figure></section>")
}

fn head(report: &ReportData) -> String {
    let outage_seconds = report.outage.1 - report.outage.0;
    let mut tiles = String::new();
    if let (Some((coding, run)), Some((forwarding, _))) =
        (report.run(RunKind::Coding), report.run(RunKind::Forwarding))
    {
        let repaired = run.within_rtt.map_or_else(|| "–".into(), percent);
        tile(&mut tiles, &repaired, "of all lost packets repaired within one round trip");
        let bytes = share(coding.relay_egress_bytes, forwarding.relay_egress_bytes);
        let bytes = bytes.map_or_else(|| "–".into(), percent);
        tile(&mut tiles, &bytes, "of the bytes that relays send when they forward everything");
    }
    if let Some(((_, coding), (_, internet))) = report.run(RunKind::Coding).zip(report.run(RunKind::Internet))
    {
        let value = format!("{} dB", number(report.psnr_in_outage(coding), 1));
        let alone = number(report.psnr_in_outage(internet), 1);
        tile(&mut tiles, &value, &format!("PSNR during the outage; {alone} dB without Byway"));
    }
    if let Some(delay) = report.added_delay {
        let added = (delay.byway_p99 - delay.plain_p99).max(0.0);
        tile(&mut tiles, &format!("{added:.2} ms"), "added delay (p99) without loss");
    }
    let video = if report.has_real_footage { "real video" } else { "H.264 video" };
    let notices = notices(report);
    format!(
        "<header><p class=\"brand\">Byway</p><h1>A video call survives an outage</h1><p \
         class=\"lead\">{} simultaneous calls across an ocean. Every path loses 1 % of its packets in \
         bursts; one path has an outage of {outage_seconds:.0} seconds. Real processes, real UDP, {video}, \
         in real time.</p>{notices}<div class=\"tiles\">{tiles}</div></header>",
        report.pairs
    )
}

/// Returns the warnings before the figures: a test picture instead of footage, failed runs, a busy
/// machine.
fn notices(report: &ReportData) -> String {
    let test_picture = "No real footage found: this is a test picture of ffmpeg. <code>make \
                        demo</code> downloads a video, and <code>--video FILE</code> sends one of \
                        yours.";
    let mut notices: Vec<String> = Vec::new();
    notices.extend((!report.has_real_footage).then(|| test_picture.to_owned()));
    for FailedRun { service, error } in &report.result.failed {
        notices.push(format!("{} failed: {}", title(*service), escaped(error)));
    }
    let spoiled = spoiled(report);
    if !spoiled.is_empty() {
        let words: Vec<String> = spoiled.iter().map(|words| escaped(words)).collect();
        let busy = "This machine was too busy to send packets on time: expect better numbers on an \
                    idle one. Affected figures:";
        notices.push(format!("{busy}<br>{}", words.join("<br>")));
    }
    notices.iter().fold(String::new(), |mut text, words| {
        let _ = write!(text, "<p class=\"notice\">{words}</p>");
        text
    })
}

fn tile(tiles: &mut String, value: &str, words: &str) {
    // Writing to a string cannot fail.
    let _ = write!(tiles, "<div><b>{value}</b><span>{words}</span></div>");
}

fn pictures(report: &ReportData) -> String {
    let mut figures = String::new();
    picture(&mut figures, Some(&report.original), "Original", &Caption::Text("as sent".into()));
    for (result, run) in report.runs() {
        picture(&mut figures, run.picture.as_deref(), title(result.service), &caption(report, run));
    }
    format!(
        "<section><h2>Picture {:.1} seconds into the outage</h2><p>The same moment in every run, as \
         the viewer at the end of the path with the outage sees it.</p><div \
         class=\"pictures\">{figures}</div></section>",
        report.picture_at - report.outage.0
    )
}

/// Shortest freeze that a viewer notices, in seconds.
const A_MOMENT: f64 = 0.2;

/// Text below a picture of the report.
enum Caption {
    Text(String),
    /// Picture of a frozen video: seconds of the freeze so far, and the picture's quality.
    Frozen(f64, String),
}

fn picture(figures: &mut String, jpeg: Option<&[u8]>, name: &str, caption: &Caption) {
    let name = escaped(name);
    let image = match jpeg {
        Some(jpeg) => {
            let data = BASE64.encode(jpeg);
            format!("<img alt=\"{name}: the picture on the screen\" src=\"data:image/jpeg;base64,{data}\">")
        }
        None => "<div class=\"nothing\">no picture</div>".into(),
    };
    let (class, badge, words) = match caption {
        Caption::Text(words) => ("", String::new(), words.clone()),
        Caption::Frozen(seconds, words) => {
            ("frozen", format!("<span class=\"badge\">frozen for {seconds:.1} s</span>"), words.clone())
        }
    };
    let _ = write!(
        figures,
        "<figure class=\"{class}\"><div class=\"screen\">{image}{badge}</div><figcaption><b>{name}</b> {words}</figcaption></figure>"
    );
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a frame of a video of a minute, never negative"
)]
fn caption(report: &ReportData, run: &RunReport) -> Caption {
    let frame = (report.picture_at * f64::from(FRAMES_PER_SECOND)) as usize;
    let quality = format!("{} dB", number(run.score.psnr_db.get(frame).copied(), 1));
    let at = report.picture_at;
    let is_now = |freeze: &&Freeze| (freeze.from + A_MOMENT..freeze.from + freeze.seconds).contains(&at);
    let freeze = run.score.freezes.iter().find(is_now);
    match freeze {
        Some(freeze) => Caption::Frozen(at - freeze.from, quality),
        None => Caption::Text(quality),
    }
}

fn numbers(report: &ReportData) -> String {
    let mut rows = String::new();
    for (result, run) in report.runs() {
        let frozen = run.score.frozen_seconds();
        let _ = write!(
            rows,
            "<tr><th>{}<small>{}</small></th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{frozen:.1}</td></tr>",
            named(result, run),
            explanation(result.service),
            count(result.lost_direct),
            count(result.repaired_in_time),
            count(result.late + result.unrepaired),
            run.within_rtt.map_or_else(|| "–".into(), percent),
            number(result.repair_ms.p50, 0),
            number(result.repair_ms.p95, 0),
            number(result.psnr_db.mean, 1),
            number(result.psnr_db.p5, 1),
        );
    }
    rows += &failed(report);
    format!(
        "<section><h2>Results</h2><div \
         class=\"wide\"><table><thead><tr><th>run</th><th>lost</th><th>repaired in time</th><th>late or \
         never</th><th>within one RTT</th><th>repair p50, ms</th><th>repair p95, ms</th><th>PSNR mean, \
         dB</th><th>PSNR p5, dB</th><th>frozen, \
         s</th></tr></thead><tbody>{rows}</tbody></table></div><p class=\"small\">Packets of all pairs, \
         of {} that each run sends (one pair alone: {}); the picture is that of the pair whose path has \
         the outage.</p></section>",
        count(packets_sent(report, RunKind::Coding)),
        count(packets_sent(report, RunKind::Lone)),
    )
}

/// Returns the title of a run, with an asterisk if a busy machine spoiled its figures.
fn named(result: &RunResult, run: &RunReport) -> String {
    let mark = if is_spoiled(result, run) { " *" } else { "" };
    format!("{}{mark}", title(result.service))
}

/// Renders a table row for each run without a result.
fn failed(report: &ReportData) -> String {
    report.result.failed.iter().fold(String::new(), |mut rows, FailedRun { service, .. }| {
        let _ = write!(rows, "<tr><th>{}</th><td>failed</td><td colspan=\"8\"></td></tr>", title(*service));
        rows
    })
}

fn packets_sent(report: &ReportData, kind: RunKind) -> u64 {
    report.run(kind).map_or(0, |(result, _)| result.sent)
}

fn costs(report: &ReportData) -> String {
    let forwarding = report.run(RunKind::Forwarding);
    let mut rows = String::new();
    for (result, run) in report.runs().filter(|(result, _)| is_billed(result)) {
        let _ = write!(
            rows,
            "<tr><th>{}</th><td>{}</td>",
            title(result.service),
            megabytes(result.relay_egress_bytes)
        );
        let of_forwarding =
            forwarding.and_then(|(whole, _)| share(result.relay_egress_bytes, whole.relay_egress_bytes));
        let _ = write!(rows, "<td>{}</td>", of_forwarding.map_or_else(|| "–".into(), percent));
        for list in &PRICE_LISTS {
            let _ = write!(rows, "<td>{:.1} ¢</td>", list.cents_per_hour(&run.traffic, report.seconds));
        }
        rows.push_str("</tr>");
    }
    let heads = PRICE_LISTS.map(|list| format!("<th>{}</th>", list.provider)).concat();
    let sources =
        PRICE_LISTS.map(|list| format!("{}: {} ({})", list.provider, list.regions, list.source)).join("; ");
    let keys = format!(
        "<p>Bytes of IP packets, including all headers: {}, {}, {}, {}. Cloud providers charge for \
         the last two.</p>",
        key("segment-direct", "direct paths"),
        key("segment-uplink", "agents to relays"),
        key("segment-between", "relay to relay"),
        key("segment-down", "relays to agents"),
    );
    let table = format!(
        "<h3>Cost</h3><p>Bytes that relays send, and the list price of an hour of {} calls.</p><div \
         class=\"wide\"><table><thead><tr><th>run</th><th>relays send</th><th>of \
         forwarding</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div><p \
         class=\"small\">Egress only, first tier, ingress relay in the eastern United States, egress \
         relay in western Europe: {sources}.</p>",
        report.pairs
    );
    format!(
        "<section><h2>Bytes and cost</h2>{keys}<figure>{}</figure>{table}</section>",
        charts::bytes(report)
    )
}

fn is_billed(result: &RunResult) -> bool {
    matches!(result.service, RunKind::Internet | RunKind::Coding | RunKind::Caching | RunKind::Forwarding)
}

fn relays_killed(report: &ReportData) -> String {
    let Some(after) = report.after_kill() else { return String::new() };
    let (class, verdict) = if after.is_no_worse() {
        ("good", "No application lost more packets than on the Internet alone.".into())
    } else {
        let pairs = (after.pairs_worse, report.pairs);
        ("bad", format!("{} of {} pairs lost more packets than on the Internet alone.", pairs.0, pairs.1))
    };
    format!(
        "<section><h2>Failure of both relays</h2><p>Byway must never be worse than the Internet \
         alone. Both relays were killed {:.1} seconds into the call. Of {} packets sent from then on, \
         the direct paths lost {}, and the applications missed {}: {} arrived late and {} never, \
         because of losses in the emulated network or elsewhere on the path. Each pair is compared with \
         its own direct path in the same run.</p><p class=\"{class}\">{verdict}</p></section>",
        after.killed_ms / 1e3,
        count(after.sent),
        count(after.lost_direct),
        count(after.late + after.unrepaired),
        count(after.late),
        count(after.unrepaired),
    )
}

fn lone(report: &ReportData) -> String {
    let Some((result, run)) = report.run(RunKind::Lone) else { return String::new() };
    let mut words = String::new();
    for note in &run.notes {
        let _ = write!(words, "<blockquote>{}</blockquote>", escaped(note));
    }
    let notes = if words.is_empty() {
        String::new()
    } else {
        format!("<p>Output of <code>byway status</code>:</p>{words}")
    };
    format!(
        "<section><h2>A single pair</h2><p>Coding needs packets of other calls that are not lost at \
         the same time. A single pair has only the few repair packets of its own flow. These repair \
         single losses, but neither bursts nor the first half second of an outage; after that, relays \
         forward what the direct path loses. Of {} lost packets, {} were repaired in time. A single \
         pair should use caching.</p>{notes}</section>",
        count(result.lost_direct),
        count(result.repaired_in_time),
    )
}

fn method(report: &ReportData) -> String {
    let late: u64 = report.runs.iter().map(|run| run.lateness.p99_us).max().unwrap_or_default();
    let delay = report.added_delay.map_or_else(String::new, |delay| {
        format!(
            "<li>Added delay: from application to application on a network without loss, p50 {:.2} ms \
             with Byway and {:.2} ms without, p99 {:.2} ms and {:.2} ms.</li>",
            delay.byway_p50, delay.plain_p50, delay.byway_p99, delay.plain_p99
        )
    });
    format!(
        "<section><h2>Method</h2><ul><li>{}.</li><li>A controller, two relays and {} agents as \
         processes of this machine; an emulator between them forwards every packet. Round trip {:.0} \
         ms, to the near relays 10 to 20 ms, jitter 0 to 5 ms.</li><li>Direct paths lose 1 % in bursts \
         of 3 packets in the mean, as a function of seed ({}) and time: every run has the same losses. \
         All other segments lose 0.1 %.</li><li>Losses are counted in the emulator, deliveries by the \
         applications. A packet that arrives more than {DEADLINE_MS} ms after it was sent counts as \
         lost. Repair time starts when the direct packet was due.</li><li>H.264 in slices, one key \
         frame per second, MPEG-TS at a constant rate of 1.5 Mbit/s; encoded before and decoded after \
         each run. Freeze: gap between frames of at least max(3 x mean, mean + 150 \
         ms).</li>{delay}<li>Lateness of the emulator: p99 at most {:.1} ms in all \
         runs.</li></ul></section>",
        escaped(&report.footage),
        2 * report.pairs,
        report.result.rtt_ms,
        report.result.seed,
        late as f64 / 1e3,
    )
}

const STYLE: &str = include_str!("page.css");
