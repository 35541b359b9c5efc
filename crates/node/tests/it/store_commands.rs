//! `rusm store` from a user's point of view: exit codes, one line per bucket, saved rows and lost rows.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rusm_store::inspection::Inspection;
use rusm_store::{OpenError, Store, StoreConfig};

fn store(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.current_dir(dir).env_clear().stdin(Stdio::null()).arg("store").args(args);
    let Output { status, stdout, stderr } = command.output().expect("the binary was built for this test");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

/// Opens a store. A program that another test is starting has a copy of the lock of a file for a moment, also of one that
/// was closed.
fn opened(path: &Path) -> Store {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        match Store::open(path, StoreConfig::default()) {
            Err(OpenError::InUse { .. }) if Instant::now() < until => std::thread::yield_now(),
            store => return store.unwrap(),
        }
    }
}

/// Creates a store of two buckets, and damages a value of one of them in the file.
fn damaged(dir: &Path) -> PathBuf {
    let path = dir.join("node.redb");
    let store = opened(&path);
    let (many, few) = (store.bucket("many").unwrap(), store.bucket("few").unwrap());
    for key in 0..500 {
        many.put(format!("key {key:03}"), vec![key as u8; 100]).wait().unwrap();
    }
    few.put("esc\u{1b}[2J\u{202e}", "a value").wait().unwrap();
    few.put([0xff, 0], vec![0xfe]).wait().unwrap();
    store.close();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 100).filter(|at| bytes[*at..*at + 100] == [77; 100]).collect();
    assert!(!places.is_empty());
    for at in &places {
        bytes[at + 50] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_damaged_store_is_checked_exported_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let path = damaged(dir.path());
    let before = fs::read(&path).unwrap();

    let (code, out, err) = store(dir.path(), &["check", "node.redb"]);
    assert_eq!((code, &*err), (5, ""), "{out}");
    assert!(out.contains("bucket `few`: 2 rows, ") && out.contains(" bytes, intact\n"), "{out}");
    assert!(out.contains("bucket `many`: ") && out.contains(" rows lost, damaged ranges: 2\n"), "{out}");
    assert!(out.contains("damaged: bucket `many`, keys "), "{out}");
    assert!(out.ends_with("node.redb: damaged: run `rusm store repair` on it\n"), "{out}");

    let (code, out, err) = store(dir.path(), &["export", "node.redb"]);
    assert_eq!(code, 5);
    assert!(err.starts_with("rusm: damaged: bucket `many`, keys ") && err.lines().count() == 2, "{err}");
    assert!(out.contains(r#""key":"esc\u001b[2J\u202e""#) && out.contains(r#""key_hex":"ff00""#), "{out}");
    assert!(!out.contains(['\u{1b}', '\u{202e}']));
    let exported = out.lines().count();
    assert!((300..502).contains(&exported), "{exported}");
    assert!(fs::read(&path).unwrap() == before && fs::read_dir(dir.path()).unwrap().count() == 1, "nothing is written");

    let (code, out, _) = store(dir.path(), &["repair", "node.redb"]);
    assert_eq!(code, 5, "rows are lost");
    assert!(
        out.starts_with(&format!("node.redb: {exported} rows were saved, {} rows are lost; ", 502 - exported)),
        "{out}"
    );
    assert!(fs::read(dir.path().join("node.redb.damaged")).unwrap() == before);

    let (code, out, _) = store(dir.path(), &["check", "node.redb"]);
    assert_eq!(code, 0, "{out}");
    let store = opened(&path);
    assert_eq!(store.bucket("few").unwrap().get([0xff, 0]).wait().unwrap().as_deref(), Some(&[0xfe][..]));
    let rows: u64 = store.report().buckets.iter().map(|bucket| bucket.keys).sum();
    assert_eq!(rows, exported as u64);
    store.bucket("many").unwrap().put("new", "value").wait().unwrap();
}

#[test]
fn a_damaged_header_is_reported_although_a_store_that_opens_puts_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.redb");
    let open = opened(&path);
    open.bucket("a").unwrap().put("key", "value").wait().unwrap();
    open.close();
    drop(open);
    let mut bytes = fs::read(&path).unwrap();
    // The number of pages of a region; no checksum of redb covers it.
    bytes[20] ^= 1;
    fs::write(&path, bytes).unwrap();

    let (code, out, _) = store(dir.path(), &["check", "node.redb"]);
    assert!(code == 5 && out.contains("damaged: the header or the length of the file"), "{out}");
    let (code, out, err) = store(dir.path(), &["export", "node.redb"]);
    assert!(code == 5 && out.lines().count() == 1 && err.contains("the header or the length"), "{out}{err}");

    let (code, out, _) = store(dir.path(), &["repair", "node.redb"]);
    assert!(code == 0 && out.contains("1 rows were saved, 0 rows are lost"), "{out}");
    assert_eq!(store(dir.path(), &["check", "node.redb"]).0, 0);
}

#[test]
fn of_two_repairs_into_one_file_at_most_one_writes_it() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rows) in [("a.redb", 300), ("b.redb", 100)] {
        let open = opened(&dir.path().join(name));
        let bucket = open.bucket("a").unwrap();
        for key in 0..rows {
            bucket.put(format!("key {key}"), "value").wait().unwrap();
        }
        open.close();
    }

    for round in 0..20 {
        let output = format!("out-{round}.redb");
        let repair = &|file: &str| store(dir.path(), &["repair", file, "--output", &output]);
        let ended = std::thread::scope(|scope| {
            ["a.redb", "b.redb"].map(|file| scope.spawn(move || repair(file))).map(|repair| repair.join().unwrap())
        });

        let winner = ended.iter().position(|(code, ..)| *code == 0).expect("one of them writes the file");
        let (code, _, line) = &ended[1 - winner];
        assert!(*code != 0 && line.contains("already exists"), "{ended:?}");
        let (code, out, _) = store(dir.path(), &["check", &output]);
        assert!(code == 0 && out.contains(["`a`: 300 rows", "`a`: 100 rows"][winner]), "{out}");
    }
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 22, "no other file is left");
}

#[test]
fn what_is_no_store_gets_one_line() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    fs::write(dir.path().join("text"), "x".repeat(9000)).unwrap();
    for (file, message) in
        [("gone", "No such file"), ("empty", "is empty (0 bytes)"), ("text", "does not begin with the")]
    {
        for command in ["check", "export", "repair"] {
            let (code, out, err) = store(dir.path(), &[command, file]);
            assert_eq!((code, &*out), (1, ""), "{err}");
            assert!(err.starts_with("rusm: ") && err.contains(message) && err.lines().count() == 1, "{err}");
        }
    }
    let open = opened(&dir.path().join("open.redb"));
    let (code, _, err) = store(dir.path(), &["check", "open.redb"]);
    assert!(code == 1 && err.contains("is already open"), "{err}");
    drop(open);
}

#[test]
fn a_repair_leaves_alone_what_another_repair_or_a_node_has_put_in_place_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = damaged(dir.path());
    let (first, second) = (Inspection::open(&path).unwrap(), Inspection::open(&path).unwrap());
    let new = dir.path().join("node.redb.repaired");
    first.repair(&new).unwrap();
    let kept = first.replace(&new).unwrap();
    drop(first);
    let node = opened(&path);
    node.bucket("many").unwrap().put("acknowledged", "after the first repair").wait().unwrap();
    node.close();
    drop(node);

    second.repair(&new).unwrap();
    let error = second.replace(&new).unwrap_err().to_string();

    assert!(error.contains("was replaced meanwhile") && !new.exists(), "{error}");
    let node = opened(&path);
    assert!(node.bucket("many").unwrap().get("acknowledged").wait().unwrap().is_some());
    assert!(kept.ends_with("node.redb.damaged") && !dir.path().join("node.redb.damaged-1").exists());
}

#[test]
fn a_repair_renames_nothing_while_another_program_has_the_directory_or_the_repaired_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = damaged(dir.path());
    let new = dir.path().join("node.redb.repaired");
    let inspection = Inspection::open(&path).unwrap();
    inspection.repair(&new).unwrap();

    let directory = fs::File::open(dir.path()).unwrap();
    directory.lock().unwrap();
    let error = inspection.replace(&new).unwrap_err().to_string();

    assert!(error.contains("another program has locked its directory") && !new.exists(), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is renamed");
    directory.unlock().unwrap();
    inspection.repair(&new).unwrap();
    let node = opened(&new);
    let error = inspection.replace(&new).unwrap_err().to_string();
    assert!(error.contains("another program has opened the repaired file"), "{error}");
    drop(node);
}

#[test]
fn a_journal_that_the_repair_has_not_read_keeps_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = damaged(dir.path());
    let new = dir.path().join("node.redb.repaired");
    let inspection = Inspection::open(&path).unwrap();
    inspection.repair(&new).unwrap();
    fs::write(dir.path().join("node.redb-journal"), "of a node that has started meanwhile").unwrap();

    let error = inspection.replace(&new).unwrap_err().to_string();

    assert!(error.contains("was replaced meanwhile"), "{error}");
    assert!(dir.path().join("node.redb-journal").exists() && !new.exists());
}

#[test]
fn a_repair_by_a_link_writes_beside_the_file_and_keeps_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = damaged(dir.path());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let links = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    std::os::unix::fs::symlink(&path, links.path().join("link.redb")).unwrap();

    let (code, out, err) = store(links.path(), &["repair", "link.redb"]);

    assert!(code == 5 && out.starts_with("link.redb: "), "{out}{err}");
    assert_eq!(store(dir.path(), &["check", "node.redb"]).0, 0);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(links.path()).unwrap().count(), 1, "only the link is there");
}

#[test]
fn nothing_is_written_to_the_store_itself_or_to_the_name_of_its_journal() {
    let dir = tempfile::tempdir().unwrap();
    let path = damaged(dir.path());
    let before = fs::read(&path).unwrap();
    for command in ["check", "export", "repair"] {
        let stdout = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_rusm"));
        run.current_dir(dir.path()).env_clear().args(["store", command, "node.redb"]).stdout(stdout);
        let Output { status, stderr, .. } = run.output().unwrap();
        let line = String::from_utf8(stderr).unwrap();
        assert!(status.code() == Some(2) && line.starts_with("rusm: stdout is node.redb"), "{line}");
    }
    let (code, _, line) = store(dir.path(), &["repair", "node.redb", "--output", "node.redb-journal"]);
    assert!(code == 1 && line.contains("it is the name of the journal of node.redb"), "{line}");
    assert!(fs::read(&path).unwrap() == before && fs::read_dir(dir.path()).unwrap().count() == 1);
}
