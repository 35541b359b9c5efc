//! `rusm store`: checks, repairs and exports the file of a store while no node has it open.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rusm_store::inspection::{Check, ExportedRow, Inspection, TableCheck};
use rusm_store::{Damage, escaped};
use serde_json::{Map, Value, json};

use crate::cli::store::StoreCommand;
use crate::failure::{Failure, system};

/// Description of damage that was found and restored in memory: the header or the length of the file.
const HEADER: &str = "the header or the length of the file; the copy in the file is intact and was used";
/// Exit code of a check or an export that found damage, and of a repair that lost rows or may have lost some.
const DAMAGED: u8 = 5;

pub(crate) fn run(command: StoreCommand) -> Result<u8, Failure> {
    match command {
        StoreCommand::Check { file, json } => check(&file, json),
        StoreCommand::Repair { file, output } => repair(&file, output.as_deref()),
        StoreCommand::Export { file, json: _ } => export(&file),
    }
}

fn open(file: &Path) -> Result<(Inspection, Check), Failure> {
    let inspection = Inspection::open(file)?;
    let stdout = rustix::io::dup(io::stdout()).ok().and_then(|stdout| File::from(stdout).metadata().ok());
    if stdout.is_some_and(|stdout| inspection.is_input(&stdout)) {
        let what = format!("stdout is {} or its journal: redirect it to another file", shown(file));
        return Err(Failure::Usage(what));
    }
    let check = inspection.check().map_err(system(format!("read {}", shown(file))))?;
    Ok((inspection, check))
}

fn shown(path: &Path) -> String {
    rusm_text::escape(&path.to_string_lossy()).into_owned()
}

/// Writes to stdout and returns `code`. If the reader has closed the pipe, this is not an error.
fn printed(code: u8, print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<u8, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match print(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(code),
        written => written.map(|()| code).map_err(system("write to stdout")),
    }
}

const fn code(is_sound: bool) -> u8 {
    if is_sound { 0 } else { DAMAGED }
}

fn check(file: &Path, json: bool) -> Result<u8, Failure> {
    let (_, check) = open(file)?;
    let code = code(check.is_sound());
    printed(
        code,
        |out| if json { writeln!(out, "{}", line(check_json(file, &check))) } else { report(out, file, &check) },
    )
}

fn report(out: &mut dyn Write, file: &Path, check: &Check) -> io::Result<()> {
    for table in check.tables.iter().filter(|table| table.is_bucket || !table.damaged.is_empty()) {
        let kind = if table.is_bucket { "bucket" } else { "table" };
        let (name, rows, bytes) = (rusm_text::escape(&table.name), table.rows, table.bytes);
        if table.damaged.is_empty() && rows == table.rows_written {
            writeln!(out, "{kind} `{name}`: {rows} rows, {bytes} bytes, intact")?;
        } else {
            let (lost, ranges) = (table.rows_written.saturating_sub(rows), table.damaged.len());
            writeln!(out, "{kind} `{name}`: {rows} rows, {bytes} bytes, {lost} rows lost, damaged ranges: {ranges}")?;
        }
    }
    for damage in &check.damage {
        writeln!(out, "damaged: {damage}")?;
    }
    if check.is_header_restored {
        writeln!(out, "damaged: {HEADER}")?;
    }
    for note in &check.notes {
        writeln!(out, "damaged: {}", rusm_text::escape(note))?;
    }
    let verdict = if check.is_sound() { "intact" } else { "damaged: run `rusm store repair` on it" };
    writeln!(out, "{}: {verdict}", shown(file))
}

fn check_json(file: &Path, check: &Check) -> Value {
    let table = |table: &TableCheck| {
        json!({
            "name": table.name,
            "is_bucket": table.is_bucket,
            "rows": table.rows,
            "rows_lost": table.rows_written.saturating_sub(table.rows),
            "bytes": table.bytes,
            "damaged_ranges": table.damaged.len(),
        })
    };
    json!({
        "file": file.to_string_lossy(),
        "is_sound": check.is_sound(),
        "tables": check.tables.iter().map(table).collect::<Vec<_>>(),
        "damage": check.damage.iter().map(Damage::to_string).collect::<Vec<_>>(),
        "is_header_restored": check.is_header_restored,
        "notes": check.notes,
    })
}

/// Returns a value as one line, without control characters for a terminal.
fn line(value: impl Into<Value>) -> String {
    let mut line = String::new();
    rusm_text::escape_json_into(&mut line, &value.into().to_string());
    line
}

fn row_json(row: ExportedRow<'_>) -> Value {
    let mut line = Map::new();
    let mut put = |name: &str, bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => line.insert(name.to_owned(), text.into()),
        // Without the leading `0x`.
        Err(_) => line.insert(format!("{name}_hex"), escaped::hex(bytes)[2..].into()),
    };
    put(if row.is_bucket { "bucket" } else { "table" }, row.name.as_bytes());
    put("key", row.key);
    put("value", row.value);
    if row.expiry_ms != 0 {
        line.insert("expires_at_ms".to_owned(), row.expiry_ms.into());
    }
    Value::Object(line)
}

fn export(file: &Path) -> Result<u8, Failure> {
    let (inspection, check) = open(file)?;
    let code =
        printed(code(check.is_sound()), |out| inspection.export(&mut |row| writeln!(out, "{}", line(row_json(row)))))?;
    log_check(&check);
    Ok(code)
}

/// Reports the damage on stderr.
fn log_check(check: &Check) {
    let header = check.is_header_restored.then(|| HEADER.to_owned());
    let damage = check.damage.iter().map(Damage::to_string).chain(header);
    for what in damage.chain(check.notes.iter().map(|note| rusm_text::escape(note).into_owned())) {
        // Ignore the error: a terminal that is closed cannot show the message.
        drop(writeln!(io::stderr(), "rusm: damaged: {what}"));
    }
}

fn repair(file: &Path, output: Option<&Path>) -> Result<u8, Failure> {
    let (inspection, check) = open(file)?;
    if check.is_sound() && output.is_none() {
        return printed(0, |out| writeln!(out, "{}: intact, nothing to repair", shown(file)));
    }
    let new = output.map_or_else(
        || {
            // Beside the file itself: a link to it may be on another file system.
            let mut name = inspection.canonical_path().as_os_str().to_owned();
            name.push(".repaired");
            PathBuf::from(name)
        },
        Path::to_owned,
    );
    let repaired = match inspection.repair(&new) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let what = format!("{} already exists: move it away, or choose another --output", shown(&new));
            return Err(Failure::Usage(what));
        }
        repaired => repaired.map_err(system(format!("write {}", shown(&new))))?,
    };
    let kept = match &output {
        Some(_) => None,
        None => Some(inspection.replace(&new).map_err(system(format!("replace {}", shown(file))))?),
    };
    log_check(&check);
    // Damage without a bucket and a table is in the list of buckets: then the number of lost rows is unknown.
    let lists_lost = check.damage.iter().any(|damage| damage.bucket.is_none() && damage.table.is_none());
    let is_lossless = repaired.rows_lost == 0 && check.notes.is_empty() && !lists_lost;
    printed(code(is_lossless), |out| {
        let (place, rows) = (output.unwrap_or(file), repaired.rows);
        let lost = if lists_lost {
            "all of the buckets named above are lost".to_owned()
        } else {
            format!("{} rows are lost", repaired.rows_lost)
        };
        write!(out, "{}: {rows} rows were saved, {lost}", shown(place))?;
        match kept {
            Some(kept) => writeln!(out, "; the damaged file is kept as {}", shown(&kept)),
            None => writeln!(out),
        }
    })
}
