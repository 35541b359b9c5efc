use std::os::unix::fs::PermissionsExt;

use super::*;

fn module(number: u32) -> Vec<u8> {
    wat::parse_str(format!("(module (func (export \"run\") (result i32) i32.const {number}))")).unwrap()
}

fn cache(dir: Option<PathBuf>) -> CodeCache {
    CodeCache::new(dir, 1 << 30, None)
}

/// Loads a module for the default engine.
fn load(cache: &CodeCache, engine: &Engine, number: u32) {
    cache.module(engine, CodeSettings::GROWING, &module(number)).unwrap();
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect()
}

#[test]
fn what_was_compiled_once_is_found() {
    let (dir, engine) = (tempfile::tempdir().unwrap(), Engine::default());
    let first = cache(Some(dir.path().join("deep/down")));
    let second = cache(Some(dir.path().join("deep/down")));

    load(&first, &engine, 1);
    load(&second, &engine, 1);
    load(&second, &engine, 2);

    assert_eq!(((first.hits(), first.misses()), (second.hits(), second.misses())), ((0, 1), (1, 1)));
}

#[test]
fn a_damaged_entry_is_made_anew() {
    let (dir, engine) = (tempfile::tempdir().unwrap(), Engine::default());
    let compiled = cache(Some(dir.path().to_owned()));
    load(&compiled, &engine, 1);
    let entry = entries(dir.path()).remove(0);
    let whole = fs::read(&entry).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;

    for damaged in [&b""[..], b"rusmaot1", &whole[..whole.len() / 2], &flipped] {
        fs::write(&entry, damaged).unwrap();
        load(&compiled, &engine, 1);
        assert_eq!(fs::read(&entry).unwrap(), whole, "rewritten");
    }
    assert_eq!((compiled.hits(), compiled.damaged()), (0, 4));
}

#[test]
fn an_entry_under_the_name_of_another_is_not_its_code() {
    let (dir, engine) = (tempfile::tempdir().unwrap(), Engine::default());
    let compiled = cache(Some(dir.path().to_owned()));
    load(&compiled, &engine, 1);
    let first = entries(dir.path()).remove(0);
    load(&compiled, &engine, 2);
    let second = entries(dir.path()).into_iter().find(|entry| *entry != first).unwrap();

    fs::rename(second, first).unwrap();
    load(&compiled, &engine, 1);

    assert_eq!((compiled.hits(), compiled.damaged()), (0, 1));
}

#[test]
fn what_another_user_could_write_or_is_no_file_is_not_used() {
    let (dir, engine) = (tempfile::tempdir().unwrap(), Engine::default());
    let compiled = cache(Some(dir.path().to_owned()));
    load(&compiled, &engine, 1);
    let entry = entries(dir.path()).remove(0);
    let compile = || load(&compiled, &engine, 1);
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();

    mode(&entry, 0o666);
    compile();
    mode(dir.path(), 0o777);
    compile();
    mode(dir.path(), 0o700);
    fs::remove_file(&entry).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &entry, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    compile();
    fs::remove_file(&entry).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &entry).unwrap();
    compile();
    assert_eq!((compiled.hits(), compiled.misses()), (0, 5));

    compile();
    assert_eq!(compiled.hits(), 1, "the entry was written again");
}

#[test]
fn a_directory_that_cannot_be_used_costs_nothing_but_time() {
    let (dir, engine) = (tempfile::tempdir().unwrap(), Engine::default());
    let file = dir.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();

    for dir in [file, locked, PathBuf::from("/dev/full"), PathBuf::from("/proc/nowhere")] {
        let compiled = cache(Some(dir));
        load(&compiled, &engine, 1);
        assert_eq!(compiled.misses(), 1);
    }
}

#[test]
fn too_much_is_cut_down_to_what_was_used_last() {
    let (dir, engine) = (tempfile::tempdir().unwrap(), Engine::default());
    let compiled = cache(Some(dir.path().to_owned()));
    load(&compiled, &engine, 0);
    let entry_bytes = entries(dir.path())[0].metadata().unwrap().len();

    // Nothing but a file is an entry, however old.
    fs::create_dir(dir.path().join("folder.rusmc")).unwrap();
    let small = CodeCache::new(Some(dir.path().to_owned()), 3 * entry_bytes + entry_bytes / 2, None);
    for number in 1..10 {
        load(&small, &engine, number);
    }

    assert_eq!(entries(dir.path()).len(), 3 + 1);
    load(&small, &engine, 9);
    assert_eq!(small.hits(), 1);
}

#[test]
fn writers_at_once_disturb_neither_each_other_nor_what_they_read() {
    let (dir, engine) = (tempfile::tempdir().unwrap(), Engine::default());
    let writers: Vec<CodeCache> = (0..4).map(|_| cache(Some(dir.path().to_owned()))).collect();

    std::thread::scope(|scope| {
        for compiled in &writers {
            scope.spawn(|| (0..8).for_each(|number| load(compiled, &engine, number)));
        }
    });

    assert_eq!(entries(dir.path()).len(), 8, "and no partial file");
    let later = cache(Some(dir.path().to_owned()));
    (0..8).for_each(|number| load(&later, &engine, number));
    assert_eq!((later.hits(), later.misses()), (8, 0), "every entry is intact");
}

/// Environment variable with the directory, for the part of the next test that runs in its own process.
const FULL: &str = "RUSM_TEST_FULL_DISK";

#[test]
fn a_disk_that_is_full_in_the_middle_of_an_entry_leaves_nothing_behind() {
    if let Some(dir) = std::env::var_os(FULL) {
        let compiled = cache(Some(dir.into()));
        load(&compiled, &Engine::default(), 1);
        return assert_eq!((compiled.misses(), compiled.store_failures()), (1, 1));
    }
    let dir = tempfile::tempdir().unwrap();
    // Limits files to one block, which is less than an entry.
    let limited = "ulimit -f 1; exec \"$@\"";
    let name = "engine::cache::tests::a_disk_that_is_full_in_the_middle_of_an_entry_leaves_nothing_behind";
    let mut child = std::process::Command::new("sh");
    child.args(["-c", limited, "sh"]).arg(std::env::current_exe().unwrap()).args([name, "--exact"]);

    let ended = child.env(FULL, dir.path()).output().unwrap();

    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"), "the filter must match the name of this test");
    assert_eq!(entries(dir.path()), [""; 0].map(PathBuf::from));
}

#[test]
fn what_a_writer_left_that_ended_in_the_middle_is_removed() {
    let (dir, engine) = (tempfile::tempdir().unwrap(), Engine::default());
    let part = |name: &str, age: Duration| {
        let path = dir.path().join(name);
        let file = File::create(&path).unwrap();
        file.set_modified(now() - age).unwrap();
        path
    };
    let left = part("abc.1-0.part", ABANDONED_AFTER + Duration::from_mins(1));
    let under_way = part("abc.2-0.part", Duration::from_mins(1));

    load(&cache(Some(dir.path().to_owned())), &engine, 1);

    assert!(!left.exists() && under_way.exists());
}
