//! What was at a device before anything was changed there: a file, so that it can be put back by whoever comes, should the controller be killed.

#![allow(clippy::disallowed_methods, reason = "it is about files")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use byway_net::{Filter, LinkDevice, Qdisc};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::terms::Terms;
use crate::exit::{Cause, Failure};
use crate::membership::files;

/// What the file says, in this order; another form has another number.
const FORM: u32 = 1;

/// What all of Byway's filters are called.
pub(super) const FILTER_NAME: &str = "byway-link";

/// What was there, and what is there instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    form: u32,
    pub(super) device: String,
    /// The kernel's number of it.
    pub(super) index: u32,
    /// Its controller.
    pub(super) process: u32,
    pub(super) terms: Terms,
    /// The root that somebody had put there; `None`: the kernel's own.
    root: Option<Root>,
    /// Whether there was a clsact.
    pub(super) had_clsact: bool,
    /// The priority of Byway's filter.
    filter_priority: u16,
    /// Most segments of a joined packet, if that was changed.
    pub(super) segments_max: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Root {
    kind: String,
    handle: u32,
    parent: u32,
    /// In hexadecimal, as the kernel says them.
    options: Option<String>,
}

impl Record {
    /// Of a device with this number and name.
    pub(super) fn new(device: &str, index: u32, terms: Terms) -> Self {
        Self {
            form: FORM,
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

    /// Of a device whose record is not to be found: what was there before is not known, and so it gets what the kernel has by itself.
    pub(super) fn unknown(device: &LinkDevice) -> Self {
        Self { process: 0, ..Self::new(&device.name, device.index, Terms::unknown()) }
    }

    /// With the root that somebody had put there.
    pub(super) fn with_root(self, root: Option<&Qdisc>) -> Self {
        let root = root.map(|root| Root {
            kind: root.kind.clone(),
            handle: root.handle,
            parent: root.parent,
            options: root.options.as_deref().map(|options| HEXLOWER.encode(options)),
        });
        Self { root, ..self }
    }

    /// With other terms.
    pub(super) fn with_terms(self, terms: Terms) -> Self {
        Self { terms, ..self }
    }

    /// With a filter of this priority, where there was a place for filters or not.
    pub(super) fn with_filter(self, had_clsact: bool, filter_priority: u16) -> Self {
        Self { had_clsact, filter_priority, ..self }
    }

    /// With the number of segments that a joined packet may have.
    pub(super) fn with_segments(self, segments_max: Option<u32>) -> Self {
        Self { segments_max, ..self }
    }

    /// The root to put back.
    pub(super) fn root(&self) -> Option<Qdisc> {
        self.root.as_ref().map(|root| Qdisc {
            kind: root.kind.clone(),
            handle: root.handle,
            parent: root.parent,
            options: root.options.as_ref().and_then(|options| HEXLOWER.decode(options.as_bytes()).ok()),
            has_size_table: false,
        })
    }

    /// Byway's filter.
    pub(super) fn filter(&self) -> Filter {
        Filter { kind: "bpf".into(), priority: self.filter_priority, handle: 1, name: FILTER_NAME.into() }
    }
}

/// The files of this network namespace.
#[derive(Clone, Debug)]
pub(super) struct Records {
    folder: PathBuf,
    /// The kernel's number of the namespace: the same device names and numbers come again in others.
    namespace: u64,
}

impl Records {
    /// Those in a folder.
    ///
    /// # Errors
    /// If the kernel does not say in which namespace this is.
    pub(super) fn new(folder: &Path) -> Result<Self, Failure> {
        let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(|error| {
            Failure::machine(format!(
                "/proc/thread-self/ns/net: {error}: mount /proc (mount -t proc proc /proc)"
            ))
        })?;
        Ok(Self { folder: folder.to_owned(), namespace: namespace.ino() })
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whoever can replace a record has another user's device put back as they like.
    fn trusted(&self) -> Result<(), Failure> {
        match files::distrust(&self.folder).map_err(Failure::machine)? {
            None => Ok(()),
            Some(why) => Err(Failure::machine(format!("{why}; or name another folder with --state"))),
        }
    }

    fn path(&self, index: u32) -> PathBuf {
        self.folder.join(format!("link-{}-{index}.json", self.namespace))
    }

    /// Writes one, so that there is always an old or a new one.
    ///
    /// # Errors
    /// If the disk does not take it, or others may write to the folder.
    pub(super) fn write(&self, record: &Record) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(record).expect("a record has text and numbers");
        let failed = |error| Failure::machine(format!("{error} (--state names another folder)"));
        files::make_folder(&self.folder).map_err(failed)?;
        self.trusted()?;
        files::replace(&self.path(record.index), &text).map_err(failed)
    }

    /// Forgets one.
    ///
    /// # Errors
    /// If the file stays.
    pub(super) fn remove(&self, index: u32) -> Result<(), Failure> {
        files::remove(&self.path(index)).map_err(Failure::machine)
    }

    /// That of the device with this number.
    ///
    /// # Errors
    /// If it cannot be read, or others than its owner could have written it.
    pub(super) fn of(&self, index: u32) -> Result<Option<Record>, Failure> {
        self.trusted()?;
        read(&self.path(index), index)
    }

    /// All of them, by the number of the device.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn all(&self) -> Result<Vec<Record>, Failure> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                let message = format!("{}: {error}: be root, who attached", self.folder.display());
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

fn read(path: &Path, index: u32) -> Result<Option<Record>, Failure> {
    let Some(text) = files::read_own(path).map_err(Failure::machine)? else {
        return Ok(None);
    };
    let wrong = |why: String| {
        let message = format!(
            "{}: {why}: it is not of this version of Byway. Detach with the version that attached, or remove the file and have byway link detach \
             go on without it (--without-record)",
            path.display()
        );
        Failure::new(Cause::Machine, message)
    };
    let record: Record = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match record {
        Record { form, .. } if form != FORM => Err(wrong(format!("its form is {form}"))),
        Record { index: other, .. } if other != index => Err(wrong(format!("it is of device {other}"))),
        record => Ok(Some(record)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::terms::{PromiseFlags, Wish};
    use super::*;

    fn record(index: u32) -> Record {
        let rate = "10 Mbit/s".parse().expect("a rate");
        let flags = PromiseFlags { rate, delay: None, ratio: None, raise: false };
        let terms = Terms::new(&Wish::from(&flags), None);
        let root = Qdisc {
            kind: "pfifo".into(),
            handle: 0x8001_0000,
            parent: u32::MAX,
            options: Some(vec![0x10, 0x27, 0, 0xff]),
            has_size_table: false,
        };
        let record = Record::new("we\"ird.-☃", index, terms).with_root(Some(&root));
        record.with_filter(true, 7).with_segments(Some(65_535))
    }

    #[test]
    fn what_was_there_comes_back_out_of_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(&folder.path().join("below")).expect("a namespace");
        assert_eq!(records.all().expect("none"), []);
        for index in [12, 3] {
            records.write(&record(index)).expect("room");
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
        records.write(&record(3)).expect("room");
        let other = Records { namespace: records.namespace + 1, ..records };
        assert_eq!((other.of(3).expect("none"), other.all().expect("none")), (None, vec![]));
    }

    #[test]
    fn a_folder_that_others_write_to_has_no_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(folder.path()).expect("a namespace");
        records.write(&record(3)).expect("room");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), open).expect("it is ours");
        let refusals = [
            records.write(&record(4)).expect_err("refused"),
            records.of(3).expect_err("refused"),
            records.all().expect_err("refused"),
        ];
        for said in refusals.map(|refusal| refusal.to_string()) {
            assert!(said.contains("chmod go-w") && said.contains("--state"), "{said}");
        }
        assert!(!records.path(4).exists());
    }

    #[test]
    fn a_file_of_another_version_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Records::new(folder.path()).expect("a namespace");
        for text in ["", "{}", "[1]", "\u{0}"] {
            fs::write(records.path(3), text).expect("room");
            let said = records.of(3).expect_err("no record").to_string();
            assert!(said.contains("-3.json") && said.contains("remove the file"), "{said}");
        }
        let text = serde_json::to_string(&Record { form: 2, ..record(3) }).expect("text");
        fs::write(records.path(3), text).expect("room");
        assert!(records.all().is_err());
        let of_another = serde_json::to_string(&record(4)).expect("text");
        fs::write(records.path(3), of_another).expect("room");
        assert!(records.of(3).expect_err("it is another's").to_string().contains("of device 4"));
    }
}
