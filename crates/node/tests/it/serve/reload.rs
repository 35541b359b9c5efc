//! Certificates and modules that change while a node uses them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use super::{Served, failure};
use crate::run::harness::{Run, folder, prebuilt};

const WITH_CERTIFICATE: [&str; 8] = ["serve", ".", "--listen", "0", "--certificate", "cert.pem", "--key", "key.pem"];

const CERTIFICATE_READ_AGAIN: &str = "certificate was read again, and is in use";
const READ_AGAIN: &str = "module was read again, and answers from now on";

fn write_certificate(dir: &Path) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for (file, text) in [("cert.pem", cert.pem()), ("key.pem", signing_key.serialize_pem())] {
        fs::write(dir.join("new"), text).unwrap();
        fs::rename(dir.join("new"), dir.join(file)).unwrap();
    }
}

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn a_certificate_that_is_no_regular_file_neither_replaces_the_old_one_nor_delays_signals() {
    let dir = folder(&[]);
    write_certificate(dir.path());
    let mut node = Served::start(dir.path(), &WITH_CERTIFICATE);
    let certificate = dir.path().join("cert.pem");

    fs::remove_file(&certificate).unwrap();
    make_pipe(&certificate);
    let pipe = node.wait("the old one stays");
    fs::remove_file(&certificate).unwrap();
    symlink("/dev/zero", &certificate).unwrap();
    let device = node.wait("the old one stays");
    fs::remove_file(&certificate).unwrap();
    fs::File::create(&certificate).unwrap().set_len(3 << 30).unwrap();
    let huge = node.wait("the old one stays");
    write_certificate(dir.path());
    node.wait(CERTIFICATE_READ_AGAIN);
    node.signal(Signal::TERM);

    assert!(pipe.contains("cannot read cert.pem: it is not a regular file"), "{pipe}");
    assert!(device.contains("cannot read cert.pem: it is not a regular file"), "{device}");
    assert!(huge.contains("it has 3221225472 bytes, which is over the limit of 1048576"), "{huge}");
    assert_eq!(node.ended(), Some(0));
}

#[test]
fn a_node_does_not_start_with_a_pipe_as_its_key() {
    let dir = folder(&[]);
    write_certificate(dir.path());
    fs::remove_file(dir.path().join("key.pem")).unwrap();
    make_pipe(&dir.path().join("key.pem"));

    let (code, line) = failure(dir.path(), &WITH_CERTIFICATE);

    assert!(line.contains("cannot read key.pem: it is not a regular file"), "{line}");
    assert_eq!(code, Some(2));
}

#[test]
fn a_folder_that_was_replaced_is_served_after_a_signal() {
    let dir = folder(&[]);
    for (name, text) in [("site", "old"), ("new", "new")] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("index.html"), text).unwrap();
    }
    let mut node = Served::start(dir.path(), &["serve", "site", "--listen", "0"]);
    let before = node.get("/");

    fs::rename(dir.path().join("site"), dir.path().join("old")).unwrap();
    node.signal(Signal::HUP);
    let gone = node.wait("the old one stays");
    let meanwhile = node.get("/");
    fs::rename(dir.path().join("new"), dir.path().join("site")).unwrap();
    node.signal(Signal::HUP);
    node.wait("folder was read again, and answers from now on");
    let after = node.get("/");

    assert!(gone.contains("cannot use the folder that was read again"), "{gone}");
    assert_eq!([before, meanwhile, after].map(|(_, body)| body), ["old", "old", "new"]);
}

/// Returns the component with code besides its own, which takes the compiler a while.
fn slow_to_compile(component: &[u8]) -> Vec<u8> {
    let function = format!("(func (result i32) (i32.const 1) {})", "(i32.add (i32.const 1)) ".repeat(1_000));
    let extra = wat::parse_str(format!("(component (core module {}))", function.repeat(300))).unwrap();
    // A component is a preamble of eight bytes, and sections.
    [component, &extra[8..]].concat()
}

/// Returns whether the node compiles: it has a child process.
fn is_compiling(node: &Served) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", node.child.id())).unwrap();
    let children = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
    children.into_iter().any(|children| !children.is_empty())
}

#[test]
fn the_module_of_the_last_signal_is_in_use_however_long_the_one_before_it_compiles() {
    let dir = folder(&[]);
    let put = |bytes: &[u8]| {
        fs::write(dir.path().join("new"), bytes).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("app.wasm")).unwrap();
    };
    let [first, last] = ["wasi/http.wasm", "wasi/hello.wasm"].map(|file| fs::read(prebuilt(file)).unwrap());
    put(&first);
    let mut node = Served::start(dir.path(), &["serve", "app.wasm", "--listen", "0"]);
    let before = node.get("/");

    put(&slow_to_compile(&first));
    node.signal(Signal::HUP);
    let mut reloads = 0;
    while reloads == 0 && !is_compiling(&node) {
        reloads += node.log.try_iter().filter(|line| line.contains(READ_AGAIN)).count();
    }
    put(&last);
    node.signal(Signal::HUP);
    for _ in reloads..2 {
        node.wait(READ_AGAIN);
    }

    let after = node.get("/");
    assert!(after.0 == 200 && after != before, "{after:?}");
}

#[test]
fn a_certificate_does_not_wait_for_a_module_that_is_compiled() {
    let settings = "[[serve]]\nlisten = 0\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n[[serve.route]]\npattern = \
                    \"/*\"\nmodule = \"app.wasm\"\n";
    let dir = folder(&[("rusm.toml", settings)]);
    write_certificate(dir.path());
    let first = fs::read(prebuilt("wasi/http.wasm")).unwrap();
    fs::write(dir.path().join("app.wasm"), &first).unwrap();
    let mut node = Served::start(dir.path(), &["serve", "rusm.toml"]);

    fs::write(dir.path().join("new"), slow_to_compile(&first)).unwrap();
    fs::rename(dir.path().join("new"), dir.path().join("app.wasm")).unwrap();
    node.signal(Signal::HUP);
    node.wait(CERTIFICATE_READ_AGAIN);
    write_certificate(dir.path());
    node.signal(Signal::HUP);
    node.wait(CERTIFICATE_READ_AGAIN);
    node.signal(Signal::TERM);

    assert_eq!(node.ended(), Some(0));
}

#[test]
fn a_run_uses_changed_certificates_and_with_watch_changed_modules_of_its_routes() {
    let settings = "[[serve]]\nlisten = 0\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n[[serve.route]]\npattern = \
                    \"/*\"\nmodule = \"app.wasm\"\n[[process]]\nmodule = \"echo.wasm\"\n";
    let dir = folder(&[("rusm.toml", settings)]);
    write_certificate(dir.path());
    fs::copy(prebuilt("wasi/http.wasm"), dir.path().join("app.wasm")).unwrap();
    fs::copy(prebuilt("rust/parked.wasm"), dir.path().join("echo.wasm")).unwrap();
    let mut run = Run::start(dir.path(), &["rusm.toml", "--watch"]);
    run.wait("guests have started");

    write_certificate(dir.path());
    run.wait(CERTIFICATE_READ_AGAIN);
    // A custom section makes it another file with the same behaviour.
    let mut bytes = fs::read(dir.path().join("app.wasm")).unwrap();
    bytes.extend([0, 3, 1, b'x', 0]);
    fs::write(dir.path().join("new.wasm"), bytes).unwrap();
    fs::rename(dir.path().join("new.wasm"), dir.path().join("app.wasm")).unwrap();
    run.wait(READ_AGAIN);
    run.signal(Signal::TERM);

    assert_eq!(run.ended(), Some(0));
}
