//! The program `examples/chat.rs` with ractor.

use std::collections::HashMap;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent, call_t};

struct Room;
type Members = HashMap<ActorId, (String, ActorRef<MemberMessage>)>;

#[ractor::actor(message = enum RoomMessage, state = Members, arguments = (), crate_path = ::ractor)]
impl Room {
    async fn pre_start(&self, _: ActorRef<RoomMessage>, (): ()) -> Result<Members, ActorProcessingErr> {
        Ok(Members::new())
    }

    #[ractor::rpc(Join(name, member, reply))]
    fn join(
        &self,
        myself: ActorRef<RoomMessage>,
        name: String,
        member: ActorRef<MemberMessage>,
        members: &mut Members,
    ) -> usize {
        member.link(myself.get_cell());
        members.insert(member.get_id(), (name, member));
        members.len()
    }

    #[ractor::message(Say(from, text))]
    fn say(&self, from: ActorId, text: String, members: &mut Members) {
        let Some((name, _)) = members.get(&from) else { return };
        for (_, member) in members.values() {
            let _ = member.cast(MemberMessage::Line(format!("{name}: {text}")));
        }
    }

    #[ractor::rpc(Names)]
    fn names(&self, members: &Members) -> Vec<String> {
        let mut names: Vec<String> = members.values().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<RoomMessage>,
        event: SupervisionEvent,
        members: &mut Members,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorTerminated(member, ..) | SupervisionEvent::ActorFailed(member, _) = event {
            members.remove(&member.get_id());
        }
        Ok(())
    }
}

/// Hears some lines, and leaves.
struct Member(&'static str);

#[ractor::actor(message = enum MemberMessage, state = usize, arguments = usize, crate_path = ::ractor)]
impl Member {
    async fn pre_start(&self, _: ActorRef<MemberMessage>, lines: usize) -> Result<usize, ActorProcessingErr> {
        Ok(lines)
    }

    #[ractor::message(Line(line))]
    fn line(&self, myself: ActorRef<MemberMessage>, line: String, lines: &mut usize) {
        println!("{} hears: {line}", self.0);
        *lines -= 1;
        if *lines == 0 {
            myself.stop(None);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (room, _) = Actor::spawn(None, Room, ()).await?;
    let (ada, _) = Actor::spawn(None, Member("Ada"), 1).await?;
    let (bob, _) = Actor::spawn(None, Member("Bob"), 2).await?;
    call_t!(room, RoomMessage::Join, 5_000, "Ada".into(), ada.clone())?;
    call_t!(room, RoomMessage::Join, 5_000, "Bob".into(), bob.clone())?;
    room.cast(RoomMessage::Say(ada.get_id(), "hello".into()))?;
    while call_t!(room, RoomMessage::Names, 5_000)? != ["Bob"] {
        tokio::task::yield_now().await;
    }
    println!("Ada has left");
    room.cast(RoomMessage::Say(bob.get_id(), "anybody here?".into()))?;
    while !call_t!(room, RoomMessage::Names, 5_000)?.is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(())
}
