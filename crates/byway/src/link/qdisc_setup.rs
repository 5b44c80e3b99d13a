//! Installation of Byway's qdiscs, classes and filters at a device, and restoration of the device's
//! former state.

use byway_net::{Filter, LinkDevice, LinkError, Qdisc, TrafficControl};

use super::classifier::Classifier;
use super::record::{AttachRecord, FILTER_NAME};
use super::sharing::{CLASSES, DEFAULT_CLASS, HANDLE, KernelUpdate, LinkShares, QUEUES};
use crate::exit::{Cause, Failure};

/// Kinds of classless root qdiscs that accept the options which they report. Byway replaces only
/// these, because it can restore them.
const RESTORABLE: [&str; 9] =
    ["bfifo", "codel", "fq", "fq_codel", "noqueue", "pfifo", "pfifo_fast", "pfifo_head_drop", "pie"];

/// Numbers of codel's options that are times: target, interval and threshold of CE marks
/// (`TCA_CODEL_...` in `linux/pkt_sched.h`).
const CODEL_TIMES: [u16; 3] = [1, 3, 5];

/// Numbers of `fq_codel`'s options that are times, as for codel.
const FQ_CODEL_TIMES: [u16; 3] = [1, 3, 7];

/// Kind of a device's root qdisc while a link is attached.
const ROOT_KIND: &str = "htb";

/// Kind of the qdisc to which filters are attached.
const CLSACT: &str = "clsact";

/// Maximum number of segments in a joined packet (GSO) that the kernel permits on any device
/// (`GSO_MAX_SEGS`).
const GSO_MAX_SEGS: u32 = 65_535;

/// Adds a device's state to its record, from which it can be restored later. `replaces` permits to
/// replace a foreign qdisc.
///
/// # Errors
/// If another program has installed a qdisc that is not to be replaced, or cannot be restored.
pub(super) fn examine(
    control: &mut TrafficControl,
    device: &LinkDevice,
    record: AttachRecord,
    replaces: bool,
) -> Result<AttachRecord, Failure> {
    let name = &device.name;
    let all = control.qdiscs(device.index).map_err(|error| device_failure(name, &error))?;
    let root = all.iter().find(|qdisc| qdisc.is_root() && qdisc.handle != 0);
    if let Some(root) = root {
        check_root(name, root, replaces)?;
    }
    let filters = all.iter().find(|qdisc| qdisc.is_for_filters());
    if let Some(other) = filters.filter(|qdisc| qdisc.kind != CLSACT) {
        let message = format!(
            "{name} has a qdisc {} instead of clsact, which accepts filters of both directions: \
             replace it (tc qdisc del dev {name} ingress; tc qdisc add dev {name} clsact) and add its \
             filters again",
            other.kind
        );
        return Err(Failure::new(Cause::Machine, message));
    }
    let mut used_priorities = Vec::new();
    if filters.is_some() {
        let [egress, _] = control.filters(device.index).map_err(|error| device_failure(name, &error))?;
        used_priorities = egress.iter().map(|filter| filter.priority).collect();
    }
    let segments_max = device.segments_max.filter(|segments| *segments > 1);
    Ok(record
        .with_root(root)
        .with_filter(filters.is_some(), free_priority(&used_priorities))
        .with_segments(segments_max))
}

fn check_root(name: &str, root: &Qdisc, replaces: bool) -> Result<(), Failure> {
    let qdisc_name = format!("{} {:x}:", root.kind, root.handle >> 16);
    let is_restorable = RESTORABLE.contains(&root.kind.as_str()) && !root.has_size_table;
    let message = match (is_restorable, replaces) {
        (true, true) => return Ok(()),
        (true, false) => format!(
            "{name} has a foreign qdisc ({qdisc_name}): --replace replaces it while the link is attached, \
             and restores it afterwards; tc qdisc del dev {name} root removes it"
        ),
        (false, _) => format!(
            "{name} has a foreign qdisc ({qdisc_name}), which has classes or cannot be restored (only {} \
             can): remove it first (tc qdisc del dev {name} root), and note how to add it again",
            RESTORABLE.join(", ")
        ),
    };
    Err(Failure::new(Cause::Machine, message))
}

/// Returns a priority for Byway's filter before the existing filters, because one of them may end
/// the processing of a packet. If none is left before them, it is the lowest free one.
fn free_priority(used: &[u16]) -> u16 {
    match used.iter().min() {
        None => 1,
        Some(first) if *first > 1 => first - 1,
        Some(_) => (2..u16::MAX).find(|priority| !used.contains(priority)).unwrap_or(u16::MAX),
    }
}

/// Installs the qdiscs, classes and filters at a device. After a failure, [`restore`] removes the
/// installed parts.
///
/// # Errors
/// If the kernel refuses a part.
pub(super) fn install(
    control: &mut TrafficControl,
    record: &AttachRecord,
    classifier: &Classifier,
    shares: &LinkShares,
) -> Result<(), Failure> {
    let failed = |error| device_failure(&record.device, &error);
    let index = record.index;
    if record.segments_max.is_some() {
        match control.set_segments_max(index, 1) {
            // TCP of this machine then sends longer joined packets, which are counted.
            Err(error @ LinkError::Other { .. }) => {
                tracing::warn!(device = record.device, %error, "cannot switch segmentation offload \
                                                                off: segments stay joined");
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
    for ((class, queue), limit) in CLASSES.into_iter().zip(QUEUES).zip(shares.queue_limits) {
        control.add_queue(index, class, queue, limit).map_err(failed)?;
    }
    Ok(())
}

/// Applies updates of classes and queue limits in the kernel. Queued packets are not lost.
///
/// # Errors
/// If the kernel refuses, because another program has changed the classes.
pub(super) fn apply(
    control: &mut TrafficControl,
    index: u32,
    updates: &[KernelUpdate],
) -> Result<(), LinkError> {
    for update in updates {
        match update {
            KernelUpdate::Class(shape) => control.set_class(index, shape)?,
            KernelUpdate::QueueLimit(class, limit) => {
                control.set_queue(index, CLASSES[*class], QUEUES[*class], *limit)?;
            }
        }
    }
    Ok(())
}

/// Returns a description of the part of Byway's installation that is missing at a device; `None` if
/// all parts exist.
///
/// # Errors
/// If the kernel does not answer, or the device has disappeared.
pub(super) fn missing(
    control: &mut TrafficControl,
    record: &AttachRecord,
) -> Result<Option<String>, LinkError> {
    let index = record.index;
    match control.root(index)? {
        Some(root) if is_ours(&root) => {}
        Some(root) => {
            return Ok(Some(format!("qdisc {} {:x}: is at the root", root.kind, root.handle >> 16)));
        }
        None => return Ok(Some("the kernel's own qdisc is at the root".into())),
    }
    let [egress, _] = filters(control, index)?;
    let is_present = egress.iter().any(|filter| filter.name == FILTER_NAME);
    Ok((!is_present).then(|| "the classifying filter is missing".into()))
}

fn is_ours(root: &Qdisc) -> bool {
    root.kind == ROOT_KIND && root.handle == HANDLE
}

/// Returns a device's filters: for leaving and for arriving packets. Both lists are empty if the
/// device has no qdisc for filters.
fn filters(control: &mut TrafficControl, index: u32) -> Result<[Vec<Filter>; 2], LinkError> {
    match control.filters(index) {
        Err(error) if error.is_absent() && error != LinkError::NoDevice => Ok([Vec::new(), Vec::new()]),
        filters => filters,
    }
}

/// Restores a device's former state, as far as Byway's parts are still in place. Changes of other
/// programs stay. Returns notes about differences from the former state.
///
/// # Errors
/// If the kernel refuses a part. The other parts are restored nevertheless.
pub(super) fn restore(control: &mut TrafficControl, record: &AttachRecord) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    let outcomes = [
        restore_root(control, record, &mut notes),
        restore_filters(control, record, &mut notes),
        restore_segments(control, record),
    ];
    let failed = outcomes.into_iter().find_map(Result::err);
    match failed {
        // The qdiscs and filters disappeared with the device.
        None | Some(LinkError::NoDevice) => Ok(notes),
        Some(error) => Err(device_failure(&record.device, &error)),
    }
}

fn restore_root(
    control: &mut TrafficControl,
    record: &AttachRecord,
    notes: &mut Vec<String>,
) -> Result<(), LinkError> {
    let index = record.index;
    // The error reports a device that has disappeared as such.
    control.device_at(index)?;
    let present = control.root(index)?;
    if !present.as_ref().is_some_and(is_ours) {
        let was_changed = match (&present, record.root()) {
            (Some(present), Some(before)) => present.handle != before.handle || present.kind != before.kind,
            (None, None) => false,
            _ => true,
        };
        if was_changed {
            notes.push("another program has replaced the root qdisc, which stays".into());
        }
        return Ok(());
    }
    let Some(before) = record.root() else {
        return control.delete_root(index, HANDLE);
    };
    let options = before.options.as_deref().map(|options| restored_options(&before.kind, options));
    if control.restore_root(index, &Qdisc { options, ..before.clone() }).is_err() {
        // Some kernels refuse options that they report.
        control.restore_root(index, &Qdisc { options: None, ..before.clone() })?;
    }
    let again = control.root(index)?;
    if again.is_none_or(|again| again.options != before.options) {
        notes.push(format!(
            "the root qdisc {} was restored without all of its options: check it",
            before.kind
        ));
    }
    Ok(())
}

/// Returns the options to set on a qdisc of this kind. The qdisc then reports `options`.
///
/// `codel` stores times in units of 1,024 ns. It rounds down both when it is set in microseconds
/// and when it reports them. A microsecond more than the report restores its value.
/// (`codel_time_to_us` in `include/net/codel.h`.)
fn restored_options(kind: &str, options: &[u8]) -> Vec<u8> {
    let times: &[u16] = match kind {
        "codel" => &CODEL_TIMES,
        "fq_codel" => &FQ_CODEL_TIMES,
        _ => &[],
    };
    let mut restored = options.to_vec();
    let mut rest = restored.as_mut_slice();
    // An attribute is its length, its number and its value, and begins at a multiple of four bytes
    // (netlink(7)).
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
    restored
}

fn restore_filters(
    control: &mut TrafficControl,
    record: &AttachRecord,
    notes: &mut Vec<String>,
) -> Result<(), LinkError> {
    let index = record.index;
    let [egress, ingress] = filters(control, index)?;
    let (ours, others): (Vec<_>, Vec<_>) = egress.into_iter().partition(|filter| filter.name == FILTER_NAME);
    for filter in &ours {
        control.delete_filter(index, filter)?;
    }
    let has_clsact =
        control.qdiscs(index)?.iter().any(|qdisc| qdisc.is_for_filters() && qdisc.kind == CLSACT);
    if record.had_clsact || !has_clsact {
        return Ok(());
    }
    if others.is_empty() && ingress.is_empty() {
        return control.delete_clsact(index);
    }
    notes.push("other programs have added filters: they stay, and clsact with them".into());
    Ok(())
}

fn restore_segments(control: &mut TrafficControl, record: &AttachRecord) -> Result<(), LinkError> {
    let Some(before) = record.segments_max else {
        return Ok(());
    };
    let is_as_left = control.device_at(record.index)?.segments_max == Some(1);
    if is_as_left { control.set_segments_max(record.index, before) } else { Ok(()) }
}

/// Removes Byway's parts from a device whose former state is unknown. The device gets the kernel's
/// default root qdisc, and joins as many segments as it can. Returns notes for people.
///
/// # Errors
/// If the kernel refuses a part.
pub(super) fn clear(control: &mut TrafficControl, device: &LinkDevice) -> Result<Vec<String>, Failure> {
    let notes = restore(control, &AttachRecord::unknown(device))?;
    let failed = |error| device_failure(&device.name, &error);
    if control.device_at(device.index).map_err(failed)?.segments_max == Some(1) {
        let set = |segments| control.set_segments_max(device.index, segments);
        largest_accepted(set).map_err(failed)?;
    }
    Ok(notes)
}

/// Sets the largest number of segments in a joined packet that a device accepts, by binary search.
/// The device refuses more than its own maximum (`tso_max_segs`).
fn largest_accepted(mut set: impl FnMut(u32) -> Result<(), LinkError>) -> Result<(), LinkError> {
    let (mut accepted, mut limit) = (1, GSO_MAX_SEGS + 1);
    let mut attempt = GSO_MAX_SEGS;
    while accepted + 1 < limit {
        match set(attempt) {
            Ok(()) => accepted = attempt,
            Err(LinkError::Other { .. }) => limit = attempt,
            Err(error) => return Err(error),
        }
        attempt = accepted.midpoint(limit);
    }
    Ok(())
}

/// True if a device has Byway's root qdisc or filter, as after an attach whose record was removed.
///
/// # Errors
/// If the kernel does not answer.
pub(super) fn is_leftover(control: &mut TrafficControl, index: u32) -> Result<bool, LinkError> {
    let root = control.root(index)?;
    let [egress, _] = filters(control, index)?;
    Ok(root.as_ref().is_some_and(is_ours) || egress.iter().any(|filter| filter.name == FILTER_NAME))
}

/// Returns the failure of an operation on the device of this name.
pub(super) fn device_failure(name: &str, error: &LinkError) -> Failure {
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
        for (used, free) in cases {
            assert_eq!(free_priority(used), free, "{used:?}");
        }
    }

    #[test]
    fn a_device_gets_as_many_segments_as_it_takes() {
        for most in [1, 2, 44, 64, 65_534, GSO_MAX_SEGS] {
            let mut last = 1;
            let set = |segments| {
                if segments > most {
                    return Err(LinkError::Other {
                        doing: "set gso_max_segs",
                        error: rustix::io::Errno::INVAL,
                        explanation: String::new(),
                    });
                }
                last = segments;
                Ok(())
            };
            largest_accepted(set).expect("it takes some");
            assert_eq!(last, most);
        }
        assert_eq!(largest_accepted(|_| Err(LinkError::NoDevice)), Err(LinkError::NoDevice));
    }

    /// Builds attributes with a word each, after one with a single byte.
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
        let stored = |set_us: u32| u32::try_from((u64::from(set_us) * 1_000) >> 10).expect("it fits");
        let reported_us = |stored: u32| u32::try_from((u64::from(stored) << 10) / 1_000).expect("it fits");
        for typed_us in (0..200_000).chain([1_000_000, 4_000_000_000]) {
            let before = stored(typed_us);
            assert_eq!(stored(reported_us(before) + 1), before, "{typed_us}");
        }
        let reported = options(&[(1, 4_999), (2, 10_240), (3, 99_999), (5, 1), (7, 999)]);
        let codel = options(&[(1, 5_000), (2, 10_240), (3, 100_000), (5, 2), (7, 999)]);
        let fq_codel = options(&[(1, 5_000), (2, 10_240), (3, 100_000), (5, 1), (7, 1_000)]);
        assert_eq!(restored_options("codel", &reported), codel);
        assert_eq!(restored_options("fq_codel", &reported), fq_codel);
        assert_eq!(restored_options("pie", &reported), reported);
    }

    #[test]
    fn options_that_end_early_are_told_as_they_are() {
        let reported = options(&[(1, 4_999)]);
        for length in 0..reported.len() {
            assert_eq!(restored_options("codel", &reported[..length]), reported[..length]);
        }
        for odd in [&[0_u8; 9][..], &[3, 0, 1, 0, 7, 7, 7, 7], &[255, 255, 1, 0, 1, 2, 3, 4]] {
            assert_eq!(restored_options("codel", odd), odd);
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
        let message = check_root("wan0", &root("pfifo"), false).expect_err("without --replace").to_string();
        assert!(message.contains("pfifo 8001:") && message.contains("--replace"), "{message}");
        for root in [root("htb"), root("tbf"), Qdisc { has_size_table: true, ..root("pfifo") }] {
            let message = check_root("wan0", &root, true).expect_err("it cannot").to_string();
            assert!(message.contains("cannot be restored") && message.contains("tc qdisc del"), "{message}");
        }
    }
}
