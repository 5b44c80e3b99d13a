//! What is put at a device, and how what was there before is put back.

use byway_net::{Filter, LinkDevice, LinkError, Qdisc, TrafficControl};

use super::classifier::Classifier;
use super::record::{FILTER_NAME, Record};
use super::sharing::{CLASSES, DEFAULT_CLASS, HANDLE, QUEUES, Shares, Step};
use crate::exit::{Cause, Failure};

/// Roots that have no classes and that take back word for word what they say of themselves: only these are put aside.
const RESTORABLE: [&str; 9] =
    ["bfifo", "codel", "fq", "fq_codel", "noqueue", "pfifo", "pfifo_fast", "pfifo_head_drop", "pie"];

/// What belongs at the root while a link is attached.
const KIND: &str = "htb";

/// The place of filters.
const CLSACT: &str = "clsact";

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
    if control.put_root_back(index, &before).is_err() {
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
