//! A chat room: members join, hear every line, and are forgotten when they end, for whatever reason.
//!
//! `cargo run -p rusm-examples --bin chat`

#![expect(clippy::print_stdout, reason = "an example that prints its steps")]

use std::collections::HashMap;

use rusm::prelude::*;

#[derive(Clone, Debug)]
struct Line(String);

#[derive(Clone, Default)]
struct Room(HashMap<Pid, (String, Address<Line>)>);

#[actor]
impl Room {
    fn join(&mut self, ctx: &Context, name: String, member: Address<Line>) -> usize {
        ctx.monitor(member.pid());
        self.0.insert(member.pid(), (name, member));
        self.0.len()
    }

    async fn say(&self, ctx: &Context, from: Pid, text: String) {
        let Some((name, _)) = self.0.get(&from) else { return };
        for (_, member) in self.0.values() {
            member.send(ctx, Line(format!("{name}: {text}"))).await;
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.values().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    #[info]
    fn left(&mut self, down: Down) {
        self.0.remove(&down.pid);
    }
}

/// Joins, hears `lines` lines, and leaves.
async fn member(
    ctx: Context,
    mut inbox: Inbox<Line>,
    room: RoomRef,
    name: &str,
    lines: usize,
) -> Result<(), ExitReason> {
    room.join(&ctx, name, inbox.address(&ctx)).await?;
    for _ in 0..lines {
        let Line(line) = inbox.receive(&ctx).await;
        println!("{name} hears: {line}");
    }
    Ok(())
}

fn main() -> Result<(), ExitReason> {
    let runtime = Runtime::start(Config::default())?;
    runtime.run(|ctx| async move {
        let room = Room::start_link(&ctx, Room::default()).await?;
        let ada = ctx.spawn_typed(move |ctx, inbox| member(ctx, inbox, room, "Ada", 1))?;
        let bob = ctx.spawn_typed(move |ctx, inbox| member(ctx, inbox, room, "Bob", 2))?;
        while room.names(&ctx).await? != ["Ada", "Bob"] {
            ctx.yield_now().await;
        }
        room.say(&ctx, ada.pid(), "hello").await;
        while room.names(&ctx).await? != ["Bob"] {
            ctx.yield_now().await;
        }
        println!("Ada has left");
        room.say(&ctx, bob.pid(), "anybody here?").await;
        while !room.names(&ctx).await?.is_empty() {
            ctx.yield_now().await;
        }
        Ok(())
    })
}
