//! The program `examples/chat.rs` with kameo.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use kameo::prelude::*;

#[derive(Default)]
struct Room(HashMap<ActorId, (String, ActorRef<Member>)>);

impl Actor for Room {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(room: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(room)
    }

    async fn on_link_died(
        &mut self,
        _: WeakActorRef<Self>,
        id: ActorId,
        _: ActorStopReason,
    ) -> Result<ControlFlow<ActorStopReason>, Infallible> {
        self.0.remove(&id);
        Ok(ControlFlow::Continue(()))
    }
}

#[messages]
impl Room {
    #[message(ctx)]
    async fn join(&mut self, name: String, member: ActorRef<Member>, ctx: &mut Context<Self, usize>) -> usize {
        ctx.actor_ref().link(&member).await;
        self.0.insert(member.id(), (name, member));
        self.0.len()
    }

    #[message]
    async fn say(&self, from: ActorId, text: String) {
        let Some((name, _)) = self.0.get(&from) else { return };
        for (_, member) in self.0.values() {
            let _ = member.tell(Line { line: format!("{name}: {text}") }).await;
        }
    }

    #[message]
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.values().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }
}

/// Hears `lines` lines, and leaves.
#[derive(Actor)]
struct Member {
    name: &'static str,
    lines: usize,
}

#[messages]
impl Member {
    #[message(ctx)]
    fn line(&mut self, line: String, ctx: &mut Context<Self, ()>) {
        println!("{} hears: {line}", self.name);
        self.lines -= 1;
        if self.lines == 0 {
            ctx.stop();
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let room = Room::spawn(Room::default());
    let ada = Member::spawn(Member { name: "Ada", lines: 1 });
    let bob = Member::spawn(Member { name: "Bob", lines: 2 });
    room.ask(Join { name: "Ada".into(), member: ada.clone() }).await?;
    room.ask(Join { name: "Bob".into(), member: bob.clone() }).await?;
    room.tell(Say { from: ada.id(), text: "hello".into() }).await?;
    while room.ask(Names).await? != ["Bob"] {
        tokio::task::yield_now().await;
    }
    println!("Ada has left");
    room.tell(Say { from: bob.id(), text: "anybody here?".into() }).await?;
    while !room.ask(Names).await?.is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(())
}
