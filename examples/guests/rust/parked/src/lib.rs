//! A process that waits: a hundred thousand of them show what waiting costs. It answers each call with `pong`.

use rusm::Received;

fn run() {
    loop {
        if let Received::Message(ping) = rusm::receive() {
            ping.reply("pong");
        }
    }
}

rusm::actor!(run);
