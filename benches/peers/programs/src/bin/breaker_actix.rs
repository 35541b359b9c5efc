//! The program `examples/breaker.rs` with actix.

use std::time::Duration;

use actix::prelude::*;

#[derive(PartialEq)]
enum Breaker {
    Closed { failures: u32 },
    Open,
    HalfOpen,
    Trying,
}

impl Actor for Breaker {
    type Context = Context<Self>;
}

/// Returns true if a call is allowed. Its outcome must be reported.
#[derive(Message)]
#[rtype(result = "bool")]
struct Admit;

impl Handler<Admit> for Breaker {
    type Result = bool;

    fn handle(&mut self, Admit: Admit, _: &mut Context<Self>) -> bool {
        let admits = matches!(self, Self::Closed { .. } | Self::HalfOpen);
        if *self == Self::HalfOpen {
            *self = Self::Trying;
        }
        admits
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Report(bool);

impl Handler<Report> for Breaker {
    type Result = ();

    fn handle(&mut self, Report(success): Report, ctx: &mut Context<Self>) {
        *self = match self {
            // A call from before, which comes late.
            Self::Open | Self::HalfOpen => return,
            _ if success => Self::Closed { failures: 0 },
            Self::Closed { failures } if *failures < 2 => Self::Closed { failures: *failures + 1 },
            Self::Closed { .. } | Self::Trying => {
                println!("open: calls are refused");
                ctx.run_later(Duration::from_millis(20), |breaker, _| {
                    println!("half open: one call may try");
                    *breaker = Self::HalfOpen;
                });
                Self::Open
            }
        };
    }
}

#[actix::main]
async fn main() -> Result<(), MailboxError> {
    let breaker = Breaker::Closed { failures: 0 }.start();
    for _ in 0..3 {
        breaker.do_send(Report(false));
    }
    while !breaker.send(Admit).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    breaker.do_send(Report(true));
    println!("closed again: {}", breaker.send(Admit).await?);
    Ok(())
}
