//! The page: one file that needs nothing else.

use std::fmt::Write as _;

use byway_plot::{PAGE_STYLE, escaped};
use data_encoding::BASE64;

use super::charts;
use super::spoiled::{is_spoiled, spoiled};
use super::story::{RunStory, Story};
use super::words::{count, explanation, megabytes, number, percent, share, title};
use crate::demo::media::{FRAMES_PER_SECOND, Freeze};
use crate::demo::plan::DEADLINE_MS;
use crate::demo::prices::PRICE_LISTS;
use crate::demo::results::{FailedRun, RunKind, RunResult};

/// The whole report as HTML.
pub(crate) fn page(story: &Story) -> String {
    let sections = [
        head(story),
        pictures(story),
        section(
            "The picture, frame by frame",
            &format!(
                "<p>How much each of the {FRAMES_PER_SECOND} frames a second resembles the original (PSNR in dB; above 35 is good, below 25 bad). The \
                 grey band is the outage of the path that is looked at; where it is red, the picture stood still.</p>"
            ),
            &charts::psnr(story),
        ),
        numbers(story),
        section(
            "What was lost, and what became of it",
            &format!(
                "<p>Packets lost on the direct paths of all pairs, in each half second: {}, {}, {}. With forwarding, nothing is sent on \
                 direct paths: what they would have lost.</p>",
                key("repaired", "repaired before the deadline"),
                key("late", "repaired too late"),
                key("missing", "never seen again"),
            ),
            &charts::losses(story),
        ),
        section(
            "How fast",
            "<p>The share of all lost packets that is repaired so long after it was due. No cooperative repair can be faster than \
             the floor: to notice the gap, ask the relay, and have it ask the others.</p>",
            &charts::repair_times(story),
        ),
        costs(story),
        relays_killed(story),
        lone(story),
        method(story),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>Byway: a video call survives an outage</title><style>{PAGE_STYLE}{STYLE}</style></head><body><main>{}</main></body></html>\n",
        sections.concat()
    )
}

/// A colour of a drawing and what it means.
fn key(class: &str, words: &str) -> String {
    format!("<span class=\"keyed\"><i class=\"key {class}\"></i> {words}</span>")
}

fn section(heading: &str, introduction: &str, body: &str) -> String {
    format!("<section><h2>{heading}</h2>{introduction}<figure>{body}</figure></section>")
}

fn head(story: &Story) -> String {
    let dark = story.outage.1 - story.outage.0;
    let mut tiles = String::new();
    if let (Some((coding, run)), Some((forwarding, _))) =
        (story.run(RunKind::Coding), story.run(RunKind::Forwarding))
    {
        let repaired = run.within_rtt.map_or_else(|| "–".into(), percent);
        tile(&mut tiles, &repaired, "of all lost packets are back within one round trip");
        let bytes = share(coding.relay_egress_bytes, forwarding.relay_egress_bytes);
        let bytes = bytes.map_or_else(|| "–".into(), percent);
        tile(&mut tiles, &bytes, "of the bytes that relays send when they forward everything");
    }
    if let Some(((_, coding), (_, internet))) = story.run(RunKind::Coding).zip(story.run(RunKind::Internet)) {
        let value = format!("{} dB", number(story.psnr_in_outage(coding), 1));
        let alone = number(story.psnr_in_outage(internet), 1);
        tile(&mut tiles, &value, &format!("PSNR while the path is dark; {alone} dB without Byway"));
    }
    if let Some(delay) = story.added_delay {
        let added = (delay.byway_p99 - delay.plain_p99).max(0.0);
        tile(&mut tiles, &format!("{added:.2} ms"), "added to the delay (p99) where nothing is lost");
    }
    let video = if story.has_real_footage { "real video" } else { "H.264 video" };
    let notices = notices(story);
    format!(
        "<header><p class=\"brand\">Byway</p><h1>A video call survives an outage</h1><p class=\"lead\">{} calls at once, from one \
         side of an ocean to the other. Every path loses 1 % of its packets in bursts; one path is dark for {dark:.0} seconds. \
         Real processes, real UDP, {video}, in real time.</p>{notices}<div class=\"tiles\">{tiles}</div></header>",
        story.pairs
    )
}

/// What has to be known before the numbers are believed.
fn notices(story: &Story) -> String {
    let test_picture = "This is a test picture that ffmpeg draws, not real footage: there was none. <code>make demo</code> fetches a \
                        video if it can, and <code>--video FILE</code> sends one of yours.";
    let mut notices: Vec<String> = Vec::new();
    notices.extend((!story.has_real_footage).then(|| test_picture.to_owned()));
    for FailedRun { service, error } in &story.result.failed {
        notices.push(format!("{} failed: {}", title(*service), escaped(error)));
    }
    let spoiled = spoiled(story);
    if !spoiled.is_empty() {
        let words: Vec<String> = spoiled.iter().map(|words| escaped(words)).collect();
        let busy = "This machine was too busy to keep time well: expect better numbers on an idle one. What it spoiled:";
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

fn pictures(story: &Story) -> String {
    let mut figures = String::new();
    picture(&mut figures, Some(&story.original), "Original", &Caption::Text("what was sent".into()));
    for (result, run) in story.runs() {
        picture(&mut figures, run.picture.as_deref(), title(result.service), &caption(story, run));
    }
    format!(
        "<section><h2>On the screen, {:.1} seconds into the outage</h2><p>The same moment in every run, as the viewer of the call sees \
         it whose path is dark.</p><div class=\"pictures\">{figures}</div></section>",
        story.picture_at - story.outage.0
    )
}

/// Until a viewer notices that a picture stands still, in seconds.
const A_MOMENT: f64 = 0.2;

/// What is said below a picture.
enum Caption {
    Text(String),
    /// The picture stands still since so many seconds, and is worth this.
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
fn caption(story: &Story, run: &RunStory) -> Caption {
    let frame = (story.picture_at * f64::from(FRAMES_PER_SECOND)) as usize;
    let worth = format!("{} dB", number(run.score.psnr_db.get(frame).copied(), 1));
    let at = story.picture_at;
    let is_now = |freeze: &&Freeze| (freeze.from + A_MOMENT..freeze.from + freeze.seconds).contains(&at);
    let freeze = run.score.freezes.iter().find(is_now);
    match freeze {
        Some(freeze) => Caption::Frozen(at - freeze.from, worth),
        None => Caption::Text(worth),
    }
}

fn numbers(story: &Story) -> String {
    let mut rows = String::new();
    for (result, run) in story.runs() {
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
    rows += &failed(story);
    format!(
        "<section><h2>In numbers</h2><div class=\"wide\"><table><thead><tr><th>run</th><th>lost</th><th>back in time</th>\
         <th>late or never</th><th>within one RTT</th><th>repair p50, ms</th><th>repair p95, ms</th><th>PSNR mean, dB</th><th>PSNR p5, dB\
         </th><th>frozen, s</th></tr></thead><tbody>{rows}</tbody></table></div><p class=\"small\">Packets of all pairs, of {} that \
         each run sends (one pair alone: {}); the picture is that of the pair whose path goes dark.</p></section>",
        count(sent(story, RunKind::Coding)),
        count(sent(story, RunKind::Lone)),
    )
}

/// The name of a run, with a mark if its figures are spoiled.
fn named(result: &RunResult, run: &RunStory) -> String {
    let mark = if is_spoiled(result, run) { " *" } else { "" };
    format!("{}{mark}", title(result.service))
}

/// A row for each run without a result.
fn failed(story: &Story) -> String {
    story.result.failed.iter().fold(String::new(), |mut rows, FailedRun { service, .. }| {
        let _ = write!(rows, "<tr><th>{}</th><td>failed</td><td colspan=\"8\"></td></tr>", title(*service));
        rows
    })
}

fn sent(story: &Story, kind: RunKind) -> u64 {
    story.run(kind).map_or(0, |(result, _)| result.sent)
}

fn costs(story: &Story) -> String {
    let forwarding = story.run(RunKind::Forwarding);
    let mut rows = String::new();
    for (result, run) in story.runs().filter(|(result, _)| is_billed(result)) {
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
            let _ = write!(rows, "<td>{:.1} ¢</td>", list.cents_per_hour(&run.traffic, story.seconds));
        }
        rows.push_str("</tr>");
    }
    let heads = PRICE_LISTS.map(|list| format!("<th>{}</th>", list.provider)).concat();
    let sources =
        PRICE_LISTS.map(|list| format!("{}: {} ({})", list.provider, list.regions, list.source)).join("; ");
    let keys = format!(
        "<p>Bytes of IP packets, headers and everything else included: {}, {}, {}, {}. Clouds charge for the last two.</p>",
        key("segment-direct", "direct paths"),
        key("segment-uplink", "agents to relays"),
        key("segment-between", "relay to relay"),
        key("segment-down", "relays to agents"),
    );
    let table = format!(
        "<h3>The bill</h3><p>What relays send, and an hour of {} calls at list prices for it.</p><div class=\"wide\"><table><thead>\
         <tr><th>run</th><th>relays send</th><th>of forwarding</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>\
         <p class=\"small\">Egress only, first tier, ingress relay in the eastern United States, egress relay in western \
         Europe: {sources}.</p>",
        story.pairs
    );
    format!("<section><h2>What it costs</h2>{keys}<figure>{}</figure>{table}</section>", charts::bytes(story))
}

fn is_billed(result: &RunResult) -> bool {
    matches!(result.service, RunKind::Internet | RunKind::Coding | RunKind::Caching | RunKind::Forwarding)
}

fn relays_killed(story: &Story) -> String {
    let Some(after) = story.after_kill() else { return String::new() };
    let (class, verdict) = if after.is_no_worse() {
        ("good", "No application lost more than on the Internet alone.".into())
    } else {
        let pairs = (after.pairs_worse, story.pairs);
        ("bad", format!("{} of {} pairs lost more than on the Internet alone.", pairs.0, pairs.1))
    };
    format!(
        "<section><h2>When the relays die</h2><p>Byway must never be worse than not having it. Both relays were killed {:.1} seconds \
         into the call. Of {} packets sent from then on, the direct paths lost {}, and the applications missed {}: {} came late and {} \
         never, lost in the emulated network or anywhere else on the way. Each pair is compared with its own direct path in the same \
         run.</p><p class=\"{class}\">{verdict}</p></section>",
        after.killed_ms / 1e3,
        count(after.sent),
        count(after.lost_direct),
        count(after.late + after.unrepaired),
        count(after.late),
        count(after.unrepaired),
    )
}

fn lone(story: &Story) -> String {
    let Some((result, run)) = story.run(RunKind::Lone) else { return String::new() };
    let mut words = String::new();
    for note in &run.notes {
        let _ = write!(words, "<blockquote>{}</blockquote>", escaped(note));
    }
    let said = if words.is_empty() {
        String::new()
    } else {
        format!("<p>What <code>byway status</code> says:</p>{words}")
    };
    format!(
        "<section><h2>One pair alone</h2><p>Coding needs others: packets of calls that are not lost at the same time. A pair with \
         nobody beside it has only the few repair packets that its own traffic pays for. They mend single losses, not bursts, and not the \
         first half second of an outage, after which relays carry what the dark path loses: of {} lost packets, {} came back in \
         time. A lone pair should use caching.</p>{said}</section>",
        count(result.lost_direct),
        count(result.repaired_in_time),
    )
}

fn method(story: &Story) -> String {
    let late: u64 = story.runs.iter().map(|run| run.lateness.p99_us).max().unwrap_or_default();
    let delay = story.added_delay.map_or_else(String::new, |delay| {
        format!(
            "<li>Added delay: from application to application on a network that loses nothing, p50 {:.2} ms with Byway and {:.2} ms \
             without, p99 {:.2} ms and {:.2} ms.</li>",
            delay.byway_p50, delay.plain_p50, delay.byway_p99, delay.plain_p99
        )
    });
    format!(
        "<section><h2>How it was measured</h2><ul><li>{}.</li><li>A controller, two relays and {} agents as processes of this \
         machine; an emulator between them carries every packet. Round trip {:.0} ms, to the near relays 10 to 20 ms, jitter 0 to 5 ms.\
         </li><li>Direct paths lose 1 % in bursts of 3 packets in the mean, as a function of seed ({}) and time: every run meets the same \
         losses. All other segments lose 0.1 %.</li><li>Losses are counted in the emulator, deliveries by the applications. What \
         comes more than {DEADLINE_MS} ms after it was sent is lost. Repair time begins when the direct copy was due.</li>\
         <li>H.264 in slices, a key frame every second, MPEG-TS at a constant rate of 1.5 Mbit/s; encoded before and decoded after \
         each run. Freeze: a gap between frames of max(3 x mean, mean + 150 ms) or more.</li>{delay}<li>The emulator was at most {:.1} ms \
         late for 99 % of its packets, in the worst run.</li></ul></section>",
        escaped(&story.footage),
        2 * story.pairs,
        story.result.rtt_ms,
        story.result.seed,
        late as f64 / 1e3,
    )
}

const STYLE: &str = include_str!("page.css");
