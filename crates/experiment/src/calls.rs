//! Scores of calls that were measured elsewhere, by the E-model.

use core::fmt;

use serde::Serialize;

use crate::classes::mos::{Call, mean_opinion};
use crate::findings::number;

/// Scores of measured calls, as means over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CallScores {
    /// Number of calls in the list.
    pub calls: u64,
    /// Mean opinion score, 1 to 4.5, by the E-model (ITU-T G.107) for AMR at 12.2 kbit/s.
    pub mos: f64,
    /// Mean opinion score of the worst call.
    pub mos_min: f64,
    /// Mouth-to-ear delay in milliseconds, including the codec and the receiver's playout delay.
    pub delay_ms: f64,
    /// Share of packets that are lost, or arrive after their playout time.
    pub loss: f64,
}

/// Error in the list of measured calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// Number of the line in the list, from 1; `None` if the list has no call at all.
    line: Option<usize>,
    /// Word of the line that is no delay.
    text: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(
                f,
                "line {line}: invalid delay {:?}: write the milliseconds of each packet of the call, \
                 as 41.2, or lost",
                self.text
            ),
            None => write!(f, "no calls found: write one in each line"),
        }
    }
}

impl core::error::Error for CallError {}

/// Scores calls. Each line is a call: the delays of its packets in milliseconds, or `lost`,
/// separated by blanks. A packet holds 20 ms of speech. The receiver's playout delay is fixed and
/// chosen for the best score.
///
/// # Errors
/// If a line contains anything else.
pub fn score_calls(text: &str) -> Result<CallScores, CallError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let calls =
        lines.map(|(index, line)| call(line).map_err(|text| CallError { line: Some(index + 1), text }));
    let calls = calls.collect::<Result<Vec<Call>, CallError>>()?;
    if calls.is_empty() {
        return Err(CallError { line: None, text: String::new() });
    }
    let count = calls.len() as u64;
    let mean = |of: &dyn Fn(&Call) -> f64| calls.iter().map(of).sum::<f64>() / number(count);
    Ok(CallScores {
        calls: count,
        mos: mean(&mean_opinion),
        mos_min: calls.iter().map(mean_opinion).fold(f64::INFINITY, f64::min),
        delay_ms: mean(&|call| call.delay_ms),
        loss: mean(&|call| call.loss),
    })
}

fn call(line: &str) -> Result<Call, String> {
    let delay = |word: &str| match word {
        "lost" => Ok(None),
        word => match word.parse::<f64>() {
            Ok(delay) if delay.is_finite() && delay >= 0.0 => Ok(Some(delay)),
            _ => Err(word.to_owned()),
        },
    };
    let delays = line.split_whitespace().map(delay).collect::<Result<Vec<_>, _>>()?;
    Ok(Call::of(&delays))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_sounds_as_its_delays_and_losses_let_it() {
        let good = "40 ".repeat(100);
        let scores = score_calls(&good).expect("a call");
        assert_eq!((scores.calls, scores.loss, scores.delay_ms), (1, 0.0, 65.0));
        assert!((4.2..4.3).contains(&scores.mos), "{scores:?}");
        let both =
            score_calls(&format!("{good}\n\n{}\n", "40 40 40 40 lost ".repeat(20))).expect("two calls");
        assert_eq!((both.calls, both.delay_ms), (2, 65.0));
        assert!((both.loss - 0.1).abs() < 1e-9 && both.mos_min < 3.0 && both.mos > both.mos_min, "{both:?}");
    }

    #[test]
    fn a_receiver_does_not_wait_for_the_last_packet_if_that_sounds_worse() {
        let late = format!("{}2000 ", "40 ".repeat(999));
        let scores = score_calls(&late).expect("a call");
        assert!(scores.delay_ms < 70.0 && scores.loss > 0.0, "{scores:?}");
    }

    #[test]
    fn what_is_no_call_is_named() {
        for (text, words) in [
            ("", "no calls"),
            ("40\n40 x", "line 2: invalid delay \"x\""),
            ("-1", "\"-1\""),
            ("40 inf", "\"inf\""),
        ] {
            let message = score_calls(text).expect_err(text).to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
