//! The file of a store: its tables in redb, pages and checksums, the journal, creation and salvage.

pub(crate) mod checksums;
pub(crate) mod create;
pub(crate) mod database;
pub(crate) mod disk;
pub(crate) mod format;
pub(crate) mod free_space;
pub(crate) mod journal;
pub(crate) mod limited_file;
pub(crate) mod pages;
pub(crate) mod salvage;
pub(crate) mod tables;
