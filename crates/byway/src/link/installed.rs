//! What is put at a device, and how what was there before is put back.

use byway_net::{Filter, LinkDevice, LinkError, Qdisc, TrafficControl};

use super::classifier::Classifier;
use super::record::{FILTER_NAME, Record};
use super::sharing::{CLASSES, DEFAULT_CLASS, HANDLE, QUEUES, Shares, Step};
use crate::exit::{Cause, Failure};

/// Roots that have no classes and that take back word for word what they say of themselves: only these are put aside.
const RESTORABLE: [&str; 9] =
    ["bfifo", "codel", "fq", "fq_codel", "noqueue", "pfifo", "pfifo_fast", "pfifo_head_drop", "pie"];

/// Options of codel that are times: target, interval and threshold of CE marks (`TCA_CODEL_...` in `linux/pkt_sched.h`).
const CODEL_TIMES: [u16; 3] = [1, 3, 5];

/// The same of `fq_codel`.
const FQ_CODEL_TIMES: [u16; 3] = [1, 3, 7];

/// What belongs at the root while a link is attached.
const KIND: &str = "htb";

/// The place of filters.
const CLSACT: &str = "clsact";

/// Most segments of a joined packet that the kernel lets any device have (`GSO_MAX_SEGS`).
const SEGMENTS_MAX: u32 = 65_535;

/// Says what is at a device, to be put back.
///
/// # Errors
/// If somebody has put something there that is not replaced, or cannot be put back.
pub(super) fn examine(
    control: &mut TrafficControl,
    device: &LinkDevice,
    record: Record,
    replaces: bool,
) -> Result<Record, Failure> {
    let name = &device.name;
    let all = control.qdiscs(device.index).map_err(|error| of_device(name, &error))?;
    let root = all.iter().find(|qdisc| qdisc.is_root() && qdisc.handle != 0);
    if let Some(root) = root {
        check_root(name, root, replaces)?;
    }
    let filters = all.iter().find(|qdisc| qdisc.is_for_filters());
    if let Some(other) = filters.filter(|qdisc| qdisc.kind != CLSACT) {
        let message = format!(
            "{name} has a qdisc of kind {} where clsact has to be, which takes filters of both directions: replace it (tc qdisc del dev {name} ingress; \
             tc qdisc add dev {name} clsact) and add its filters again",
            other.kind
        );
        return Err(Failure::new(Cause::Machine, message));
    }
    let mut taken = Vec::new();
    if filters.is_some() {
        let [leaving, _] = control.filters(device.index).map_err(|error| of_device(name, &error))?;
        taken = leaving.iter().map(|filter| filter.priority).collect();
    }
    let segments_max = device.segments_max.filter(|segments| *segments > 1);
    Ok(record
        .with_root(root)
        .with_filter(filters.is_some(), free_priority(&taken))
        .with_segments(segments_max))
}

fn check_root(name: &str, root: &Qdisc, replaces: bool) -> Result<(), Failure> {
    let called = format!("{} {:x}:", root.kind, root.handle >> 16);
    let is_restorable = RESTORABLE.contains(&root.kind.as_str()) && !root.has_size_table;
    let message = match (is_restorable, replaces) {
        (true, true) => return Ok(()),
        (true, false) => format!(
            "{name} has a qdisc that somebody has put there ({called}): --replace puts it aside for as long as the link is attached, and back \
             afterwards; tc qdisc del dev {name} root removes it"
        ),
        (false, _) => format!(
            "{name} has a qdisc that somebody has put there ({called}), which has classes or could not be put back as it is (only {} can): remove it \
             first (tc qdisc del dev {name} root), and note how to make it again",
            RESTORABLE.join(", ")
        ),
    };
    Err(Failure::new(Cause::Machine, message))
}

/// Before the filters that are there, as one of them may end it for a packet; where there is no number left before them, behind as few as can be.
fn free_priority(taken: &[u16]) -> u16 {
    match taken.iter().min() {
        None => 1,
        Some(first) if *first > 1 => first - 1,
        Some(_) => (2..u16::MAX).find(|priority| !taken.contains(priority)).unwrap_or(u16::MAX),
    }
}

/// Puts everything at a device. What fails leaves the rest to be removed by [`restore`].
///
/// # Errors
/// If the kernel refuses a part.
pub(super) fn install(
    control: &mut TrafficControl,
    record: &Record,
    classifier: &Classifier,
    shares: &Shares,
) -> Result<(), Failure> {
    let failed = |error| of_device(&record.device, &error);
    let index = record.index;
    if record.segments_max.is_some() {
        match control.set_segments_max(index, 1) {
            // Then TCP of this machine sends longer rows, which are counted.
            Err(error @ LinkError::Other { .. }) => {
                tracing::warn!(device = record.device, %error, "segments stay joined");
            }
            set => set.map_err(failed)?,
        }
    }
    if !record.had_clsact {
        control.add_clsact(index).map_err(failed)?;
    }
    let filter = record.filter();
    classifier.with_descriptor(|program| control.add_filter(index, &filter, program))?.map_err(failed)?;
    let replaces = record.root().is_some();
    control.add_htb(index, HANDLE, DEFAULT_CLASS, replaces).map_err(failed)?;
    for shape in shares.shapes() {
        control.set_class(index, &shape).map_err(failed)?;
    }
    for ((class, queue), room) in CLASSES.into_iter().zip(QUEUES).zip(shares.room) {
        control.add_queue(index, class, queue, room).map_err(failed)?;
    }
    Ok(())
}

/// Tells the kernel what has changed; nothing that waits is lost.
///
/// # Errors
/// If the kernel refuses: somebody has changed what is there.
pub(super) fn apply(control: &mut TrafficControl, index: u32, steps: &[Step]) -> Result<(), LinkError> {
    for step in steps {
        match step {
            Step::Class(shape) => control.set_class(index, shape)?,
            Step::Room(place, room) => control.set_queue(index, CLASSES[*place], QUEUES[*place], *room)?,
        }
    }
    Ok(())
}

/// What is missing of what belongs to a device; `None` if all is there.
///
/// # Errors
/// If the kernel does not say, or the device has gone.
pub(super) fn missing(control: &mut TrafficControl, record: &Record) -> Result<Option<String>, LinkError> {
    let index = record.index;
    match control.root(index)? {
        Some(root) if is_ours(&root) => {}
        Some(root) => {
            return Ok(Some(format!("{} {:x}: is at the root", root.kind, root.handle >> 16)));
        }
        None => return Ok(Some("the kernel's own qdisc is at the root".into())),
    }
    let [leaving, _] = filters(control, index)?;
    let is_there = leaving.iter().any(|filter| filter.name == FILTER_NAME);
    Ok((!is_there).then(|| "the filter that chooses classes is not there".into()))
}

fn is_ours(root: &Qdisc) -> bool {
    root.kind == KIND && root.handle == HANDLE
}

/// The filters, none where there is no place for them.
fn filters(control: &mut TrafficControl, index: u32) -> Result<[Vec<Filter>; 2], LinkError> {
    match control.filters(index) {
        Err(error) if error.is_absent() && error != LinkError::NoDevice => Ok([Vec::new(), Vec::new()]),
        filters => filters,
    }
}

/// Puts back what was there, as far as what is there instead is Byway's; what somebody else has put there meanwhile stays. Says what is not as it
/// was.
///
/// # Errors
/// If the kernel refuses a part; what can be done is done before.
pub(super) fn restore(control: &mut TrafficControl, record: &Record) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    let outcomes = [
        restore_root(control, record, &mut notes),
        restore_filters(control, record, &mut notes),
        restore_segments(control, record),
    ];
    let failed = outcomes.into_iter().find_map(Result::err);
    match failed {
        // With the device, all went that was there.
        None | Some(LinkError::NoDevice) => Ok(notes),
        Some(error) => Err(of_device(&record.device, &error)),
    }
}

fn restore_root(
    control: &mut TrafficControl,
    record: &Record,
    notes: &mut Vec<String>,
) -> Result<(), LinkError> {
    let index = record.index;
    // A device that has gone is told of as such.
    control.device_at(index)?;
    let present = control.root(index)?;
    if !present.as_ref().is_some_and(is_ours) {
        let was_changed = match (&present, record.root()) {
            (Some(present), Some(before)) => present.handle != before.handle || present.kind != before.kind,
            (None, None) => false,
            _ => true,
        };
        if was_changed {
            notes.push("somebody has put something else at the root, which stays".into());
        }
        return Ok(());
    }
    let Some(before) = record.root() else {
        return control.delete_root(index, HANDLE);
    };
    let options = before.options.as_deref().map(|options| retold(&before.kind, options));
    if control.put_root_back(index, &Qdisc { options, ..before.clone() }).is_err() {
        // Not every kernel takes back all that it says.
        control.put_root_back(index, &Qdisc { options: None, ..before.clone() })?;
    }
    let again = control.root(index)?;
    if again.is_none_or(|again| again.options != before.options) {
        notes.push(format!(
            "{} is at the root again, but not with all that it was told: look at it",
            before.kind
        ));
    }
    Ok(())
}

/// Options of a qdisc, as the kernel has to be told them to come to what it has said of itself.
///
/// `codel` keeps times in units of 1,024 ns, and cuts off what remains both when it is told microseconds and when it says them: a microsecond more
/// than it has said is what it has. (`codel_time_to_us` in `include/net/codel.h`.)
fn retold(kind: &str, options: &[u8]) -> Vec<u8> {
    let times: &[u16] = match kind {
        "codel" => &CODEL_TIMES,
        "fq_codel" => &FQ_CODEL_TIMES,
        _ => &[],
    };
    let mut told = options.to_vec();
    let mut rest = told.as_mut_slice();
    // An attribute is its length, its number and its value, and begins at a multiple of four bytes (netlink(7)).
    while let [l0, l1, n0, n1, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let next = length.next_multiple_of(4);
        if length < 4 || length > rest.len() {
            break;
        }
        if let ([_, _, _, _, value @ ..], true) =
            (&mut rest[..length], times.contains(&u16::from_ne_bytes([n0, n1])))
            && let Ok(value) = <&mut [u8; 4]>::try_from(value)
        {
            *value = u32::from_ne_bytes(*value).saturating_add(1).to_ne_bytes();
        }
        rest = rest.get_mut(next..).unwrap_or_default();
    }
    told
}

fn restore_filters(
    control: &mut TrafficControl,
    record: &Record,
    notes: &mut Vec<String>,
) -> Result<(), LinkError> {
    let index = record.index;
    let [leaving, coming] = filters(control, index)?;
    let (ours, others): (Vec<_>, Vec<_>) = leaving.into_iter().partition(|filter| filter.name == FILTER_NAME);
    for filter in &ours {
        control.delete_filter(index, filter)?;
    }
    let has_clsact =
        control.qdiscs(index)?.iter().any(|qdisc| qdisc.is_for_filters() && qdisc.kind == CLSACT);
    if record.had_clsact || !has_clsact {
        return Ok(());
    }
    if others.is_empty() && coming.is_empty() {
        return control.delete_clsact(index);
    }
    notes.push("somebody has added filters, which stay, and clsact with them".into());
    Ok(())
}

fn restore_segments(control: &mut TrafficControl, record: &Record) -> Result<(), LinkError> {
    let Some(before) = record.segments_max else {
        return Ok(());
    };
    let is_as_left = control.device_at(record.index)?.segments_max == Some(1);
    if is_as_left { control.set_segments_max(record.index, before) } else { Ok(()) }
}

/// Removes what is Byway's where it is not known what was there before: the kernel has its own root again, and segments are joined as far as the
/// device can. Returns what is to be known about it.
///
/// # Errors
/// If the kernel refuses a part.
pub(super) fn clear(control: &mut TrafficControl, device: &LinkDevice) -> Result<Vec<String>, Failure> {
    let notes = restore(control, &Record::unknown(device))?;
    let failed = |error| of_device(&device.name, &error);
    if control.device_at(device.index).map_err(failed)?.segments_max == Some(1) {
        let set = |segments| control.set_segments_max(device.index, segments);
        largest_taken(set).map_err(failed)?;
    }
    Ok(notes)
}

/// Has the largest number of segments set that a device takes. It refuses more than its own maximum (`tso_max_segs`).
fn largest_taken(mut set: impl FnMut(u32) -> Result<(), LinkError>) -> Result<(), LinkError> {
    let (mut taken, mut limit) = (1, SEGMENTS_MAX + 1);
    let mut attempt = SEGMENTS_MAX;
    while taken + 1 < limit {
        match set(attempt) {
            Ok(()) => taken = attempt,
            Err(LinkError::Other { .. }) => limit = attempt,
            Err(error) => return Err(error),
        }
        attempt = taken.midpoint(limit);
    }
    Ok(())
}

/// What is there of Byway's without a record: of an attach whose file was removed.
///
/// # Errors
/// If the kernel does not say.
pub(super) fn is_leftover(control: &mut TrafficControl, index: u32) -> Result<bool, LinkError> {
    let root = control.root(index)?;
    let [leaving, _] = filters(control, index)?;
    Ok(root.as_ref().is_some_and(is_ours) || leaving.iter().any(|filter| filter.name == FILTER_NAME))
}

/// An error, with the device that it is about.
pub(super) fn of_device(name: &str, error: &LinkError) -> Failure {
    let cause = if *error == LinkError::NoDevice { Cause::Settings } else { Cause::Machine };
    Failure::new(cause, format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byways_filter_comes_before_those_that_are_there_if_it_can() {
        let cases: [(&[u16], u16); 5] =
            [(&[], 1), (&[5, 9], 4), (&[49_152], 49_151), (&[1], 2), (&[1, 2, 4], 3)];
        for (taken, free) in cases {
            assert_eq!(free_priority(taken), free, "{taken:?}");
        }
    }

    #[test]
    fn a_device_gets_as_many_segments_as_it_takes() {
        for most in [1, 2, 44, 64, 65_534, SEGMENTS_MAX] {
            let mut last = 1;
            let set = |segments| {
                if segments > most {
                    return Err(LinkError::Other {
                        doing: "setting",
                        error: rustix::io::Errno::INVAL,
                        said: String::new(),
                    });
                }
                last = segments;
                Ok(())
            };
            largest_taken(set).expect("it takes some");
            assert_eq!(last, most);
        }
        assert_eq!(largest_taken(|_| Err(LinkError::NoDevice)), Err(LinkError::NoDevice));
    }

    /// Attributes with a word each, after one of a single byte.
    fn options(words: &[(u16, u32)]) -> Vec<u8> {
        let mut options = [5_u16, 8].map(u16::to_ne_bytes).concat();
        options.extend([9, 0, 0, 0]);
        for (number, word) in words {
            options.extend([8_u16, *number].map(u16::to_ne_bytes).concat());
            options.extend(word.to_ne_bytes());
        }
        options
    }

    #[test]
    fn codel_is_told_what_makes_it_keep_the_times_that_it_had() {
        let kept = |told_us: u32| u32::try_from((u64::from(told_us) * 1_000) >> 10).expect("it fits");
        let said_us = |kept: u32| u32::try_from((u64::from(kept) << 10) / 1_000).expect("it fits");
        for typed_us in (0..200_000).chain([1_000_000, 4_000_000_000]) {
            let before = kept(typed_us);
            assert_eq!(kept(said_us(before) + 1), before, "{typed_us}");
        }
        let said = options(&[(1, 4_999), (2, 10_240), (3, 99_999), (5, 1), (7, 999)]);
        let codel = options(&[(1, 5_000), (2, 10_240), (3, 100_000), (5, 2), (7, 999)]);
        let fq_codel = options(&[(1, 5_000), (2, 10_240), (3, 100_000), (5, 1), (7, 1_000)]);
        assert_eq!(retold("codel", &said), codel);
        assert_eq!(retold("fq_codel", &said), fq_codel);
        assert_eq!(retold("pie", &said), said);
    }

    #[test]
    fn options_that_end_early_are_told_as_they_are() {
        let said = options(&[(1, 4_999)]);
        for length in 0..said.len() {
            assert_eq!(retold("codel", &said[..length]), said[..length]);
        }
        for odd in [&[0_u8; 9][..], &[3, 0, 1, 0, 7, 7, 7, 7], &[255, 255, 1, 0, 1, 2, 3, 4]] {
            assert_eq!(retold("codel", odd), odd);
        }
    }

    #[test]
    fn what_is_at_the_root_is_put_aside_only_if_it_can_be_put_back_and_that_is_wanted() {
        let root = |kind: &str| Qdisc {
            kind: kind.into(),
            handle: 0x8001_0000,
            parent: u32::MAX,
            options: None,
            has_size_table: false,
        };
        assert!(check_root("wan0", &root("pfifo"), true).is_ok());
        let said = check_root("wan0", &root("pfifo"), false).expect_err("nobody said so").to_string();
        assert!(said.contains("pfifo 8001:") && said.contains("--replace"), "{said}");
        for root in [root("htb"), root("tbf"), Qdisc { has_size_table: true, ..root("pfifo") }] {
            let said = check_root("wan0", &root, true).expect_err("it cannot").to_string();
            assert!(said.contains("could not be put back") && said.contains("tc qdisc del"), "{said}");
        }
    }
}
