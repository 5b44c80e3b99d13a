//! State on the disk after any failure.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use byway_api::Role;
use redb::StorageBackend;

use super::*;
use crate::controller::identity::Identity;
use crate::controller::lock;
use crate::controller::network::{
    Counters, Decision, Digest, GrantSettings, NodeRecord, Quotas, Tenant, Token,
};
use crate::controller::state::{ChangeError, NetworkSettings, State};
use crate::membership::WallClock;

/// A test disk that can be full, and that shows its content after a power failure now.
#[derive(Clone, Debug, Default)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
    /// Content before each write.
    history: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Disk {
    fn holding(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(Mutex::new(bytes)), ..Self::default() }
    }

    fn store(&self) -> Result<Store, StoreError> {
        let disk = self.clone();
        let opener = move || Ok(Database::builder().create_with_backend(disk.clone())?);
        Store::with_opener(Path::new("controller.redb"), Box::new(opener))
    }

    fn check(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        lock(&self.history).push(lock(&self.bytes).clone());
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.bytes).len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).expect("a small disk");
        let bytes = lock(&self.bytes);
        let read = bytes.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(read);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.check()?;
        lock(&self.bytes).resize(usize::try_from(length).expect("a small disk"), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        let start = usize::try_from(offset).expect("a small disk");
        lock(&self.bytes)[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn node(number: u32) -> Change {
    Change::Node(Box::new(NodeRecord {
        number,
        role: Role::Agent,
        tenant: Some(1),
        name: format!("node-{number}"),
        key: Digest([7; 32]),
        addresses: vec!["192.0.2.1:4600".parse().expect("an address")],
        shards: 1,
        bearer: Digest([8; 32]),
        token: 1,
        round_trips: [(3, 1_500)].into(),
        nearest: Some(3),
        relay: Some("fra".to_owned()),
        transit: true,
    }))
}

fn everything() -> Vec<Change> {
    let token = Token {
        number: 1,
        secret: Digest([9; 32]),
        role: Role::Agent,
        tenant: Some(1),
        uses_left: Some(2),
        expires_unix_seconds: None,
    };
    vec![
        Change::Counters(Counters { node: 3, token: 2, tenant: 2 }),
        Change::Tenant(Tenant { number: 1, name: "default".to_owned() }),
        Change::Token(token),
        node(1),
        node(2),
        Change::Pair(Pair::new(1, 2)),
    ]
}

#[test]
fn what_was_written_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("controller.redb");
    let mut store = Store::open(&path).expect("a new store");
    assert_eq!(store.read().expect("nothing yet"), StoredState::default());
    store.write_identity(b"identity").expect("the disk has space");
    store.commit(&everything(), 77).expect("the disk has space");
    drop(store);
    let mut store = Store::open(&path).expect("the store");
    let stored = store.read().expect("what was written");
    let expected = StoredState { identity: Some(b"identity".to_vec()), changes: everything(), revision: 77 };
    assert_eq!(stored, expected);
    assert!(!files::is_open_to_others(&path).expect("a file"));

    store
        .commit(&[Change::NoPair(Pair::new(2, 1)), Change::NoNode(2), Change::NoToken(1)], 78)
        .expect("the disk has space");
    let left = store.read().expect("what is left").changes;
    assert_eq!(left, [everything()[0].clone(), everything()[1].clone(), node(1)]);
}

#[test]
fn links_and_applications_are_read_again() {
    let Change::Node(mut link) = node(1) else { panic!("it is a node") };
    (link.role, link.tenant) = (Role::Link, None);
    let application = Token {
        number: 1,
        secret: Digest([9; 32]),
        role: Role::Application,
        tenant: Some(1),
        uses_left: None,
        expires_unix_seconds: Some(1_800_000_000),
    };
    let changes = [Change::Token(application), Change::Node(link)];
    let mut store = Disk::default().store().expect("a new store");
    store.commit(&changes, 1).expect("the disk has space");
    assert_eq!(store.read().expect("what was written").changes, changes);
}

#[test]
fn two_controllers_do_not_share_a_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("controller.redb");
    let _first = Store::open(&path).expect("a new store");
    let error = Store::open(&path).expect_err("it is taken").to_string();
    assert!(error.contains("another controller uses this state"), "{error}");
}

#[test]
fn what_is_no_database_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("controller.redb");
    files::replace(&path, &"no database ".repeat(1_000)).expect("a file");
    let error = Store::open(&path).expect_err("no database").to_string();
    assert!(error.contains("controller.redb"), "{error}");
}

#[test]
fn a_full_disk_is_said_to_be_full_and_takes_changes_once_there_is_room() {
    let disk = Disk::default();
    let mut store = disk.store().expect("a new store");
    store.commit(&everything(), 1).expect("the disk has space");
    disk.is_full.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let error = store.commit(&[node(3)], 2).expect_err("no room").to_string();
        assert!(error.contains("free some space"), "{error}");
    }
    disk.is_full.store(false, Ordering::Relaxed);
    assert_eq!(store.read().expect("as before").changes, everything());
    store.commit(&[node(3)], 3).expect("the disk has space again");
    assert_eq!(store.read().expect("with the change").changes.len(), everything().len() + 1);
}

/// The state after a power failure at any moment is the one before the change or the one after it.
#[test]
fn a_commit_that_is_cut_short_is_done_or_not_done() {
    let disk = Disk::default();
    let mut store = disk.store().expect("a new store");
    store.commit(&everything(), 1).expect("the disk has space");
    drop(store);
    let mut store = disk.store().expect("the store");
    lock(&disk.history).clear();
    store.commit(&[node(3), node(4)], 2).expect("the disk has space");
    let mut moments = lock(&disk.history).clone();
    moments.push(lock(&disk.bytes).clone());
    let mut outcomes = [0, 0];
    for moment in moments {
        let mut store = Disk::holding(moment).store().expect("it opens");
        let stored = store.read().expect("it can be read");
        let added = stored.changes.len() - everything().len();
        assert!([(0, 1), (2, 2)].contains(&(added, stored.revision)), "{added} {}", stored.revision);
        outcomes[usize::from(added == 2)] += 1;
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

#[tokio::test]
async fn with_a_full_disk_the_controller_serves_what_it_has() {
    let disk = Disk::default();
    let mut store = disk.store().expect("a new store");
    store.commit(&everything(), 1).expect("the disk has space");
    let stored = store.read().expect("what was written");
    let grants = GrantSettings {
        lifetime: std::time::Duration::from_secs(172_800),
        rate: byway_units::Rate::from_megabits_per_second(1),
    };
    let settings = NetworkSettings { grants, quotas: Quotas::default() };
    let clock = WallClock::new(|| 1_800_000_000_000_000);
    let state = Arc::new(State::new(Identity::generate("lab"), store, &stored, settings, clock));
    let before = state.map(1).expect("a member");
    let add = |_: &_, _| Ok(Decision { answer: (), changes: vec![node(3)] });

    disk.is_full.store(true, Ordering::Relaxed);
    let refused = state.change(add).await.expect_err("no room");
    assert!(matches!(refused, ChangeError::Storage(_)), "{refused}");
    assert!(refused.to_string().contains("free some space"), "{refused}");
    assert!(state.map(3).is_err(), "what is not on the disk is not so");
    assert_eq!(state.map(1).expect("a member").revision, before.revision);
    assert!(state.status().storage.storage_problem.is_some());

    disk.is_full.store(false, Ordering::Relaxed);
    state.change(add).await.expect("the disk has space again");
    assert!(state.map(3).is_ok() && state.storage_problem().is_none());
}
