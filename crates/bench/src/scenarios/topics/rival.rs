//! tokio's broadcast channel under the load of a topic.

use std::time::Instant;

use rusm_runtime::Context;
use rusm_runtime::topic::Message;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};

use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::run::error::RunError;
use crate::scenarios::topics::load::TopicLoad;
use crate::scenarios::topics::payload::{Payloads, arrived};

/// Capacity of the channel, in messages.
const CAPACITY: usize = 1024;

/// Runs the publishers and subscribers of a load over a channel until the run stops.
pub(crate) async fn run(load: TopicLoad, context: &mut RunContext) -> Result<(), RunError> {
    let (base, channel) = (Instant::now(), broadcast::channel(CAPACITY).0);
    for _ in 0..load.subscribers {
        let (receiver, recorder) = (channel.subscribe(), context.recorder());
        context.spawn_worker(move |ctx| receive(ctx, receiver, recorder, base))?;
    }
    for index in 0..load.publishers {
        let payloads = Payloads::new(load.mix, load.payload, 0, false, base, context.seed() + index);
        let pace = context.pace_of(index, load.publishers, context.duty(), load.subscribers);
        let (recorder, channel) = (context.recorder(), channel.clone());
        context.spawn_worker(move |ctx| send(ctx, channel, payloads, pace, recorder))?;
    }
    drop(channel);
    context.stopped().await?;
    context.ended().await
}

async fn send(ctx: Context, channel: Sender<Message>, mut payloads: Payloads, mut pace: Pace, mut recorder: Recorder) {
    ctx.set_label("publisher");
    let most = payloads.per_turn(64);
    while let Some(ops) = pace.next_batch(&ctx, most).await {
        for _ in 0..ops {
            let stamp = pace.begin(&mut recorder);
            // This fails only at the end, when no receiver is left.
            drop(channel.send(payloads.next(stamp)));
        }
        // The channel never makes a sender wait: without this yield, other processes could not run.
        ctx.yield_now().await;
    }
}

async fn receive(ctx: Context, mut receiver: Receiver<Message>, mut recorder: Recorder, base: Instant) {
    ctx.set_label("subscriber");
    loop {
        match receiver.recv().await {
            Ok(message) => {
                arrived(&recorder, base, message.payload());
                recorder.count(1);
            }
            Err(RecvError::Lagged(lost)) => recorder.drop_ops(lost),
            Err(RecvError::Closed) => return,
        }
    }
}
