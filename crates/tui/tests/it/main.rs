//! Tests of `rusm-top`: as a library, and as a program with and without a terminal. They share one program, because
//! linking takes most of their time.

mod acting;
mod budget;
mod claims;
mod cli;
mod invariants;
mod node_killed;
mod picture;
mod refusals;
mod ssh;
mod terminal;
