//! A periodic timer that wakes the console's thread once a tick and never in between.
//!
//! The reactor's own timers wake a thread up to twice for a deadline that is more than 64 ms away or crosses a 64 ms
//! boundary. On an otherwise idle machine a wake-up costs more than all the work done in it. So on Linux the ticks come
//! from a kernel timer, and all periodic work happens at a tick.

#[cfg(target_os = "linux")]
pub(super) use self::kernel::Ticker;
#[cfg(not(target_os = "linux"))]
pub(super) use self::wheel::Ticker;

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    /// A timer of the kernel (`timerfd`).
    #[derive(Debug)]
    pub(crate) struct Ticker {
        /// A timer that is read like a pipe: eight bytes at a tick, and nothing until the next.
        timer: Receiver,
        every: Duration,
    }

    impl Ticker {
        /// Creates a ticker; its first tick comes after `every`.
        pub(crate) fn new(every: Duration) -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let mut ticker = Self { timer: Receiver::from_owned_fd_unchecked(timer)?, every: Duration::ZERO };
            ticker.set(every)?;
            Ok(ticker)
        }

        fn set(&mut self, every: Duration) -> io::Result<()> {
            if every != self.every {
                let step = Timespec { tv_sec: every.as_secs().cast_signed(), tv_nsec: every.subsec_nanos().into() };
                let setting = Itimerspec { it_interval: step, it_value: step };
                timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
                self.every = every;
            }
            Ok(())
        }

        /// Waits for the next tick; ticks are `every` apart. Those missed since the last call count as one.
        pub(crate) async fn next(&mut self, every: Duration) -> io::Result<()> {
            self.set(every)?;
            loop {
                self.timer.readable().await?;
                match self.timer.try_read(&mut [0; 8]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read.map(drop),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod wheel {
    use std::io;
    use std::time::Duration;

    use tokio::time::{Interval, MissedTickBehavior, interval_at};

    /// A timer of the reactor.
    #[derive(Debug)]
    pub(crate) struct Ticker(Interval);

    impl Ticker {
        /// Creates a ticker; its first tick comes after `every`.
        pub(crate) fn new(every: Duration) -> io::Result<Self> {
            let mut interval = interval_at(tokio::time::Instant::now() + every, every);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Ok(Self(interval))
        }

        fn set(&mut self, every: Duration) -> io::Result<()> {
            if every != self.0.period() {
                *self = Self::new(every)?;
            }
            Ok(())
        }

        /// Waits for the next tick; ticks are `every` apart. Those missed since the last call count as one.
        pub(crate) async fn next(&mut self, every: Duration) -> io::Result<()> {
            self.set(every)?;
            self.0.tick().await;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn a_ticker_ticks_at_its_rate_and_at_another_once_told() {
        let start = Instant::now();
        let mut ticker = Ticker::new(Duration::from_millis(5)).unwrap();

        for _ in 0..9 {
            ticker.next(Duration::from_millis(5)).await.unwrap();
        }
        let again = Instant::now();
        ticker.next(Duration::from_millis(5)).await.unwrap();
        let of_ten = start.elapsed();
        ticker.next(Duration::from_millis(60)).await.unwrap();

        assert!(of_ten >= Duration::from_millis(49), "{of_ten:?}");
        assert!(again.elapsed() >= Duration::from_millis(59), "{:?}", again.elapsed());
    }
}
