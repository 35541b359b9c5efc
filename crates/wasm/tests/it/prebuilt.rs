//! The prebuilt guests of `examples/guests`: newcomers read these programs first, so they must do what they document.

mod courier;
mod keeper;
mod languages;
