//! The other node: processes that echo and count, and a raw session that echoes.

use std::io::Write;

use bytes::Bytes;
use rusm_runtime::{Context, Request};

use crate::{Measured, Member, raw};

/// Joins a node, says so, and runs until it is killed.
pub(crate) fn run(join: &str, raw: &str) -> Measured<()> {
    let (_member, _) = Member::start("b", vec![join.to_owned()])?;
    let _echo = raw::echo(raw)?;
    println!("ready");
    std::io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}

/// Answers each call with its request.
pub(crate) async fn echo(ctx: Context) {
    loop {
        let Request { request, reply } = ctx.receive_of::<Request<Bytes, Bytes>>().await;
        reply.send(&ctx, request);
    }
}

/// Counts messages, and answers each call with their number.
pub(crate) async fn sink(ctx: Context) {
    let mut count = 0_u64;
    loop {
        match ctx.receive().await.downcast::<Bytes>() {
            Ok(_) => count += 1,
            Err(other) => {
                if let Ok(Request { reply, .. }) = other.downcast::<Request<Bytes, Bytes>>() {
                    reply.send(&ctx, Bytes::copy_from_slice(&count.to_le_bytes()));
                }
            }
        }
    }
}
