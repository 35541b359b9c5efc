//! Static files.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use rusm_serve::{Files, Limits, Router};

use crate::client::{Answer, Client};
use crate::serve;

/// Asks for a path with some header fields.
fn ask(client: &mut Client, method: &str, path: &str, fields: &str) -> Answer {
    client.write(format!("{method} {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"));
    if method == "HEAD" {
        let head = client.head();
        return Answer { status: head[9..12].parse().expect("a status"), head, body: Vec::new() };
    }
    client.answer()
}

#[test]
fn files_are_served_whole_in_ranges_or_not_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let long: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    fs::write(folder.path().join("page one.html"), "<p>hello").expect("written");
    fs::write(folder.path().join("long.bin"), &long).expect("written");
    fs::create_dir(folder.path().join("sub")).expect("created");
    fs::write(folder.path().join("sub/index.html"), "index").expect("written");
    let router = Router::new().route("/assets/*", Files::open(folder.path()).expect("opened")).expect("valid");
    let (_runtime, server) = serve(router, Limits::default());
    let client = &mut Client::connect(server.local_addr());

    let page = ask(client, "GET", "/assets/page%20one.html", "");
    assert_eq!((page.status, page.text()), (200, "<p>hello"));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let tag = page.header("etag").expect("a tag").to_owned();
    let again = ask(client, "GET", "/assets/page%20one.html", &format!("if-none-match: \"other\", {tag}\r\n"));
    assert_eq!((again.status, again.body.len()), (304, 0));
    let date = page.header("last-modified").expect("a date").to_owned();
    assert_eq!(ask(client, "GET", "/assets/page%20one.html", &format!("if-modified-since: {date}\r\n")).status, 304);
    for (condition, status) in [
        (format!("if-match: \"other\", {tag}"), 200),
        ("if-match: *".to_owned(), 200),
        ("if-match: \"other\"".to_owned(), 412),
        ("if-match: \"a,*,b\"".to_owned(), 412),
        (format!("if-none-match: \"a,b\", {tag}"), 304),
        ("if-none-match: \"a,*,b\"".to_owned(), 200),
        (format!("if-none-match: \"other\"\r\nif-none-match: {tag}"), 304),
        (format!("if-unmodified-since: {date}"), 200),
        ("if-unmodified-since: Thu, 01 Jan 1970 00:00:00 GMT".to_owned(), 412),
    ] {
        let answer = ask(client, "GET", "/assets/page%20one.html", &format!("{condition}\r\n"));
        assert_eq!(answer.status, status, "{condition}");
    }
    assert_eq!(ask(client, "HEAD", "/assets/long.bin", "").header("content-length"), Some("200000"));
    assert_eq!(ask(client, "GET", "/assets/long.bin", "").body, long);

    let part = ask(client, "GET", "/assets/long.bin", "range: bytes=100-199\r\n");
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 100-199/200000")));
    assert_eq!(part.body, long[100..200]);
    assert_eq!(ask(client, "GET", "/assets/long.bin", "range: bytes=-5\r\n").body, long[199_995..]);
    assert_eq!(ask(client, "GET", "/assets/long.bin", "range: bytes=199999-\r\n").body, long[199_999..]);
    assert_eq!(ask(client, "GET", "/assets/long.bin", "range: bytes=200000-\r\n").status, 416);
    assert_eq!(
        ask(client, "HEAD", "/assets/long.bin", "range: bytes=0-1\r\n").header("content-length"),
        Some("200000")
    );
    assert_eq!(ask(client, "GET", "/assets/long.bin", "range: bytes=+0-1\r\n").status, 200, "not a range");
    assert_eq!(ask(client, "GET", "/assets/long.bin", "range: bytes=0-+1\r\n").status, 200, "not a range");
    assert_eq!(ask(client, "GET", "/assets/long.bin", "range: bytes=0-1\r\nif-range: \"old\"\r\n").status, 200);

    assert_eq!(ask(client, "GET", "/assets/sub/", "").text(), "index");
    let folder = ask(client, "GET", "/assets/sub", "");
    assert_eq!((folder.status, folder.header("location")), (301, Some("/assets/sub/")));
    assert_eq!(ask(client, "POST", "/assets/sub/", "").status, 405);
}

#[test]
fn files_of_one_length_from_before_1970_have_tags_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let router = Router::new().route("/*", Files::open(folder.path()).expect("opened")).expect("valid");
    let (_runtime, server) = serve(router, Limits::default());
    let client = &mut Client::connect(server.local_addr());
    let mut tag_of = |seconds| {
        let mut file = fs::File::create(folder.path().join("old.txt")).expect("created");
        file.write_all(b"12345678").expect("written");
        file.set_modified(SystemTime::UNIX_EPOCH - Duration::from_secs(seconds)).expect("dated");
        ask(client, "GET", "/old.txt", "").header("etag").expect("a tag").to_owned()
    };

    assert_ne!(tag_of(1_000), tag_of(5));
}

#[test]
fn no_path_leads_out_of_the_folder() {
    let outer = tempfile::tempdir().expect("a folder");
    let inner = outer.path().join("inner");
    fs::create_dir(&inner).expect("created");
    fs::write(outer.path().join("secret"), "secret").expect("written");
    fs::write(inner.join(".hidden"), "hidden").expect("written");
    symlink("../secret", inner.join("relative")).expect("linked");
    symlink("/etc/passwd", inner.join("absolute")).expect("linked");
    symlink("/proc/self/root/etc/passwd", inner.join("magic")).expect("linked");
    let router = Router::new().route("/*", Files::open(&inner).expect("opened")).expect("valid");
    let (_runtime, server) = serve(router, Limits::default());

    let paths = [
        "/../secret",
        "/..%2fsecret",
        "/%2e%2e/secret",
        "/a/../../secret",
        "//../secret",
        "/relative",
        "/absolute",
        "/magic",
        "/.hidden",
        "/%2e%68idden",
        "/inner",
        "/secret",
        "/%00",
        "/etc/passwd",
        "/.",
        "/..",
    ];
    for path in paths {
        let answer = ask(&mut Client::connect(server.local_addr()), "GET", path, "");
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
}

#[test]
fn other_methods_are_told_which_exist_and_a_redirect_keeps_the_query() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("sub")).expect("created");
    let router = Router::new().route("/*", Files::open(folder.path()).expect("opened")).expect("valid");
    let (_runtime, server) = serve(router, Limits::default());
    let client = &mut Client::connect(server.local_addr());

    let refused = ask(client, "DELETE", "/sub", "");
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
    let redirected = ask(client, "GET", "/sub?v=2", "");
    assert_eq!((redirected.status, redirected.header("location")), (301, Some("/sub/?v=2")));
}
