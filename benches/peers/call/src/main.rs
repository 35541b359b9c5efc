//! Measures a request and its reply between two actors of other runtimes, with one call in flight: calls per second and
//! CPU time per call.
//!
//! ```text
//!   peers-call actix|kameo|ractor|tokio [SECONDS]
//! ```
//!
//! The warm-up takes one second, then the window begins. The caller is an actor or a task of the same runtime, with the
//! default number of worker threads. `tokio` is a task with an mpsc channel and a oneshot for each reply, the lower
//! bound for the others, which are built on tokio.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

const BATCH: u64 = 256;

/// Makes calls until the window is over, and prints the results.
async fn measure<F: Future<Output = u64>>(peer: &str, window: Duration, mut call: impl FnMut(u64) -> F) {
    let mut number = 0;
    let mut run = async |time: Duration| {
        let (start, cpu, first) = (Instant::now(), cpu_ns(), number);
        while start.elapsed() < time {
            for _ in 0..BATCH {
                number += 1;
                assert_eq!(call(number).await, number + 1);
            }
        }
        let calls = number - first;
        (calls as f64 / start.elapsed().as_secs_f64(), (cpu_ns() - cpu) as f64 / calls as f64)
    };
    run(Duration::from_secs(1)).await;
    let (rate, cpu) = run(window).await;
    println!("{peer}\tcall\tops_per_s={rate:.0}\tcpu_ns_per_op={cpu:.0}");
}

/// Returns the CPU time of this process, from the scheduler statistics of its threads.
fn cpu_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc is mounted");
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    tasks.filter_map(of).sum()
}

mod by_ractor {
    use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

    pub struct Server;
    pub enum Message {
        Next(u64, RpcReplyPort<u64>),
    }

    impl Actor for Server {
        type Msg = Message;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn handle(&self, _: ActorRef<Message>, message: Message, (): &mut ()) -> Result<(), ActorProcessingErr> {
            let Message::Next(number, reply) = message;
            Ok(reply.send(number + 1)?)
        }
    }
}

mod by_kameo {
    use kameo::Actor;
    use kameo::message::{Context, Message};

    #[derive(Actor)]
    pub struct Server;
    pub struct Next(pub u64);

    impl Message<Next> for Server {
        type Reply = u64;

        async fn handle(&mut self, Next(number): Next, _: &mut Context<Self, u64>) -> u64 {
            number + 1
        }
    }
}

mod by_actix {
    use actix::{Actor, Context, Handler, Message};

    pub struct Server;
    #[derive(Message)]
    #[rtype(u64)]
    pub struct Next(pub u64);

    impl Actor for Server {
        type Context = Context<Self>;
    }
    impl Handler<Next> for Server {
        type Result = u64;

        fn handle(&mut self, Next(number): Next, _: &mut Context<Self>) -> u64 {
            number + 1
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let peer = words.first().map_or("", String::as_str);
    let window = Duration::from_secs_f64(words.get(1).map_or(1.0, |text| text.parse().expect("SECONDS is a number")));
    if peer == "actix" {
        return actix::System::new().block_on(async move {
            use actix::Actor;
            let server = by_actix::Server.start();
            measure(peer, window, |number| {
                let answer = server.send(by_actix::Next(number));
                async { answer.await.expect("the server is alive") }
            })
            .await;
        });
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads start");
    let peer = peer.to_owned();
    runtime.block_on(async move {
        let task = tokio::spawn(async move {
            match peer.as_str() {
                "ractor" => {
                    let (server, _) = ractor::Actor::spawn(None, by_ractor::Server, ()).await.expect("it starts");
                    measure(&peer, window, |number| {
                        let server = server.clone();
                        async move {
                            let answer = server.call(|reply| by_ractor::Message::Next(number, reply), None).await;
                            answer.expect("the server is alive").expect("it answers")
                        }
                    })
                    .await;
                }
                "kameo" => {
                    use kameo::actor::Spawn;
                    let server = by_kameo::Server::spawn(by_kameo::Server);
                    measure(&peer, window, |number| {
                        let server = server.clone();
                        async move { server.ask(by_kameo::Next(number)).await.expect("the server is alive") }
                    })
                    .await;
                }
                "tokio" => {
                    let (send, mut receive) = mpsc::channel::<(u64, oneshot::Sender<u64>)>(64);
                    tokio::spawn(async move {
                        while let Some((number, reply)) = receive.recv().await {
                            reply.send(number + 1).expect("the caller waits");
                        }
                    });
                    measure(&peer, window, |number| {
                        let send = send.clone();
                        async move {
                            let (reply, answer) = oneshot::channel();
                            send.send((number, reply)).await.expect("the server is alive");
                            answer.await.expect("the server answers")
                        }
                    })
                    .await;
                }
                other => eprintln!("unknown peer {other:?}: use actix, kameo, ractor or tokio"),
            }
        });
        task.await.expect("the caller does not panic");
    });
}
