//! Check of the run with killed relays: their death must cost the applications no more than the
//! direct path loses.

use super::outcomes::DatagramOutcome;
use crate::demo::results::AfterKill;

/// Counts the datagrams sent from the kill on, and compares each pair with its own direct path.
/// Both belong to the same run and so meet the same losses. Times are in milliseconds, `killed_ms`
/// since the start.
pub(crate) fn after_kill(pairs: &[Vec<DatagramOutcome>], killed_ms: f64, deadline_ms: f64) -> AfterKill {
    let mut sum = AfterKill { killed_ms, sent: 0, lost_direct: 0, late: 0, unrepaired: 0, pairs_worse: 0 };
    for pair in pairs {
        let count = |of: &dyn Fn(&DatagramOutcome) -> bool| {
            pair.iter().filter(|fate| fate.sent_ms >= killed_ms && of(fate)).count() as u64
        };
        let lost = count(&|fate| fate.is_lost);
        let late = count(&|fate| fate.delivered_ms.is_some() && !fate.is_in_time(deadline_ms));
        let never = count(&DatagramOutcome::is_missing);
        sum.sent += count(&|_| true);
        sum.lost_direct += lost;
        sum.late += late;
        sum.unrepaired += never;
        sum.pairs_worse += u64::from(late + never > lost);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the outcome of a datagram sent at this time, lost on the direct path or not, and
    /// delivered after so many milliseconds.
    fn fate(sent_ms: f64, is_lost: bool, took_ms: Option<f64>) -> DatagramOutcome {
        let delivered_ms = took_ms.map(|took| sent_ms + took);
        let due_ms = sent_ms + 50.0;
        DatagramOutcome {
            sent_ms,
            due_ms,
            is_lost,
            delivered_ms,
            duplicates: 0,
            repair_method: None,
            is_spoiled: false,
        }
    }

    #[test]
    fn only_what_was_sent_from_the_kill_on_counts() {
        let pair = vec![
            fate(9.0, true, None),
            fate(10.0, true, None),
            fate(11.0, true, Some(90.0)),
            fate(12.0, false, Some(50.0)),
        ];
        let expected =
            AfterKill { killed_ms: 10.0, sent: 3, lost_direct: 2, late: 0, unrepaired: 1, pairs_worse: 0 };
        assert_eq!(after_kill(&[pair], 10.0, 200.0), expected);
    }

    #[test]
    fn one_pair_that_does_worse_is_not_made_up_for_by_others() {
        let good = vec![fate(1.0, true, Some(90.0)), fate(2.0, true, Some(90.0))];
        let harmed = vec![fate(1.0, true, None), fate(2.0, false, None)];
        let found = after_kill(&[good, harmed], 0.0, 200.0);
        assert_eq!((found.lost_direct, found.unrepaired, found.pairs_worse), (3, 2, 1));
        assert!(!found.is_no_worse());
    }

    #[test]
    fn what_comes_late_is_lost_to_the_viewer() {
        let found = after_kill(&[vec![fate(1.0, false, Some(201.0)), fate(2.0, true, None)]], 0.0, 200.0);
        assert_eq!((found.late, found.unrepaired, found.pairs_worse), (1, 1, 1));
        let lost_anyway = after_kill(&[vec![fate(1.0, true, Some(201.0))]], 0.0, 200.0);
        assert_eq!((lost_anyway.late, lost_anyway.is_no_worse()), (1, true));
    }
}
