//! A circuit breaker: after three failures it refuses calls for a while, and then lets one through to try.
//!
//! ```text
//!   closed ── 3 failures ──▶ open ── time ──▶ half open ── success ──▶ closed
//!                             ▲───────────── failure ────────┘
//! ```
//!
//! `cargo run -p rusm-examples --bin breaker`

#![expect(clippy::print_stdout, reason = "an example that prints its steps")]

use std::time::Duration;

use rusm::prelude::*;

#[derive(Clone, PartialEq)]
enum Breaker {
    Closed { failures: u32 },
    Open,
    HalfOpen,
    Trying,
}

struct TryAgain;

#[actor]
impl Breaker {
    /// Returns true if a call is allowed. Its outcome must be reported.
    fn admit(&mut self) -> bool {
        let admits = matches!(self, Self::Closed { .. } | Self::HalfOpen);
        if *self == Self::HalfOpen {
            *self = Self::Trying;
        }
        admits
    }

    fn report(&mut self, ctx: &Context, success: bool) {
        *self = match self {
            // A call from before, which comes late.
            Self::Open | Self::HalfOpen => return,
            _ if success => Self::Closed { failures: 0 },
            Self::Closed { failures } if *failures < 2 => Self::Closed { failures: *failures + 1 },
            Self::Closed { .. } | Self::Trying => {
                println!("open: calls are refused");
                ctx.send_after(ctx.pid(), Duration::from_millis(20), TryAgain);
                Self::Open
            }
        };
    }

    #[info]
    fn try_again(&mut self, _: TryAgain) {
        println!("half open: one call may try");
        *self = Self::HalfOpen;
    }
}

fn main() -> Result<(), ExitReason> {
    let runtime = Runtime::start(Config::default())?;
    runtime.run(|ctx| async move {
        let breaker = Breaker::start_link(&ctx, Breaker::Closed { failures: 0 }).await?;
        for _ in 0..3 {
            breaker.report(&ctx, false).await;
        }
        while !breaker.admit(&ctx).await? {
            ctx.sleep(Duration::from_millis(5)).await;
        }
        breaker.report(&ctx, true).await;
        println!("closed again: {}", breaker.admit(&ctx).await?);
        Ok(())
    })
}
