//! Checks the owner and the format of a file: a file of another application, or of a newer version, is left untouched.

use std::path::Path;

use redb::{Database, ReadableDatabase, TableHandle};

use crate::error::{OpenError, StoreError};
use crate::file::salvage::Salvage;
use crate::file::tables;

/// Checks that the file is a store of this format; marks a new file as one.
pub(crate) fn check(database: &Database, path: &Path) -> Result<(), OpenError> {
    let failed = |error: StoreError| OpenError::storage(path.to_owned(), &error);
    match read(database).map_err(failed)? {
        Format::Ours(tables::FORMAT) => Ok(()),
        Format::Ours(found) => Err(OpenError::Newer { path: path.to_owned(), found, known: tables::FORMAT }),
        Format::Foreign(table) => Err(OpenError::Foreign { path: path.to_owned(), table }),
        Format::New => write(database).map_err(failed),
    }
}

/// Checks that a damaged file is a store, as far as it can be read.
pub(crate) fn check_salvage(salvage: &Salvage, path: &Path) -> Result<(), OpenError> {
    let mut tables = salvage.tables().map(|(name, _)| name);
    let is_ours = |name: &str| name == tables::FORMATS.name() || tables::bucket_of(name).is_some();
    match tables.next() {
        Some(first) if !is_ours(first) && !tables.any(is_ours) && salvage.lost_tables().is_empty() => {
            Err(OpenError::Foreign { path: path.to_owned(), table: rusm_text::escape(first).into_owned() })
        }
        _ => Ok(()),
    }
}

enum Format {
    Ours(u64),
    Foreign(String),
    New,
}

fn read(database: &Database) -> Result<Format, StoreError> {
    let txn = database.begin_read()?;
    let tables: Vec<String> = txn.list_tables()?.map(|table| table.name().to_owned()).collect();
    let multimaps = txn.list_multimap_tables()?.count();
    if tables.iter().any(|table| table == tables::FORMATS.name()) {
        let format = txn.open_table(tables::FORMATS)?.get(())?.map_or(0, |format| format.value());
        return Ok(Format::Ours(format));
    }
    Ok(match tables.into_iter().next() {
        Some(table) => Format::Foreign(table),
        None if multimaps > 0 => Format::Foreign("a multimap".to_owned()),
        None => Format::New,
    })
}

fn write(database: &Database) -> Result<(), StoreError> {
    let txn = database.begin_write()?;
    txn.open_table(tables::FORMATS)?.insert((), tables::FORMAT)?;
    Ok(txn.commit()?)
}
