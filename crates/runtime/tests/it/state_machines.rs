//! State machines: the meaning of an event depends on the state; events can be postponed to the next state or come from
//! a timeout.

use std::sync::mpsc;
use std::time::Duration;

use rusm_runtime::actor::Unmatched;
use rusm_runtime::state_machine::{Event, MachineRef, StateMachine, Step, start_link};
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{CallError, Config, Context, Exit, ExitReason, Pid, Runtime, observe};

const LONG: Duration = Duration::from_mins(2);

/// A lock that accepts a code of three digits and closes again after `open_for`.
struct Lock {
    open_for: Duration,
    observer: Pid,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Locked(Vec<u8>),
    Open,
}

/// A message that only an open lock handles.
struct Enter(&'static str);

impl StateMachine for Lock {
    type Args = (Duration, Pid);
    type State = State;
    type Call = ();
    type Reply = State;
    type Cast = u8;

    const UNMATCHED: Unmatched = Unmatched::Crash;

    async fn init(ctx: &Context, (open_for, observer): Self::Args) -> Result<(Self, State), ExitReason> {
        ctx.trap_exits(true);
        if observer == Pid::NONE {
            return Err(ExitReason::other("no observer"));
        }
        Ok((Self { open_for, observer }, State::Locked(Vec::new())))
    }

    fn debug_state(&self, state: &State) -> String {
        format!("{state:?}")
    }

    async fn handle(&mut self, ctx: &Context, state: &State, event: Event<Self>) -> Step<Self> {
        match (state, event) {
            (_, Event::Call((), reply)) => {
                reply.send(ctx, state.clone());
                Step::Keep
            }
            (State::Locked(digits), Event::Cast(digit)) => {
                let digits: Vec<u8> = digits.iter().copied().chain([digit]).collect();
                match digits[..] {
                    [1, 2, 3] => Step::Next(State::Open),
                    [_, _, _] => Step::Stop(ExitReason::other("alarm")),
                    _ => Step::Next(State::Locked(digits)),
                }
            }
            (State::Open, Event::Info(message)) => match message.downcast::<Enter>() {
                Ok(Enter(who)) => {
                    ctx.send(self.observer, who).await;
                    Step::Keep
                }
                Err(message) => Step::Unmatched(message),
            },
            (State::Open, Event::Timeout) => {
                ctx.send(self.observer, "closes").await;
                Step::Next(State::Locked(Vec::new()))
            }
            (State::Locked(_), event @ Event::Info(_)) => Step::Postpone(event),
            (_, Event::Cast(_) | Event::Timeout) => Step::Keep,
        }
    }

    fn timeout(&self, state: &State) -> Option<Duration> {
        (*state == State::Open).then_some(self.open_for)
    }

    async fn terminate(self, ctx: &Context, state: State, _: &ExitReason) {
        ctx.send(self.observer, state).await;
    }
}

/// Runs a body as a process and returns its result.
fn ask<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    body: impl FnOnce(Context) -> F + Send + 'static,
) -> T {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start");
    let (give, take) = mpsc::channel();
    let run = move |ctx: Context| {
        let body = body(ctx);
        async move { give.send(body.await).expect("the test waits") }
    };
    runtime.spawn(run).expect("there is room");
    take.recv_timeout(LONG).expect("the process answers")
}

async fn state(ctx: &Context, lock: Pid) -> Result<State, CallError> {
    ctx.call(lock, (), LONG).await
}

#[test]
fn a_message_that_is_not_handled_ends_a_machine_whose_policy_says_so() {
    ask(|ctx| async move {
        ctx.trap_exits(true);
        let lock = start_link::<Lock>(&ctx, (Duration::from_hours(1), ctx.pid())).await.unwrap();
        for digit in [1_u8, 2, 3] {
            ctx.send(lock, digit).await;
        }

        ctx.send(lock, 7_i16).await;

        assert_eq!(ctx.receive_of::<State>().await, State::Open);
        let exit = ctx.receive_of::<rusm_runtime::Exit>().await;
        assert_eq!(exit.reason, ExitReason::other("received a i16, which it does not handle"));
    });
}

#[test]
fn the_state_of_a_machine_is_read_as_text() {
    ask(|ctx| async move {
        let lock = start_link::<Lock>(&ctx, (Duration::from_hours(1), ctx.pid())).await.unwrap();
        ctx.send(lock, 1_u8).await;
        assert_eq!(ctx.state_of(lock).await.unwrap(), "Locked([1])");
        ctx.send(lock, 2_u8).await;
        ctx.send(lock, 3_u8).await;
        assert_eq!(ctx.runtime().state_of(lock).await.unwrap(), "Open");
    });
}

#[test]
fn a_postponed_event_comes_again_in_the_next_state_and_in_order() {
    ask(|ctx| async move {
        let lock = start_link::<Lock>(&ctx, (Duration::from_hours(1), ctx.pid())).await.unwrap();
        ctx.send(lock, 1_u8).await;
        ctx.send(lock, Enter("first")).await;
        ctx.send(lock, 2_u8).await;
        ctx.send(lock, Enter("second")).await;
        assert_eq!(state(&ctx, lock).await, Ok(State::Locked(vec![1, 2])));
        assert!(ctx.receive_timeout(Duration::ZERO).await.is_none());

        ctx.send(lock, 3_u8).await;

        assert_eq!(ctx.receive_of::<&'static str>().await, "first");
        assert_eq!(ctx.receive_of::<&'static str>().await, "second");
        assert_eq!(state(&ctx, lock).await, Ok(State::Open));
    });
}

#[test]
fn a_state_ends_with_its_timeout() {
    ask(|ctx| async move {
        let lock = start_link::<Lock>(&ctx, (Duration::from_millis(5), ctx.pid())).await.unwrap();
        for digit in [1_u8, 2, 3] {
            ctx.send(lock, digit).await;
        }
        assert_eq!(ctx.receive_of::<&'static str>().await, "closes");
        assert_eq!(state(&ctx, lock).await, Ok(State::Locked(Vec::new())));
    });
}

#[test]
fn a_machine_that_stops_or_whose_parent_does_terminates_in_its_state() {
    ask(|ctx| async move {
        ctx.trap_exits(true);
        let args = (Duration::from_hours(1), ctx.pid());
        let lock = start_link::<Lock>(&ctx, args).await.unwrap();
        for digit in [9_u8, 9, 9] {
            ctx.send(lock, digit).await;
        }
        assert_eq!(ctx.receive_of::<State>().await, State::Locked(vec![9, 9]));
        assert_eq!(ctx.receive_of::<Exit>().await, Exit { from: lock, reason: ExitReason::other("alarm") });

        let supervisor = Supervisor::new(Strategy::OneForOne).child(ChildSpec::state_machine::<Lock>("lock", args));
        let supervisor = supervisor.start_link(&ctx).await.unwrap();
        supervisor.terminate_child(&ctx, "lock").await.unwrap();
        assert_eq!(ctx.receive_of::<State>().await, State::Locked(Vec::new()));
        assert!(start_link::<Lock>(&ctx, (LONG, Pid::NONE)).await.is_err());
    });
}

/// A queue that accepts work only while it is open, and then answers the callers that have waited.
#[derive(Debug)]
struct Gate;

impl StateMachine for Gate {
    type Args = ();
    type State = bool;
    type Call = u32;
    type Reply = u32;
    type Cast = bool;

    async fn init(_: &Context, (): ()) -> Result<(Self, bool), ExitReason> {
        Ok((Self, false))
    }

    fn postpones(&self, is_open: &bool, event: &Event<Self>) -> bool {
        !is_open && matches!(event, Event::Call(..))
    }

    async fn handle(&mut self, ctx: &Context, is_open: &bool, event: Event<Self>) -> Step<Self> {
        match event {
            Event::Call(number, reply) => {
                assert!(is_open, "a call in a closed gate is postponed");
                reply.send(ctx, number * 2);
                Step::Keep
            }
            Event::Cast(open) => Step::Next(open),
            Event::Info(_) | Event::Timeout => Step::Keep,
        }
    }
}

#[test]
fn a_typed_reference_calls_casts_and_stops_and_events_are_postponed_as_they_are() {
    ask(|ctx| async move {
        let gate = MachineRef::<Gate>::start_link(&ctx, ()).await.unwrap();
        let waiting: Vec<_> =
            (0..3).map(|n| ctx.task(move |ctx| async move { gate.request(&ctx, n).await }).unwrap()).collect();
        // The calls are in the mailbox before the gate opens.
        let arrived = |ctx: &Context| {
            let runtime = ctx.runtime();
            let seen = observe::process_ref(&runtime, gate.pid()).unwrap();
            seen.messages() + seen.mailbox_len()
        };
        while arrived(&ctx) < 3 {
            ctx.yield_now().await;
        }
        gate.cast(&ctx, true).await;
        let mut answers = Vec::new();
        for waiting in waiting {
            answers.push(waiting.await.unwrap().unwrap());
        }
        assert_eq!(answers, [0, 2, 4]);
        assert_eq!(gate.stop(&ctx, ExitReason::Normal, LONG).await, Ok(()));
        assert_eq!(
            gate.try_cast(&ctx, true).map_err(|error| error.to_string()),
            Err(format!("no process {}", gate.pid()))
        );
    });
}

#[test]
fn a_machine_started_from_outside_is_called_from_outside() {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start");
    let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
    outside.block_on(async {
        let gate = MachineRef::<Gate>::start(&runtime, ()).await.unwrap();
        gate.cast(&*runtime, true).await;
        assert_eq!(gate.call(&*runtime, 21, LONG).await, Ok(42));
    });
}
