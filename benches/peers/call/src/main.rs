//! Measures a request and its reply between two actors, with one call in flight: calls per second and CPU time per call,
//! of rusm and of other runtimes.
//!
//! ```text
//!   peers-call PEER [SECONDS]
//!   peers-call compare [ROUNDS] [SECONDS]     every peer in turn; medians, and ratios to a call of an untyped pid
//! ```
//!
//! The warm-up takes one second, then the window begins. The caller is an actor or a task of the same runtime, with the
//! default number of worker threads. `tokio` is a task with an mpsc channel and a oneshot for each reply, the lower
//! bound for the others, which are built on tokio. The peers of rusm are a call of an untyped pid (`rusm`), and typed
//! calls: the attribute `actor`, an `Address`, a `ServerRef` and a `MachineRef`.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

const BATCH: u64 = 256;

/// All peers; the first one is the base of the ratios.
const PEERS: [&str; 9] =
    ["rusm", "rusm-actor", "rusm-address", "rusm-server", "rusm-machine", "ractor", "kameo", "actix", "tokio"];

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
    println!("{peer}\tcall\tops_per_s={rate:.0}\tcpu_ns_per_op={cpu:.1}");
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

mod by_rusm {
    use std::time::Duration;

    use rusm::prelude::*;
    use rusm::server::{Server, ServerRef};
    use rusm::state_machine::{Event, MachineRef, StateMachine, Step};

    /// Answers the attribute `actor`.
    pub struct Counter;

    #[actor]
    impl Counter {
        fn next(&mut self, number: u64) -> u64 {
            number + 1
        }
    }

    /// Message of an `Address`.
    struct Next(u64, ReplyTo<u64>);

    struct Serving;

    impl Server for Serving {
        type Args = ();
        type Call = u64;
        type Reply = u64;
        type Cast = ();

        async fn init(_: &Context, (): ()) -> Result<Self, ExitReason> {
            Ok(Self)
        }

        async fn handle_call(&mut self, ctx: &Context, number: u64, reply: ReplyTo<u64>) -> Flow {
            reply.send(ctx, number + 1);
            Flow::Continue
        }

        async fn handle_cast(&mut self, _: &Context, (): ()) -> Flow {
            Flow::Continue
        }
    }

    struct Machine;

    impl StateMachine for Machine {
        type Args = ();
        type State = ();
        type Call = u64;
        type Reply = u64;
        type Cast = ();

        async fn init(_: &Context, (): ()) -> Result<(Self, ()), ExitReason> {
            Ok((Self, ()))
        }

        async fn handle(&mut self, ctx: &Context, (): &(), event: Event<Self>) -> Step<Self> {
            if let Event::Call(number, reply) = event {
                reply.send(ctx, number + 1);
            }
            Step::Keep
        }
    }

    /// Measures one kind of call, in a process.
    pub fn measure(peer: &'static str, window: Duration) {
        let runtime = Runtime::start(Config::default()).expect("it starts");
        runtime.block_on(move |ctx| async move { calls(&ctx, peer, window).await });
    }

    async fn calls(ctx: &Context, peer: &str, window: Duration) {
        match peer {
            "rusm-actor" => {
                let counter = &Counter::start_link(ctx, Counter).await.expect("it starts");
                super::measure(
                    peer,
                    window,
                    |number| async move { counter.next(ctx, number).await.expect("it answers") },
                )
                .await;
            }
            "rusm-address" => {
                let typed = ctx.spawn_typed(|ctx, mut inbox: Inbox<Next>| async move {
                    loop {
                        let Next(number, reply) = inbox.receive(&ctx).await;
                        reply.send(&ctx, number + 1);
                    }
                });
                let address = typed.expect("there is room");
                super::measure(peer, window, |number| async move {
                    address.call(ctx, |reply| Next(number, reply)).await.expect("it answers")
                })
                .await;
            }
            "rusm-server" => {
                let server = ServerRef::<Serving>::start_link(ctx, ()).await.expect("it starts");
                super::measure(
                    peer,
                    window,
                    |number| async move { server.request(ctx, number).await.expect("it answers") },
                )
                .await;
            }
            "rusm-machine" => {
                let machine = MachineRef::<Machine>::start_link(ctx, ()).await.expect("it starts");
                super::measure(peer, window, |number| async move {
                    machine.request(ctx, number).await.expect("it answers")
                })
                .await;
            }
            _ => {
                let untyped = ctx.spawn(|ctx| async move {
                    loop {
                        let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
                        reply.send(&ctx, request + 1);
                    }
                });
                super::measure(peer, window, |number| async move {
                    ctx.request::<u64, u64>(untyped, number).await.expect("it answers")
                })
                .await;
            }
        }
    }
}

/// Runs every peer in turn, and prints the median of its CPU time.
fn compare(rounds: usize, seconds: f64) {
    let program = std::env::current_exe().expect("it runs");
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); PEERS.len()];
    for _ in 0..rounds {
        for (peer, times) in PEERS.iter().zip(&mut times) {
            let output = Command::new(&program).args([peer, &seconds.to_string()[..]]).output().expect("it starts");
            let text = String::from_utf8_lossy(&output.stdout);
            let (_, time) = text.trim().rsplit_once('=').expect("a peer prints its CPU time");
            times.push(time.parse().expect("a number"));
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    for ((peer, times), median) in PEERS.iter().zip(&times).zip(&medians) {
        let (least, most) = (times[0], times[times.len() - 1]);
        println!("{peer}\tcpu_ns_per_op={median:.0} ({least:.0}-{most:.0})\tratio={:.3}", median / medians[0]);
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: f64| words.get(at).map_or(default, |text| text.parse().expect("a number"));
    let peer = words.first().map_or("", String::as_str);
    if peer == "compare" {
        return compare(number(1, 5.0) as usize, number(2, 1.0));
    }
    let window = Duration::from_secs_f64(number(1, 1.0));
    if let Some(peer) = PEERS.iter().find(|known| known.starts_with("rusm") && **known == peer) {
        return by_rusm::measure(peer, window);
    }
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
                other => eprintln!("unknown peer {other:?}: use compare or one of {PEERS:?}"),
            }
        });
        task.await.expect("the caller does not panic");
    });
}
