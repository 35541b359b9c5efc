//! Tests of the messages on the wire: their texts, their round trips, and texts that are almost messages.

mod fuzz;
mod golden;
mod round_trip;
