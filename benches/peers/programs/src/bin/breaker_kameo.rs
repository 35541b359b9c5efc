//! The program `examples/breaker.rs` with kameo; `count.py` compares their lengths.

use std::time::Duration;

use kameo::prelude::*;

#[derive(Actor, PartialEq)]
enum Breaker {
    Closed { failures: u32 },
    Open,
    HalfOpen,
    Trying,
}

#[messages]
impl Breaker {
    /// Returns true if a call is allowed. Its outcome must be reported.
    #[message]
    fn admit(&mut self) -> bool {
        let admits = matches!(self, Self::Closed { .. } | Self::HalfOpen);
        if *self == Self::HalfOpen {
            *self = Self::Trying;
        }
        admits
    }

    #[message(ctx)]
    fn report(&mut self, success: bool, ctx: &mut Context<Self, ()>) {
        *self = match self {
            // A call from before, which comes late.
            Self::Open | Self::HalfOpen => return,
            _ if success => Self::Closed { failures: 0 },
            Self::Closed { failures } if *failures < 2 => Self::Closed { failures: *failures + 1 },
            Self::Closed { .. } | Self::Trying => {
                println!("open: calls are refused");
                let breaker = ctx.actor_ref().clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    breaker.tell(TryAgain).await
                });
                Self::Open
            }
        };
    }

    #[message]
    fn try_again(&mut self) {
        println!("half open: one call may try");
        *self = Self::HalfOpen;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let breaker = Breaker::spawn(Breaker::Closed { failures: 0 });
    for _ in 0..3 {
        breaker.tell(Report { success: false }).await?;
    }
    while !breaker.ask(Admit).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    breaker.tell(Report { success: true }).await?;
    println!("closed again: {}", breaker.ask(Admit).await?);
    Ok(())
}
