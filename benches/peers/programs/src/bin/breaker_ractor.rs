//! The program `examples/breaker.rs` with ractor.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, call_t};

struct Breaker;

#[derive(PartialEq)]
enum State {
    Closed { failures: u32 },
    Open,
    HalfOpen,
    Trying,
}

#[ractor::actor(message = enum BreakerMessage, state = State, arguments = State, crate_path = ::ractor)]
impl Breaker {
    async fn pre_start(&self, _: ActorRef<BreakerMessage>, first: State) -> Result<State, ActorProcessingErr> {
        Ok(first)
    }

    /// Returns true if a call is allowed. Its outcome must be reported.
    #[ractor::rpc(Admit)]
    fn admit(&self, state: &mut State) -> bool {
        let admits = matches!(state, State::Closed { .. } | State::HalfOpen);
        if *state == State::HalfOpen {
            *state = State::Trying;
        }
        admits
    }

    #[ractor::message(Report(success))]
    fn report(&self, myself: ActorRef<BreakerMessage>, success: bool, state: &mut State) {
        *state = match state {
            // A call from before, which comes late.
            State::Open | State::HalfOpen => return,
            _ if success => State::Closed { failures: 0 },
            State::Closed { failures } if *failures < 2 => State::Closed { failures: *failures + 1 },
            State::Closed { .. } | State::Trying => {
                println!("open: calls are refused");
                myself.send_after(Duration::from_millis(20), || BreakerMessage::TryAgain);
                State::Open
            }
        };
    }

    #[ractor::message(TryAgain)]
    fn try_again(&self, state: &mut State) {
        println!("half open: one call may try");
        *state = State::HalfOpen;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (breaker, _) = Actor::spawn(None, Breaker, State::Closed { failures: 0 }).await?;
    for _ in 0..3 {
        breaker.cast(BreakerMessage::Report(false))?;
    }
    while !call_t!(breaker, BreakerMessage::Admit, 5_000)? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    breaker.cast(BreakerMessage::Report(true))?;
    println!("closed again: {}", call_t!(breaker, BreakerMessage::Admit, 5_000)?);
    Ok(())
}
