//! The stage that collects items into batches.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Stage;
use super::receipt::Receipts;
use super::worker::{Item, Output, Waiting, stage_of};
use crate::process::context::Context;
use crate::supervision::actor::Inbox;
use crate::supervision::supervisor::ChildSpec;

/// Creates the stage, and what takes its items.
pub(super) fn start<T: Send + 'static>(
    id: Arc<str>,
    size: usize,
    delay: Duration,
    output: Output<Vec<T>>,
) -> (ChildSpec, Output<T>) {
    stage_of(id, Stage::default(), move |ctx, inbox| collect(ctx, inbox, size, delay, output.clone()))
}

async fn collect<T: Send + 'static>(
    ctx: Context,
    mut inbox: Inbox<Waiting<T>>,
    size: usize,
    delay: Duration,
    output: Output<Vec<T>>,
) {
    loop {
        let mut item = inbox.receive(&ctx).await.take();
        let until = Instant::now().checked_add(delay);
        let (mut value, mut receipts) = (Vec::new(), Receipts::default());
        loop {
            value.push(item.value);
            receipts.append(&mut item.receipts);
            if value.len() == size {
                break;
            }
            item = match until {
                None => inbox.receive(&ctx).await.take(),
                Some(until) => match timeout_at(until, inbox.receive(&ctx)).await {
                    Ok(item) => item.take(),
                    Err(_) => break,
                },
            };
        }
        output.pass(&ctx, Item { value, receipts }).await;
    }
}
