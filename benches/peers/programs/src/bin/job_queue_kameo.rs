//! The program `examples/job_queue.rs` with kameo and redb; `count.py` compares their lengths.

use std::time::{Duration, SystemTime};

use kameo::prelude::*;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

/// Waiting jobs by name: the number of the next attempt, and its time in milliseconds since 1970.
const JOBS: TableDefinition<&str, (u32, u64)> = TableDefinition::new("jobs");
const LOG: TableDefinition<&str, &str> = TableDefinition::new("log");

#[derive(Actor)]
struct Jobs {
    database: Database,
}

#[messages]
impl Jobs {
    /// Returns when the job is on disk. A job that is there already, or is done, is not added again.
    #[message]
    fn enqueue(&mut self, name: String) -> Result<(), redb::Error> {
        let txn = self.database.begin_write()?;
        {
            let mut jobs = txn.open_table(JOBS)?;
            let is_done = txn.open_table(LOG)?.get(&*name)?.is_some();
            if !is_done && jobs.get(&*name)?.is_none() {
                jobs.insert(&*name, (1, now_ms()))?;
            }
        }
        Ok(txn.commit()?)
    }

    #[message]
    fn pending(&self) -> Result<usize, redb::Error> {
        Ok(self.database.begin_read()?.open_table(JOBS)?.iter()?.count())
    }

    /// Tries the jobs that are due: each is removed together with what it writes, or retried later.
    #[message]
    fn work(&mut self) -> Result<(), redb::Error> {
        let rows = self.database.begin_read()?.open_table(JOBS)?;
        for row in rows.iter()? {
            let (name, (attempt, due_ms)) = row.map(|(name, job)| (name.value().to_owned(), job.value()))?;
            if due_ms > now_ms() {
                continue;
            }
            let txn = self.database.begin_write()?;
            if let Err(_why) = deliver(&name, attempt) {
                let next_ms = now_ms() + (25 << attempt);
                txn.open_table(JOBS)?.insert(&*name, (attempt + 1, next_ms))?;
            } else {
                txn.open_table(JOBS)?.remove(&*name)?;
                txn.open_table(LOG)?.insert(&*name, "served")?;
            }
            txn.commit()?;
        }
        Ok(())
    }
}

fn deliver(name: &str, attempt: u32) -> Result<(), String> {
    if name == "bob" && attempt == 1 {
        return Err("bob is not at home".to_owned());
    }
    println!("{name} is served at attempt {attempt}");
    Ok(())
}

fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "jobs.redb".to_owned());
    let jobs = Jobs::spawn(Jobs { database: Database::create(file)? });
    for name in ["ada", "bob", "cleo"] {
        jobs.ask(Enqueue { name: name.to_owned() }).await?;
    }
    while jobs.ask(Pending).await? > 0 {
        jobs.ask(Work).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("all orders are served");
    Ok(())
}
