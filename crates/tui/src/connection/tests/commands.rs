//! Commands reach only the node that they were meant for.

use rusm_protocol::KillReason;

use super::*;

#[tokio::test]
async fn a_command_given_while_the_next_node_is_dialled_is_not_for_it() {
    let folder = private_folder();
    let path = folder.path().join("kv.sock");
    let mut listener = UnixListener::bind(&path).unwrap();
    let dialer = dialer(Target::Named("kv".to_owned()), folder.path());
    let inbox = Inbox::default();
    let (dialled, socket) = tokio::join!(dialer.dial(), async { accept(listener.accept().await.unwrap().0).await });
    let outgoing = maintain(dialled.unwrap(), dialer, inbox.clone());
    drop((socket, listener));
    std::fs::remove_file(&path).unwrap();
    lost(&inbox).await;
    listener = UnixListener::bind(&path).unwrap();
    outgoing.retry.notify_one();
    let (stream, _) = timeout(DEADLINE, listener.accept()).await.unwrap().unwrap();

    // The stream is open but the handshake is not answered yet: the connection task is still dialling.
    let kill = ClientMessage::Kill { pid: "<0.1.1>".to_owned(), reason: KillReason::Kill, text: None, id: Some(1) };
    outgoing.commands.send(kill).await.unwrap();
    let mut socket = accept(stream).await;
    greet(&mut socket).await;
    wait_for(&inbox, is_hello).await;
    outgoing.commands.send(ClientMessage::Watch { frame_hz: 4.0 }).await.unwrap();

    let text = timeout(DEADLINE, socket.next()).await.unwrap().unwrap().unwrap();
    let first = decode_client(text.to_text().unwrap()).unwrap();
    assert_eq!(first, ClientMessage::Watch { frame_hz: 4.0 });
}
