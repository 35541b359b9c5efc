//! The program `examples/chat.rs` with actix. Without monitors, each member announces that it leaves.

use std::collections::HashMap;

use actix::prelude::*;

#[derive(Default)]
struct Room(HashMap<usize, (String, Addr<Member>)>);

impl Actor for Room {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "usize")]
struct Join(usize, String, Addr<Member>);

impl Handler<Join> for Room {
    type Result = usize;

    fn handle(&mut self, Join(id, name, member): Join, _: &mut Context<Self>) -> usize {
        self.0.insert(id, (name, member));
        self.0.len()
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Say(usize, String);

impl Handler<Say> for Room {
    type Result = ();

    fn handle(&mut self, Say(from, text): Say, _: &mut Context<Self>) {
        let Some((name, _)) = self.0.get(&from) else { return };
        for (_, member) in self.0.values() {
            member.do_send(Line(format!("{name}: {text}")));
        }
    }
}

#[derive(Message)]
#[rtype(result = "Vec<String>")]
struct Names;

impl Handler<Names> for Room {
    type Result = Vec<String>;

    fn handle(&mut self, Names: Names, _: &mut Context<Self>) -> Vec<String> {
        let mut names: Vec<String> = self.0.values().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Left(usize);

impl Handler<Left> for Room {
    type Result = ();

    fn handle(&mut self, Left(id): Left, _: &mut Context<Self>) {
        self.0.remove(&id);
    }
}

/// Hears `lines` lines, and leaves.
struct Member {
    id: usize,
    name: &'static str,
    lines: usize,
    room: Addr<Room>,
}

impl Actor for Member {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Context<Self>) {
        self.room.do_send(Left(self.id));
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Line(String);

impl Handler<Line> for Member {
    type Result = ();

    fn handle(&mut self, Line(line): Line, ctx: &mut Context<Self>) {
        println!("{} hears: {line}", self.name);
        self.lines -= 1;
        if self.lines == 0 {
            ctx.stop();
        }
    }
}

#[actix::main]
async fn main() -> Result<(), MailboxError> {
    let room = Room::default().start();
    let ada = Member { id: 1, name: "Ada", lines: 1, room: room.clone() }.start();
    let bob = Member { id: 2, name: "Bob", lines: 2, room: room.clone() }.start();
    room.send(Join(1, "Ada".into(), ada)).await?;
    room.send(Join(2, "Bob".into(), bob)).await?;
    room.do_send(Say(1, "hello".into()));
    while room.send(Names).await? != ["Bob"] {
        tokio::task::yield_now().await;
    }
    println!("Ada has left");
    room.do_send(Say(2, "anybody here?".into()));
    while !room.send(Names).await?.is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(())
}
