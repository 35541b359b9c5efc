//! A process that waits, used in large numbers to measure the cost of waiting. It answers each call with `pong`.

use rusm::Received;

fn run() {
    loop {
        if let Received::Message(ping) = rusm::receive() {
            ping.reply("pong");
        }
    }
}

rusm::actor!(run);
