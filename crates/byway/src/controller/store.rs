//! Persistent state of the controller: a database file, changed in transactions that are on the
//! disk before they take effect.

use std::fmt;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::network::{Change, Pair};
use crate::membership::files;

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const TENANTS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("tenants");
const TOKENS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("tokens");
const NODES: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("nodes");
const PAIRS: TableDefinition<'_, (u32, u32), ()> = TableDefinition::new("pairs");

const IDENTITY: &str = "identity";
const COUNTERS: &str = "counters";
const REVISION: &str = "revision";

/// Reason why the controller's database could not be opened, read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot {doing} {}: {cause}; {remedy}", path.display())]
pub(crate) struct StoreError {
    doing: &'static str,
    path: PathBuf,
    cause: String,
    remedy: &'static str,
}

/// Contents of the controller's database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredState {
    /// Serialized identity of the controller; `None` before the first start.
    pub(crate) identity: Option<Vec<u8>>,
    /// Changes that turn an empty network into the stored one.
    pub(crate) changes: Vec<Change>,
    /// Revision that is at least that of any map at the time of the latest write.
    pub(crate) revision: u64,
}

type Opener = Box<dyn Fn() -> Result<Database, redb::Error> + Send>;

/// Store of the controller's state in a database file.
pub(crate) struct Store {
    path: PathBuf,
    opener: Opener,
    /// Open database; `None` after an error, until the next access opens it again.
    database: Option<Database>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.path.display())
    }
}

impl Store {
    /// Opens the database file, or creates it.
    ///
    /// # Errors
    /// If the file is not readable and writable, is no database, or is open in another process.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let owned_path = path.to_owned();
        Self::with_opener(path, Box::new(move || open_database(&owned_path)))
    }

    fn with_opener(path: &Path, opener: Opener) -> Result<Self, StoreError> {
        let mut store = Self { path: path.to_owned(), opener, database: None };
        match store.database() {
            Ok(_) => Ok(store),
            Err(error) => Err(store.error("open", &error)),
        }
    }

    fn database(&mut self) -> Result<&Database, redb::Error> {
        if self.database.is_none() {
            self.database = Some((self.opener)()?);
        }
        Ok(self.database.as_ref().expect("the database is open"))
    }

    fn error(&self, doing: &'static str, cause: &redb::Error) -> StoreError {
        StoreError { doing, path: self.path.clone(), cause: cause.to_string(), remedy: remedy(cause) }
    }

    /// Returns the path of the database file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all contents of the database.
    ///
    /// # Errors
    /// If the file is not readable, or has a format that this version does not know.
    pub(crate) fn read(&mut self) -> Result<StoredState, StoreError> {
        let read = self.database().and_then(read);
        read.map_err(|error| self.error("read", &error))
    }

    /// Writes the controller's serialized identity to the disk.
    ///
    /// # Errors
    /// If the disk fails.
    pub(crate) fn write_identity(&mut self, identity: &[u8]) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.open_table(META)?.insert(IDENTITY, identity)?;
            Ok(())
        })
    }

    /// Writes changes of the network, all or none, and the highest revision of maps. On return,
    /// they are on the disk.
    ///
    /// # Errors
    /// If the disk fails. The next call opens the file again.
    pub(crate) fn commit(&mut self, changes: &[Change], revision: u64) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.open_table(META)?.insert(REVISION, json(&revision).as_slice())?;
            changes.iter().try_for_each(|change| write(transaction, change))
        })
    }

    fn transact(
        &mut self,
        act: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let written = self.database().and_then(|database| {
            let transaction = database.begin_write()?;
            act(&transaction)?;
            Ok(transaction.commit()?)
        });
        written.map_err(|error| {
            // After a disk error, the database refuses all writes. The next change opens it again.
            self.database = None;
            self.error("write", &error)
        })
    }
}

fn open_database(path: &Path) -> Result<Database, redb::Error> {
    let file = files::open_private(path).map_err(redb::Error::Io)?;
    Ok(Database::builder().create_file(file)?)
}

fn remedy(cause: &redb::Error) -> &'static str {
    match cause {
        redb::Error::DatabaseAlreadyOpen => "another controller uses this state: stop it first",
        redb::Error::Io(error) => files::remedy(error.kind()),
        redb::Error::UpgradeRequired(_) => {
            "another version of Byway wrote it: use that version, or a newer one"
        }
        redb::Error::Corrupted(_) => "restore the state directory from a backup",
        _ => "check the disk, then start the controller again",
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("records have only keys that are texts or numbers")
}

fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, redb::Error> {
    serde_json::from_slice(bytes).map_err(|error| redb::Error::Corrupted(error.to_string()))
}

fn write(transaction: &WriteTransaction, change: &Change) -> Result<(), redb::Error> {
    match change {
        Change::Counters(counters) => {
            transaction.open_table(META)?.insert(COUNTERS, json(counters).as_slice())?;
        }
        Change::Tenant(tenant) => put(transaction, TENANTS, tenant.number, tenant)?,
        Change::Token(token) => put(transaction, TOKENS, token.number, token)?,
        Change::NoToken(number) => drop(transaction.open_table(TOKENS)?.remove(number)?),
        Change::Node(node) => put(transaction, NODES, node.number, node)?,
        Change::NoNode(number) => drop(transaction.open_table(NODES)?.remove(number)?),
        Change::Pair(pair) => drop(transaction.open_table(PAIRS)?.insert(row(*pair), ())?),
        Change::NoPair(pair) => drop(transaction.open_table(PAIRS)?.remove(row(*pair))?),
    }
    Ok(())
}

fn put(
    transaction: &WriteTransaction,
    table: TableDefinition<'_, u32, &[u8]>,
    number: u32,
    record: &impl Serialize,
) -> Result<(), redb::Error> {
    transaction.open_table(table)?.insert(number, json(record).as_slice())?;
    Ok(())
}

fn row(pair: Pair) -> (u32, u32) {
    let [one, other] = pair.agents();
    (one, other)
}

fn read(database: &Database) -> Result<StoredState, redb::Error> {
    let transaction = database.begin_read()?;
    let mut stored = StoredState::default();
    if let Some(meta) = existing(transaction.open_table(META))? {
        stored.identity = meta.get(IDENTITY)?.map(|bytes| bytes.value().to_vec());
        if let Some(counters) = meta.get(COUNTERS)? {
            stored.changes.push(Change::Counters(parse_json(counters.value())?));
        }
        if let Some(revision) = meta.get(REVISION)? {
            stored.revision = parse_json(revision.value())?;
        }
    }
    let changes = &mut stored.changes;
    rows(existing(transaction.open_table(TENANTS))?, changes, Change::Tenant)?;
    rows(existing(transaction.open_table(TOKENS))?, changes, Change::Token)?;
    rows(existing(transaction.open_table(NODES))?, changes, |node| Change::Node(Box::new(node)))?;
    if let Some(pairs) = existing(transaction.open_table(PAIRS))? {
        for row in pairs.iter()? {
            let (one, other) = row?.0.value();
            changes.push(Change::Pair(Pair::new(one, other)));
        }
    }
    Ok(stored)
}

/// Returns a database table; `None` if nothing was ever written to it.
fn existing<T>(opened: Result<T, TableError>) -> Result<Option<T>, redb::Error> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn rows<T: DeserializeOwned>(
    table: Option<impl ReadableTable<u32, &'static [u8]>>,
    changes: &mut Vec<Change>,
    change: impl Fn(T) -> Change,
) -> Result<(), redb::Error> {
    let Some(table) = table else {
        return Ok(());
    };
    for row in table.iter()? {
        changes.push(change(parse_json(row?.1.value())?));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
