//! What outlives the controller's process: one file, changed in transactions that are on the disk before they count.

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

/// Why the state could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{doing} {} fails: {cause}; {remedy}", place.display())]
pub(crate) struct StoreError {
    doing: &'static str,
    place: PathBuf,
    cause: String,
    remedy: &'static str,
}

/// Everything that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Who the controller is; none before the first start.
    pub(crate) identity: Option<Vec<u8>>,
    /// What makes the network out of an empty one.
    pub(crate) changes: Vec<Change>,
    /// A revision that no map had when this was written.
    pub(crate) revision: u64,
}

type Opener = Box<dyn Fn() -> Result<Database, redb::Error> + Send>;

/// The file.
pub(crate) struct Store {
    place: PathBuf,
    opener: Opener,
    /// None after an error: the database has to be opened anew then.
    database: Option<Database>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.place.display())
    }
}

impl Store {
    /// Opens the file, which is made if there is none.
    ///
    /// # Errors
    /// If it cannot be read and written, is no database, or another process has it.
    pub(crate) fn open(place: &Path) -> Result<Self, StoreError> {
        let path = place.to_owned();
        Self::with_opener(place, Box::new(move || open_database(&path)))
    }

    fn with_opener(place: &Path, opener: Opener) -> Result<Self, StoreError> {
        let mut store = Self { place: place.to_owned(), opener, database: None };
        match store.opened() {
            Ok(_) => Ok(store),
            Err(error) => Err(store.error("opening", &error)),
        }
    }

    fn opened(&mut self) -> Result<&Database, redb::Error> {
        if self.database.is_none() {
            self.database = Some((self.opener)()?);
        }
        Ok(self.database.as_ref().expect("it was opened just now"))
    }

    fn error(&self, doing: &'static str, cause: &redb::Error) -> StoreError {
        StoreError { doing, place: self.place.clone(), cause: cause.to_string(), remedy: remedy(cause) }
    }

    /// Where the file is.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Reads everything.
    ///
    /// # Errors
    /// If the file cannot be read, or says what this version cannot read.
    pub(crate) fn read(&mut self) -> Result<Stored, StoreError> {
        let read = self.opened().and_then(read);
        read.map_err(|error| self.error("reading", &error))
    }

    /// Writes who the controller is.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(crate) fn write_identity(&mut self, identity: &[u8]) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.open_table(META)?.insert(IDENTITY, identity)?;
            Ok(())
        })
    }

    /// Writes changes, all or none. When this returns, they are on the disk.
    ///
    /// # Errors
    /// If the disk does not take them. The next call opens the file anew.
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
        let written = self.opened().and_then(|database| {
            let transaction = database.begin_write()?;
            act(&transaction)?;
            Ok(transaction.commit()?)
        });
        written.map_err(|error| {
            // After an error of the disk, a database takes nothing more; the next change tries a new one.
            self.database = None;
            self.error("writing", &error)
        })
    }
}

fn open_database(path: &Path) -> Result<Database, redb::Error> {
    let file = files::open_private(path).map_err(redb::Error::Io)?;
    Ok(Database::builder().create_file(file)?)
}

fn remedy(cause: &redb::Error) -> &'static str {
    match cause {
        redb::Error::DatabaseAlreadyOpen => "another controller runs on this state: stop it first",
        redb::Error::Io(error) => files::remedy(error.kind()),
        redb::Error::UpgradeRequired(_) => "another version wrote it: use that, or a newer one",
        redb::Error::Corrupted(_) => "restore the state directory from a backup",
        _ => "look at the disk, then start the controller again",
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("records have only keys that are texts or numbers")
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, redb::Error> {
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

fn read(database: &Database) -> Result<Stored, redb::Error> {
    let transaction = database.begin_read()?;
    let mut stored = Stored::default();
    if let Some(meta) = existing(transaction.open_table(META))? {
        stored.identity = meta.get(IDENTITY)?.map(|bytes| bytes.value().to_vec());
        if let Some(counters) = meta.get(COUNTERS)? {
            stored.changes.push(Change::Counters(parsed(counters.value())?));
        }
        if let Some(revision) = meta.get(REVISION)? {
            stored.revision = parsed(revision.value())?;
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

/// The table, if it was ever written to.
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
        changes.push(change(parsed(row?.1.value())?));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
