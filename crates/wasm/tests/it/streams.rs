//! Byte streams to and from guests.

use rusm_runtime::observe::{BodyFact, EventKind, body_info, events};
use rusm_runtime::ring::Builder;
use rusm_runtime::stream::{StreamError, StreamReader, pipe};
use rusm_runtime::{Context, ExitReason};
use rusm_wasm::{GuestOptions, Wasm};

use crate::guests::{Node, raw, raw_with};

/// Longer than any of the rings here; consecutive blocks differ.
fn long_text() -> Vec<u8> {
    (0..100_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()[..3].to_vec()).collect()
}

/// Accepts a stream, opens one of 4 KiB to its parent, and copies the first into the second until the end.
fn copier() -> Vec<u8> {
    raw(
        "(local $from i64) (local $to i64)",
        r"
        (if (i32.ne (call $receive (i64.const -1)) (i32.const 6)) (then unreachable))
        (local.set $from (call $stream_accept))
        (local.set $to (call $stream_open (call $parent) (i32.const 4096)))
        (loop $again
            (local.set $n (call $stream_read (local.get $from) (i32.const 1000) (i32.const 3000)))
            (if (i32.lt_s (local.get $n) (i32.const 0)) (then unreachable))
            (if (local.get $n) (then
                (if (call $stream_write (local.get $to) (i32.const 1000) (local.get $n)) (then unreachable))
                (br $again))))
        (if (i32.eqz (call $stream_close (local.get $to))) (then unreachable))",
    )
}

/// Returns the text as it comes out of a guest that copies it.
async fn copied(wasm: Wasm, ctx: Context, copier: Vec<u8>, text: Vec<u8>) -> Vec<u8> {
    let module = wasm.load("copier", &copier).expect("it is a module");
    let (guest, _) =
        wasm.spawn_from(&ctx, &module, &GuestOptions::default().profile("network")).expect("there is room");
    let (mut writer, reader) = pipe(1024).expect("a power of two");
    ctx.send(guest, reader).await;
    ctx.spawn(|_| async move {
        writer.write_all(&text).await.expect("the guest reads");
        writer.close();
    });
    let mut reader = ctx.receive_of::<StreamReader>().await;
    let (mut seen, mut bytes) = (Vec::new(), [0; 777]);
    loop {
        match reader.read(&mut bytes).await.expect("the guest closes its end") {
            0 => return seen,
            count => seen.extend_from_slice(&bytes[..count]),
        }
    }
}

#[test]
fn bytes_come_through_a_guest_as_they_were_however_little_fits() {
    let seen = Node::small().inside(|wasm, ctx| copied(wasm, ctx, copier(), long_text()));

    assert!(seen == long_text(), "{} bytes of {}", seen.len(), long_text().len());
}

#[test]
fn a_component_reads_and_writes_streams() {
    let seen = Node::small().inside(|wasm, ctx| copied(wasm, ctx, component(), long_text()));

    assert!(seen == long_text(), "{} bytes of {}", seen.len(), long_text().len());
}

#[test]
fn a_component_that_waits_for_bytes_shows_that_it_reads() {
    let node = Node::small();
    let (tell, told) = std::sync::mpsc::channel();
    let module = node.load("copier", &component());
    let wasm = node.wasm.clone();
    let parent = node.runtime.spawn(move |ctx| async move {
        let profile = GuestOptions::default().profile("network");
        let (guest, _) = wasm.spawn_from(&ctx, &module, &profile).expect("there is room");
        let (_writer, reader) = pipe(64).expect("a power of two");
        ctx.send(guest, reader).await;
        tell.send(guest).expect("the test waits");
        let _opened = ctx.receive_of::<StreamReader>().await;
        ctx.receive_of::<()>().await;
    });
    let guest = told.recv().expect("the guest was started");

    let reads = ("last_host_call", BodyFact::Text("stream-read".into()));
    node.until("it waits in the read", |node| {
        body_info(&node.runtime, guest).is_some_and(|info| info.facts().contains(&reads))
    });
    node.runtime.exit(parent.expect("there is room"), ExitReason::Killed);
}

#[test]
fn a_guest_that_ends_is_noticed_at_the_other_end_and_notices_one() {
    let node = Node::small();
    let module =
        node.load("waits", &raw("", "(drop (call $receive (i64.const -1))) (drop (call $receive (i64.const -1)))"));
    let guest = node.spawn(&module, &GuestOptions::default());
    let error = node.inside(move |_, ctx| async move {
        let (mut writer, reader) = pipe(64).expect("a power of two");
        ctx.send(guest, reader).await;
        writer.write_all(&[1; 64]).await.expect("the reader is alive");
        ctx.exit(guest, ExitReason::Killed);
        writer.write_all(&[1; 64]).await
    });
    assert_eq!(error, Err(StreamError::ReaderGone));

    // A writer that is dropped without a close: status -6, after the bytes that it had written.
    let cut = raw(
        "(local $from i64)",
        r"
        (drop (call $receive (i64.const -1)))
        (local.set $from (call $stream_accept))
        (if (i32.ne (call $stream_read (local.get $from) (i32.const 0) (i32.const 9)) (i32.const 3)) (then unreachable))
        (if (i32.ne (call $stream_read (local.get $from) (i32.const 0) (i32.const 9)) (i32.const -6)) (then unreachable))
        (drop (call $error_read (i32.const 0) (i32.const 99)))
        (drop (call $exit (call $self) (i32.const 4) (i32.const 0) (call $error_len)))",
    );
    let module = node.load("cut", &cut);
    let reason = node.inside(move |wasm, ctx| async move {
        let (guest, _) = wasm.spawn_from(&ctx, &module, &GuestOptions::default().monitored()).expect("there is room");
        let (mut writer, reader) = pipe(64).expect("a power of two");
        writer.write_all(b"abc").await.expect("the reader is alive");
        drop(writer);
        ctx.send(guest, reader).await;
        ctx.receive_of::<rusm_runtime::Down>().await.reason
    });
    assert_eq!(reason.to_string(), "the writer of the stream ended without closing it");
}

#[test]
fn a_reader_of_any_ring_of_bytes_serves_a_guest() {
    let node = Node::small();
    let module = node.load(
        "sum",
        &raw(
            "(local $from i64) (local $sum i32)",
            r"
            (drop (call $receive (i64.const -1)))
            (local.set $from (call $stream_accept))
            (loop $again
                (local.set $n (call $stream_read (local.get $from) (i32.const 0) (i32.const 1)))
                (local.set $sum (i32.add (local.get $sum) (i32.load8_u (i32.const 0))))
                (br_if $again (local.get $n)))
            (if (i32.ne (local.get $sum) (i32.const 5050)) (then unreachable))",
        ),
    );
    let reasons = node.inside(move |wasm, ctx| async move {
        let (mut writer, subscriber) = Builder::new(32).build::<u8>().expect("a power of two");
        for _ in 0..3 {
            let guest = GuestOptions::default().monitored();
            let (pid, _) = wasm.spawn_from(&ctx, &module, &guest).expect("there is room");
            ctx.send(pid, subscriber.join().expect("there is a free reader slot")).await;
        }
        // The last byte is counted once more at the end, because a read at the end does not overwrite it.
        writer.write(&(0..100).collect::<Vec<u8>>()).await;
        writer.write(&[50]).await;
        writer.close();
        let mut reasons = Vec::new();
        while reasons.len() < 3 {
            reasons.push(ctx.receive_of::<rusm_runtime::Down>().await.reason.to_string());
        }
        reasons
    });

    assert_eq!(reasons, ["normal"; 3]);
}

/// Ends with the status of a call as its reason.
fn status_of(call: &str) -> Vec<u8> {
    let run = format!(
        r"(i32.store8 (i32.const 40) (i32.const 45))
        (i32.store8 (i32.const 41) (i32.sub (i32.const 48) {call}))
        (drop (call $exit (call $self) (i32.const 4) (i32.const 40) (i32.const 2)))"
    );
    raw_with("", "", &run)
}

#[test]
fn what_makes_no_sense_or_was_not_granted_is_a_status() {
    let node = Node::small();
    let open = |to: &str, capacity| format!("(i32.wrap_i64 (call $stream_open {to} (i32.const {capacity})))");
    let me = "(call $self)";
    for (call, profile, status) in [
        (open(me, "64"), "sandboxed", "-1"),
        (open("(i64.const 4294967295000000)", "64"), "trusted", "-2"),
        (open(me, "1000"), "trusted", "-9"),
        (open(me, "0"), "trusted", "-9"),
        (open(me, "2097152"), "trusted", "-9"),
        ("(call $stream_read (i64.const 7) (i32.const 0) (i32.const 8))".to_owned(), "trusted", "-9"),
        ("(call $stream_write (i64.const 0) (i32.const 0) (i32.const 8))".to_owned(), "trusted", "-9"),
        ("(i32.sub (i32.const 0) (call $stream_close (i64.const 1)))".to_owned(), "trusted", "-0"),
        ("(i32.wrap_i64 (call $stream_accept))".to_owned(), "trusted", "-0"),
    ] {
        assert_eq!(
            node.end_of(&status_of(&call), &GuestOptions::default().profile(profile)).to_string(),
            status,
            "{call}"
        );
    }
    let refused = events(&node.runtime, 0, 100)
        .into_iter()
        .any(|event| matches!(event.kind, EventKind::Refused { capability, .. } if capability == "streams"));
    assert!(refused);

    // Its own stream: written from and read into addresses outside the memory, and read through the writing end.
    let own = |call: &str| {
        let opened = "(call $stream_open (call $self) (i32.const 64))";
        let call = call.replace("STREAM", opened);
        node.end_of(&status_of(&call), &GuestOptions::default().profile("trusted")).to_string()
    };
    assert_eq!(own("(call $stream_write STREAM (i32.const 65530) (i32.const 8))"), "-9");
    assert_eq!(own("(call $stream_read STREAM (i32.const 0) (i32.const 8))"), "-9");
    assert_eq!(own("(call $stream_write STREAM (i32.const 0) (i32.const 8))"), "-0");
}

#[test]
fn ends_are_bounded_in_number() {
    let node = Node::small();
    let many = raw(
        "(local $left i32)",
        r"
        (local.set $left (i32.const 64))
        (loop $again
            (if (i64.le_s (call $stream_open (call $self) (i32.const 1)) (i64.const 0)) (then unreachable))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $again (local.get $left)))
        (if (i64.ne (call $stream_open (call $self) (i32.const 1)) (i64.const -8)) (then unreachable))
        (if (i32.eqz (call $stream_close (i64.const 1))) (then unreachable))
        (if (i64.ne (call $stream_open (call $self) (i32.const 1)) (i64.const 65)) (then unreachable))",
    );

    assert_eq!(node.end_of(&many, &GuestOptions::default().profile("trusted")), ExitReason::Normal);
}

#[test]
fn an_end_too_many_is_refused_by_its_name_and_the_others_are_accepted_in_order() {
    let node = Node::small();
    let module = node.load(
        "hoards",
        &raw(
            "(local $left i32)",
            r"
        (local.set $left (i32.const 65))
        (loop $again
            (if (i32.ne (call $receive (i64.const -1)) (i32.const 6)) (then unreachable))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (if (i32.ne (call $item_len) (select (i32.const 13) (i32.const 14) (local.get $left))) (then unreachable))
            (br_if $again (local.get $left)))
        (if (i64.ne (call $stream_accept) (i64.const 1)) (then unreachable))
        (if (i32.ne (call $stream_read (i64.const 1) (i32.const 0) (i32.const 9)) (i32.const 1)) (then unreachable))",
        ),
    );
    let (reason, refused) = node.inside(move |wasm, ctx| async move {
        let (guest, _) = wasm.spawn_from(&ctx, &module, &GuestOptions::default().monitored()).expect("there is room");
        let mut writers = Vec::new();
        for number in 0..65 {
            let (mut writer, reader) = pipe(64).expect("a power of two");
            writer.write_all(&[number]).await.expect("its reader is alive");
            ctx.send(guest, reader).await;
            writers.push(writer);
        }
        let reason = ctx.receive_of::<rusm_runtime::Down>().await.reason;
        (reason, writers[64].write_all(&[0]).await)
    });

    assert_eq!((reason, refused), (ExitReason::Normal, Err(StreamError::ReaderGone)));
}

/// The copier as a component.
fn component() -> Vec<u8> {
    wat::parse_str(include_str!("streams.wat")).expect("it is a component")
}
