//! Record of a device's former state, in a file. If the device's controller is killed, a later
//! command restores that state.

#![allow(clippy::disallowed_methods, reason = "it is about files")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use byway_net::{Filter, LinkDevice, Qdisc};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::link_config::LinkConfig;
use crate::exit::{Cause, Failure};
use crate::membership::files;

/// Version of the record file's format.
const FORMAT_VERSION: u32 = 1;

/// Name of the filter that Byway attaches to a device.
pub(super) const FILTER_NAME: &str = "byway-link";

/// Record of an attached device: its former state, and the configuration that replaced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachRecord {
    format_version: u32,
    pub(super) device: String,
    /// Interface index of the device.
    pub(super) index: u32,
    /// Process that controls the device.
    pub(super) process: u32,
    pub(super) terms: LinkConfig,
    /// Root qdisc that another program had installed; `None` for the kernel's default.
    root: Option<RootQdisc>,
    /// True if the device had a clsact qdisc before Byway attached it.
    pub(super) had_clsact: bool,
    /// Priority of Byway's filter at the device.
    filter_priority: u16,
    /// Former maximum number of segments in a joined packet; `None` if Byway did not change it.
    pub(super) segments_max: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RootQdisc {
    kind: String,
    handle: u32,
    parent: u32,
    /// Options of the qdisc in hexadecimal, as the kernel reports them.
    options: Option<String>,
}

impl AttachRecord {
    /// Creates the record of a device of this name and interface index, which this process
    /// controls. Its former state is still to be added.
    pub(super) fn new(device: &str, index: u32, terms: LinkConfig) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            device: device.to_owned(),
            index,
            process: std::process::id(),
            terms,
            root: None,
            had_clsact: false,
            filter_priority: 1,
            segments_max: None,
        }
    }

    /// Creates a record for a device whose own one is missing. Restoring it gives the device the
    /// kernel's default, because the former state is unknown.
    pub(super) fn unknown(device: &LinkDevice) -> Self {
        Self { process: 0, ..Self::new(&device.name, device.index, LinkConfig::unknown()) }
    }

    /// Records the root qdisc that another program had installed; `None` for the kernel's default.
    pub(super) fn with_root(self, root: Option<&Qdisc>) -> Self {
        let root = root.map(|root| RootQdisc {
            kind: root.kind.clone(),
            handle: root.handle,
            parent: root.parent,
            options: root.options.as_deref().map(|options| HEXLOWER.encode(options)),
        });
        Self { root, ..self }
    }

    /// Replaces the configuration of the link.
    pub(super) fn with_terms(self, terms: LinkConfig) -> Self {
        Self { terms, ..self }
    }

    /// Records the priority of Byway's filter, and whether the device had a clsact qdisc before.
    pub(super) fn with_filter(self, had_clsact: bool, filter_priority: u16) -> Self {
        Self { had_clsact, filter_priority, ..self }
    }

    /// Records the former maximum number of segments in a joined packet.
    pub(super) fn with_segments(self, segments_max: Option<u32>) -> Self {
        Self { segments_max, ..self }
    }

    /// Returns the root qdisc to restore; `None` for the kernel's default.
    pub(super) fn root(&self) -> Option<Qdisc> {
        self.root.as_ref().map(|root| Qdisc {
            kind: root.kind.clone(),
            handle: root.handle,
            parent: root.parent,
            options: root.options.as_ref().and_then(|options| HEXLOWER.decode(options.as_bytes()).ok()),
            has_size_table: false,
        })
    }

    /// Returns Byway's filter, to add it to the device.
    pub(super) fn filter(&self) -> Filter {
        Filter { kind: "bpf".into(), priority: self.filter_priority, handle: 1, name: FILTER_NAME.into() }
    }
}

/// Record files of the devices in this network namespace.
#[derive(Clone, Debug)]
pub(super) struct Records {
    folder: PathBuf,
    /// The kernel's number of the network namespace. Devices of other namespaces may have the same
    /// names and indices.
    namespace: u64,
}

impl Records {
    /// Returns the records in a folder, of devices in this process's network namespace.
    ///
    /// # Errors
    /// If the kernel does not reveal the network namespace.
    pub(super) fn new(folder: &Path) -> Result<Self, Failure> {
        let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(|error| {
            Failure::machine(format!(
                "cannot read /proc/thread-self/ns/net: {error}; mount /proc with `mount -t proc proc /proc`"
            ))
        })?;
        Ok(Self { folder: folder.to_owned(), namespace: namespace.ino() })
    }

    /// Returns the folder of the record files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fails if another user can replace a record, and thereby change the restored state of a
    /// device.
    fn check_trusted(&self) -> Result<(), Failure> {
        match files::untrusted_reason(&self.folder).map_err(Failure::machine)? {
            None => Ok(()),
            Some(why) => Err(Failure::machine(format!("{why}; or name another folder with --state"))),
        }
    }

    fn path(&self, index: u32) -> PathBuf {
        self.folder.join(format!("link-{}-{index}.json", self.namespace))
    }

    /// Writes a device's record into its file, atomically.
    ///
    /// # Errors
    /// If the disk fails, or other users may write to the folder.
    pub(super) fn write(&self, record: &AttachRecord) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(record).expect("a record has text and numbers");
        let failed = |error| Failure::machine(format!("{error} (--state names another folder)"));
        files::make_folder(&self.folder).map_err(failed)?;
        self.check_trusted()?;
        files::replace(&self.path(record.index), &text).map_err(failed)
    }

    /// Removes the record of the device with this index, if it exists.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(super) fn remove(&self, index: u32) -> Result<(), Failure> {
        files::remove(&self.path(index)).map_err(Failure::machine)
    }

    /// Returns the record of the device with this index; `None` if there is none.
    ///
    /// # Errors
    /// If it is not readable, or a user other than its owner could have written it.
    pub(super) fn of(&self, index: u32) -> Result<Option<AttachRecord>, Failure> {
        self.check_trusted()?;
        read(&self.path(index), index)
    }

    /// Returns the records of all devices, by the device's index.
    ///
    /// # Errors
    /// If one is not readable.
    pub(super) fn all(&self) -> Result<Vec<AttachRecord>, Failure> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                let message = format!(
                    "{}: {error}; run this as root, or as the user who attached the link",
                    self.folder.display()
                );
                return Err(Failure::machine(message));
            }
        };
        let begin = format!("link-{}-", self.namespace);
        let number = |name: &str| name.strip_prefix(&begin)?.strip_suffix(".json")?.parse::<u32>().ok();
        let mut found: Vec<u32> =
            entries.flatten().filter_map(|entry| number(&entry.file_name().to_string_lossy())).collect();
        found.sort_unstable();
        found.into_iter().filter_map(|index| self.of(index).transpose()).collect()
    }
}

fn read(path: &Path, index: u32) -> Result<Option<AttachRecord>, Failure> {
    let Some(text) = files::read_own(path).map_err(Failure::machine)? else {
        return Ok(None);
    };
    let wrong = |why: String| {
        let message = format!(
            "{}: {why}; another version of Byway wrote it. Detach with that version, or remove the \
             file and run byway link detach --without-record",
            path.display()
        );
        Failure::new(Cause::Machine, message)
    };
    let record: AttachRecord = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match record {
        AttachRecord { format_version: version, .. } if version != FORMAT_VERSION => {
            Err(wrong(format!("its format version is {version}")))
        }
        AttachRecord { index: other, .. } if other != index => {
            Err(wrong(format!("it belongs to device {other}")))
        }
        record => Ok(Some(record)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::link_config::{ConfigRequest, PromiseFlags, ShareRule};
    use super::*;

    fn record(index: u32) -> AttachRecord {
        let rate = "10 Mbit/s".parse().expect("a rate");
        let share = ShareRule::Ratio;
        let flags = PromiseFlags { rate, delay: None, ratio: None, raise: false, share, floor: None };
        let terms = LinkConfig::new(&ConfigRequest::from(&flags), None);
        let root = Qdisc {
            kind: "pfifo".into(),
            handle: 0x8001_0000,
            parent: u32::MAX,
            options: Some(vec![0x10, 0x27, 0, 0xff]),
            has_size_table: false,
        };
        let record = AttachRecord::new("we\"ird.-☃", index, terms).with_root(Some(&root));
        record.with_filter(true, 7).with_segments(Some(65_535))
    }

    #[test]
    fn what_was_there_comes_back_out_of_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(&folder.path().join("below")).expect("a namespace");
        assert_eq!(records.all().expect("none"), []);
        for index in [12, 3] {
            records.write(&record(index)).expect("the disk has space");
        }
        assert_eq!(records.of(12).expect("a file"), Some(record(12)));
        assert_eq!(records.all().expect("two"), [record(3), record(12)]);
        let root = records.of(3).expect("a file").expect("one").root().expect("there was one");
        assert_eq!((root.kind.as_str(), root.options), ("pfifo", Some(vec![0x10, 0x27, 0, 0xff])));
        records.remove(3).expect("removed");
        assert_eq!(records.of(3).expect("none"), None);
    }

    #[test]
    fn other_namespaces_have_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(folder.path()).expect("a namespace");
        records.write(&record(3)).expect("the disk has space");
        let other = Records { namespace: records.namespace + 1, ..records };
        assert_eq!((other.of(3).expect("none"), other.all().expect("none")), (None, vec![]));
    }

    #[test]
    fn a_folder_that_others_write_to_has_no_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(folder.path()).expect("a namespace");
        records.write(&record(3)).expect("the disk has space");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), open).expect("it is ours");
        let refusals = [
            records.write(&record(4)).expect_err("refused"),
            records.of(3).expect_err("refused"),
            records.all().expect_err("refused"),
        ];
        for message in refusals.map(|refusal| refusal.to_string()) {
            assert!(message.contains("chmod go-w") && message.contains("--state"), "{message}");
        }
        assert!(!records.path(4).exists());
    }

    #[test]
    fn a_file_of_another_version_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(folder.path()).expect("a namespace");
        for text in ["", "{}", "[1]", "\u{0}"] {
            fs::write(records.path(3), text).expect("the disk has space");
            let message = records.of(3).expect_err("no record").to_string();
            assert!(message.contains("-3.json") && message.contains("remove the file"), "{message}");
        }
        let text = serde_json::to_string(&AttachRecord { format_version: 2, ..record(3) }).expect("text");
        fs::write(records.path(3), text).expect("the disk has space");
        assert!(records.all().is_err());
        let of_another = serde_json::to_string(&record(4)).expect("text");
        fs::write(records.path(3), of_another).expect("room");
        assert!(records.of(3).expect_err("it is another's").to_string().contains("to device 4"));
    }
}
